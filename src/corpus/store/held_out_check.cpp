// SPDX-License-Identifier: Apache-2.0
// Held-out documents looked up among those of training: one pass over the hashes of each.
#include "corpus/store/held_out_check.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/error.hpp"
#include "core/log.hpp"
#include "corpus/held_out.hpp"
#include "corpus/store/shard.hpp"
#include "corpus/store/store_manifest.hpp"
#include "corpus/token_file.hpp"

namespace espalier {

namespace fs = std::filesystem;

namespace {

template <class Function>
void each_part(const OpenTokens& tokens, Function&& function) {
  for (const TokenSource& source : tokens.sources) {
    for (const auto& part : source.parts) function(*part);
  }
}

template <class Function>
void each_shard(const OpenTokens& tokens, Function&& function) {
  each_part(tokens, [&](const TokenArray& part) {
    if (const auto* shard = dynamic_cast<const Shard*>(&part)) function(*shard);
  });
}

// A set of hashes: sorted, behind a table of bits that answers for nearly all that are not in it.
class HashSet {
 public:
  explicit HashSet(std::vector<uint64_t> hashes) : hashes_(std::move(hashes)) {
    std::sort(hashes_.begin(), hashes_.end());
    while ((uint64_t{1} << bits_) < 8 * hashes_.size()) ++bits_;
    seen_.resize(size_t{1} << bits_);
    for (const uint64_t hash : hashes_) seen_[place(hash)] = true;
  }
  bool has(uint64_t hash) const {
    return seen_[place(hash)] && std::binary_search(hashes_.begin(), hashes_.end(), hash);
  }

 private:
  size_t place(uint64_t hash) const { return static_cast<size_t>(hash >> (64 - bits_)); }

  std::vector<uint64_t> hashes_;
  std::vector<bool> seen_;
  int bits_ = 6;
};

[[noreturn]] void fail(const Shard& train, int64_t document, const OpenTokens& validation) {
  const uint64_t hash = train.document_hash(document);
  std::string where = "a validation shard";
  each_shard(validation, [&](const Shard& shard) {
    for (int64_t i = 0; i < shard.documents(); ++i) {
      if (shard.document_hash(i) == hash) {
        where = fmt::format("document {} of {}", i, shard.path());
        return;
      }
    }
  });
  throw DataError(fmt::format(
      "{}: document {} is held out: it is {} too (text hash {:016x}), and held-out text must not "
      "be "
      "trained on; build both with the same build.held_out and build.seed, or into one store",
      train.path(), document, where, hash));
}

// Header of a file in this program's format, with or without index.
const TokenHeader* header_of(const TokenArray& array) {
  if (const auto* shard = dynamic_cast<const Shard*>(&array)) return &shard->header();
  if (const auto* file = dynamic_cast<const TokenFile*>(&array)) return &file->header();
  return nullptr;
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

void warn_of_equal_files(const OpenTokens& train, const OpenTokens& validation) {
  std::set<std::pair<uint64_t, int64_t>> contents;
  each_part(train, [&](const TokenArray& array) {
    if (const TokenHeader* header = header_of(array)) {
      contents.insert({header->checksum, header->tokens});
    }
  });
  each_part(validation, [&](const TokenArray& held_out) {
    const TokenHeader* b = header_of(held_out);
    if (b != nullptr && contents.count({b->checksum, b->tokens}) == 0) return;
    each_part(train, [&](const TokenArray& array) {
      const TokenHeader* a = header_of(array);
      const bool same =
          a != nullptr && b != nullptr
              ? a->checksum == b->checksum && a->tokens == b->tokens
              : array.tokens() == held_out.tokens() && is_same_file(array.path(), held_out.path());
      if (same) {
        warn("{} holds the same tokens as {}: the validation loss is that of training text",
             held_out.path(), array.path());
      }
    });
  });
}

}  // namespace

void require_disjoint(const OpenTokens& train, const OpenTokens& validation) {
  std::vector<uint64_t> held_out;
  int64_t documents = 0;
  each_shard(validation, [&](const Shard& shard) { documents += shard.documents(); });
  held_out.reserve(static_cast<size_t>(documents));
  each_shard(validation, [&](const Shard& shard) {
    for (int64_t i = 0; i < shard.documents(); ++i) held_out.push_back(shard.document_hash(i));
  });
  if (documents > 0) {
    const HashSet hashes(std::move(held_out));
    each_shard(train, [&](const Shard& shard) {
      for (int64_t i = 0; i < shard.documents(); ++i) {
        if (hashes.has(shard.document_hash(i))) fail(shard, i, validation);
      }
    });
  }
  warn_of_equal_files(train, validation);
}

void require_not_held_out(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw DataError(fmt::format(
        "{}: {}, and held-out text must not be trained on; name it in data.validation, and in "
        "data.train what was built for training",
        path, why));
  };
  std::error_code error;
  const fs::path file = fs::canonical(path, error);  // links do not hide where it lies
  if (error) return;                                 // opening it says more
  const fs::path folder = file.parent_path(), store = folder.parent_path();
  if (fs::exists(manifest_path(store.string()), error)) {
    const std::string name = (folder.filename() / file.filename()).string();
    if (folder.filename() == stream_name(Stream::validation)) {
      refuse(fmt::format("lies among the validation shards of {}", store.string()));
    }
    for (const ShardRecord& shard : read_manifest(store.string()).shards) {
      if (shard.file == name && shard.stream == Stream::validation) {
        refuse(fmt::format("is a validation shard of {}", store.string()));
      }
    }
  }
  // What releases before stores wrote.
  const std::string whole = file.string(), ending = ".validation.tok";
  if (whole.size() <= ending.size()) return;
  const std::string prefix = whole.substr(0, whole.size() - ending.size());
  if (whole == prefix + ending && fs::exists(prefix + ".train.tok", error))
    refuse(fmt::format("is the held-out part of {}.train.tok", prefix));
}

}  // namespace espalier
