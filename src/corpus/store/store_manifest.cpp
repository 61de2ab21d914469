// SPDX-License-Identifier: Apache-2.0
// manifest.json to StoreManifest and back. Fields: docs/token-store-format.md.
#include "corpus/store/store_manifest.hpp"

#include <sys/stat.h>

#include <initializer_list>
#include <limits>

#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "corpus/hash.hpp"
#include "corpus/store/manifest_rules.hpp"

namespace espalier {
namespace {

constexpr int64_t kMostManifestBytes = int64_t{1} << 30;  // millions of shards
constexpr const char* kRebuild = "copy the store again, or rebuild it with espalier corpus build";

std::string hexadecimal(uint64_t value) {
  return fmt::format("{:016x}", value);
}

constexpr int kMostLevels = 100;

// Reads fields of known names and types, and says where one is odd.
class Reader {
 public:
  Reader(const OrderedJson& json, std::string path, std::string place)
      : json_(json), path_(std::move(path)), place_(std::move(place)) {
    if (!json_.is_object()) fail("is no object");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: {} {}; {}", path_, place_, what, kRebuild));
  }

  void require_only(std::initializer_list<const char*> names) const {
    for (const auto& item : json_.items()) {
      bool known = false;
      for (const char* name : names) known = known || item.key() == name;
      if (!known)
        fail(fmt::format("has a field {} that format version 1 does not have",
                         OrderedJson(item.key()).dump()));
    }
    if (json_.size() != names.size()) {
      for (const char* name : names) at(name);
    }
  }

  const OrderedJson& at(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) fail(fmt::format("has no field {}", name));
    return *found;
  }

  Reader object(const char* name) const {
    return Reader(at(name), path_, place_ == "it" ? name : place_ + "." + name);
  }

  std::string text(const char* name) const {
    if (!at(name).is_string()) fail(fmt::format("has a field {} that is no text", name));
    return at(name).get<std::string>();
  }

  int64_t count(const char* name) const {
    const OrderedJson& value = at(name);
    if (!value.is_number_unsigned() ||
        value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail(fmt::format("has a field {} that is no count", name));
    }
    return value.get<int64_t>();
  }

  uint64_t unsigned_number(const char* name) const {
    if (!at(name).is_number_unsigned()) {
      fail(fmt::format("has a field {} that is no whole number from 0 on", name));
    }
    return at(name).get<uint64_t>();
  }

  double number(const char* name) const {
    if (!at(name).is_number()) fail(fmt::format("has a field {} that is no number", name));
    return at(name).get<double>();
  }

  uint64_t checksum(const char* name) const {
    const std::string digits = text(name);
    if (digits.size() != 16 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
      fail(fmt::format("has a field {} that is not of 16 hexadecimal digits", name));
    }
    return std::stoull(digits, nullptr, 16);
  }

  const OrderedJson& list(const char* name) const {
    if (!at(name).is_array()) fail(fmt::format("has a field {} that is no list", name));
    return at(name);
  }

 private:
  const OrderedJson& json_;
  std::string path_, place_;
};

SourceRecord read_source(const Reader& in) {
  in.require_only({"name", "language", "weight"});
  return {in.text("name"), in.text("language"), in.number("weight")};
}

ShardRecord read_shard(const Reader& in) {
  in.require_only({"file", "source", "stream", "documents", "tokens", "text_bytes", "checksum",
                   "index_checksum"});
  ShardRecord shard;
  shard.file = in.text("file");
  shard.source = in.count("source");
  const std::string stream = in.text("stream");
  if (stream != "train" && stream != "validation") in.fail("has an unknown stream");
  shard.stream = stream == "train" ? Stream::train : Stream::validation;
  shard.documents = in.count("documents");
  shard.tokens = in.count("tokens");
  shard.text_bytes = in.count("text_bytes");
  shard.checksum = in.checksum("checksum");
  shard.index_checksum = in.checksum("index_checksum");
  return shard;
}

void check_format(const Reader& in, const std::string& path) {
  if (in.text("format") != kStoreFormat) {
    throw DataError(
        fmt::format("{}: is not the manifest of a token store (its format is not "
                    "\"{}\"); name a folder made by espalier corpus build",
                    path, kStoreFormat));
  }
  const int64_t version = in.count("version");
  if (version > kStoreFormatVersion) {
    throw DataError(fmt::format(
        "{}: format version {} is newer than the {} that this program reads; use a newer espalier, "
        "or rebuild the store with this one",
        path, version, kStoreFormatVersion));
  }
  if (version != kStoreFormatVersion) in.fail(fmt::format("has version {}", version));
}

// What closes a manifest of this text.
std::string checksum_tail(std::string_view text) {
  return fmt::format(",\n \"checksum\": \"{}\"\n}}\n",
                     hexadecimal(hash_bytes(text.data(), text.size())));
}

// Which table of counts is not what the shards add up to?
void check_counts(const Reader& in, const StoreManifest& manifest) {
  const OrderedJson expected = counts_of(manifest);
  const Reader counts = in.object("counts");
  counts.require_only({"stream", "language", "source"});
  for (const char* table : {"stream", "language", "source"}) {
    if (nlohmann::json(counts.at(table)) == nlohmann::json(expected.at(table))) continue;
    in.fail(fmt::format("has counts by {} that are not the sums over its shards", table));
  }
}

}  // namespace

