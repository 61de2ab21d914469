// SPDX-License-Identifier: Apache-2.0
// Small stores, and files of other programs, for the tests of the token store.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "../corpus_files.hpp"
#include "core/durable_file.hpp"
#include "corpus/hash.hpp"
#include "corpus/held_out.hpp"
#include "corpus/store/shard_writer.hpp"
#include "corpus/store/store_manifest.hpp"

namespace espalier::testing {

/// Writes a shard of byte tokens; its record lacks source and stream.
inline ShardRecord write_shard(const std::string& path, const std::vector<std::string>& documents) {
  const ByteTokenizer tokenizer;
  ShardWriter writer(path, tokenizer);
  for (const std::string& text : documents) {
    const std::vector<int32_t> tokens = tokenizer.encode(text);
    writer.append(tokens.data(), static_cast<int64_t>(tokens.size()));
    writer.end_document(hash_bytes(text.data(), text.size()), static_cast<int64_t>(text.size()));
  }
  const ShardRecord record = writer.finish();
  writer.publish();
  return record;
}

/// A store of byte tokens: each source is split by is_held_out, two shards a stream where it has
/// the documents.
class StoreBuilder {
 public:
  explicit StoreBuilder(const std::string& path, double held_out = 0.3) : path_(path) {
    for (const char* folder : {"train", "validation"}) {
      std::filesystem::create_directories(path + "/" + folder);
    }
    manifest.tokenizer = "bytes";
    manifest.vocab_size = 257;
    manifest.end_of_document = 256;
    manifest.held_out = held_out;
    manifest.seed = 5;
    manifest.details = {{"made", "by a test"}};
  }

  void add(const std::string& name, const std::string& language,
           const std::vector<std::string>& documents) {
    const auto source = static_cast<int64_t>(manifest.sources.size());
    manifest.sources.push_back({name, language, 1.0 + static_cast<double>(source)});
    for (int piece = 0; piece < 2; ++piece) {
      std::vector<std::string> parts[2];
      for (size_t i = static_cast<size_t>(piece); i < documents.size(); i += 2) {
        const bool out = is_held_out(documents[i], manifest.held_out, manifest.seed);
        parts[out ? 1 : 0].push_back(documents[i]);
      }
      for (const Stream stream : {Stream::train, Stream::validation}) {
        const auto& part = parts[stream == Stream::train ? 0 : 1];
        if (part.empty()) continue;
        const std::string file = fmt::format("{}/{}-{:05}.tok", stream_name(stream), name, piece);
        ShardRecord record = write_shard(path_ + "/" + file, part);
        record.file = file;
        record.source = source;
        record.stream = stream;
        manifest.shards.push_back(record);
      }
    }
  }

  void finish() const { write_text_file(manifest_path(path_), encode_manifest(manifest)); }
  const std::string& path() const { return path_; }

  StoreManifest manifest;

 private:
  std::string path_;
};

inline std::vector<std::string> some_documents(uint64_t seed, int64_t count) {
  std::vector<std::string> documents;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t key = seed * 1000 + static_cast<uint64_t>(i);
    documents.push_back(random_text(key, 1 + random_bits(key, 3, 0) % 60));
  }
  return documents;
}

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class Stored>
std::string ids_as(const std::vector<int64_t>& ids) {
  std::string bytes;
  for (const int64_t id : ids) put(bytes, static_cast<Stored>(id));
  return bytes;
}

/// Layout of llm.c's dev/data/data_common.py, write_datafile.
template <class Stored>
std::string llmc_bytes(int32_t magic, int32_t version, const std::vector<int64_t>& ids) {
  std::string bytes;
  put(bytes, magic);
  put(bytes, version);
  put(bytes, static_cast<int32_t>(ids.size()));
  bytes.resize(1024, '\0');
  return bytes + ids_as<Stored>(ids);
}

/// Layout of Megatron-LM's megatron/core/datasets/indexed_dataset.py, _IndexWriter.
struct MegatronParts {
  uint64_t version = 1;
  uint8_t type = 8;  // uint16
  std::vector<int32_t> lengths;
  std::vector<int64_t> pointers, documents;  // documents: first sequence of each, then their number
  std::string modes;

  std::string bytes() const {
    std::string out("MMIDIDX\0\0", 9);
    put(out, version);
    put(out, type);
    put(out, static_cast<uint64_t>(lengths.size()));
    put(out, static_cast<uint64_t>(documents.size()));
    for (const int32_t length : lengths) put(out, length);
    for (const int64_t pointer : pointers) put(out, pointer);
    for (const int64_t document : documents) put(out, document);
    return out + modes;
  }

  /// Three documents of 2, 0 and 1 sequences: tokens {1 2 3, 4 9}, {}, {5 9}; 9 ends a document.
  static MegatronParts golden(uint8_t type, int64_t width) {
    MegatronParts parts;
    parts.type = type;
    parts.lengths = {3, 2, 2};
    parts.pointers = {0, 3 * width, 5 * width};
    parts.documents = {0, 2, 2, 3};
    return parts;
  }
};
inline const std::vector<int64_t> kMegatronIds = {1, 2, 3, 4, 9, 5, 9};

inline std::vector<int32_t> read_all(const TokenArray& array) {
  std::vector<int32_t> tokens(static_cast<size_t>(array.tokens()));
  array.read(0, array.tokens(), tokens.data());
  return tokens;
}

/// Message of any Error that `f` throws.
template <class E, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "no exception";
}

}  // namespace espalier::testing