std::string encode_manifest(const StoreManifest& manifest) {
  const std::string fault = find_manifest_fault(manifest);
  ESPALIER_REQUIRE(fault.empty(), "manifest: {}", fault);
  OrderedJson sources = OrderedJson::array(), shards = OrderedJson::array();
  for (const SourceRecord& source : manifest.sources) {
    sources.push_back(
        {{"name", source.name}, {"language", source.language}, {"weight", source.weight}});
  }
  for (const ShardRecord& shard : manifest.shards) {
    shards.push_back({{"file", shard.file},
                      {"source", shard.source},
                      {"stream", stream_name(shard.stream)},
                      {"documents", shard.documents},
                      {"tokens", shard.tokens},
                      {"text_bytes", shard.text_bytes},
                      {"checksum", hexadecimal(shard.checksum)},
                      {"index_checksum", hexadecimal(shard.index_checksum)}});
  }
  const OrderedJson json = {
      {"format", kStoreFormat},
      {"version", kStoreFormatVersion},
      {"tokenizer",
       {{"name", manifest.tokenizer},
        {"vocab_size", manifest.vocab_size},
        {"end_of_document", manifest.end_of_document}}},
      {"held_out", {{"fraction", manifest.held_out}, {"seed", manifest.seed}}},
      {"counts", counts_of(manifest)},
      {"sources", sources},
      {"shards", shards},
      {"details", OrderedJson(manifest.details)}};
  std::string text = json.dump(1, ' ', false, OrderedJson::error_handler_t::replace);
  text.resize(text.size() - 2);  // the closing "\n}" comes behind the checksum
  return text + checksum_tail(text);
}

void verify_manifest(const std::string& store) {
  const std::string path = manifest_path(store);
  const std::string text = read_text_file(path, kMostManifestBytes);
  const size_t tail = checksum_tail("").size();
  if (text.size() > tail) {
    const std::string_view body = std::string_view(text).substr(0, text.size() - tail);
    if (text.compare(body.size(), tail, checksum_tail(body)) == 0) return;
  }
  throw DataError(
      fmt::format("{}: its checksum is not that of its text: it is damaged, or was edited; {}",
                  path, kRebuild));
}

StoreManifest decode_manifest(const std::string& text, const std::string& path) {
  // Converting and writing JSON is recursive: no file may choose how deep.
  const auto limit_depth = [&](int depth, OrderedJson::parse_event_t, OrderedJson&) {
    if (depth > kMostLevels) {
      throw DataError(fmt::format("{}: lists and objects stand in each other {} deep; {}", path,
                                  depth, kRebuild));
    }
    return true;
  };
  OrderedJson json;
  try {
    json = OrderedJson::parse(text, limit_depth);
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("{}: is no JSON ({}); {}", path, error.what(), kRebuild));
  }
  const Reader in(json, path, "it");
  check_format(in, path);
  in.require_only(
      {"format", "version", "tokenizer", "held_out", "counts", "sources", "shards", "details",
       "checksum"});  // the last is for verify_manifest: a reader holds what it says against itself
  StoreManifest manifest;
  const Reader tokenizer = in.object("tokenizer");
  tokenizer.require_only({"name", "vocab_size", "end_of_document"});
  manifest.tokenizer = tokenizer.text("name");
  manifest.vocab_size = tokenizer.count("vocab_size");
  manifest.end_of_document = tokenizer.count("end_of_document");
  const Reader held_out = in.object("held_out");
  held_out.require_only({"fraction", "seed"});
  manifest.held_out = held_out.number("fraction");
  manifest.seed = held_out.unsigned_number("seed");
  for (const OrderedJson& source : in.list("sources")) {
    manifest.sources.push_back(
        read_source(Reader(source, path, fmt::format("sources[{}]", manifest.sources.size()))));
  }
  for (const OrderedJson& shard : in.list("shards")) {
    manifest.shards.push_back(
        read_shard(Reader(shard, path, fmt::format("shards[{}]", manifest.shards.size()))));
  }
  manifest.details = nlohmann::json(in.at("details"));
  const std::string fault = find_manifest_fault(manifest);
  if (!fault.empty()) throw DataError(fmt::format("{}: {}; {}", path, fault, kRebuild));
  check_counts(in, manifest);
  return manifest;
}

StoreManifest read_manifest(const std::string& store) {
  const std::string path = manifest_path(store);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw DataError(fmt::format(
        "{}: is no token store (it has no {}); name a folder that espalier corpus build has "
        "finished, or start the build again: it goes on where it stopped",
        store, kManifestName));
  }
  return decode_manifest(read_text_file(path, kMostManifestBytes), path);
}

std::string manifest_path(const std::string& store) {
  return store + "/" + kManifestName;
}

std::string tokenizer_folder(const std::string& store) {
  return store + "/tokenizer";
}

}  // namespace espalier
