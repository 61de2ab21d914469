// SPDX-License-Identifier: Apache-2.0
#include "corpus/build/piece_record.hpp"

#include <nlohmann/json.hpp>

#include "core/durable_file.hpp"
#include "core/error.hpp"

namespace espalier {

namespace {

using nlohmann::json;

constexpr int64_t kLargestRecord = int64_t{64} << 20;  // bytes; examples of faults may be many

json json_of(const ShardRecord& s) {
  return {{"file", s.file},
          {"source", s.source},
          {"validation", s.stream == Stream::validation},
          {"documents", s.documents},
          {"tokens", s.tokens},
          {"text_bytes", s.text_bytes},
          {"checksum", s.checksum},
          {"index_checksum", s.index_checksum}};
}

ShardRecord shard_of(const json& j) {
  ShardRecord s;
  s.file = j.at("file").get<std::string>();
  s.source = j.at("source").get<int64_t>();
  s.stream = j.at("validation").get<bool>() ? Stream::validation : Stream::train;
  s.documents = j.at("documents").get<int64_t>();
  s.tokens = j.at("tokens").get<int64_t>();
  s.text_bytes = j.at("text_bytes").get<int64_t>();
  s.checksum = j.at("checksum").get<uint64_t>();
  s.index_checksum = j.at("index_checksum").get<uint64_t>();
  return s;
}

json json_of(const std::vector<ShardRecord>& shards) {
  json list = json::array();
  for (const ShardRecord& shard : shards) list.push_back(json_of(shard));
  return list;
}

std::vector<ShardRecord> shards_of(const json& list) {
  std::vector<ShardRecord> shards;
  for (const json& item : list) shards.push_back(shard_of(item));
  return shards;
}

// Runs `read` on the JSON of a file and turns its complaints into ours.
template <class F>
void read_json(const std::string& path, const F& read) {
  try {
    read(json::parse(read_text_file(path, kLargestRecord)));
  } catch (const json::exception& e) {
    throw DataError(
        fmt::format("{}: is damaged ({}); remove it, and its piece is read again", path, e.what()));
  }
}

}  // namespace

void DuplicateCount::add(const DuplicateCount& other) {
  exact += other.exact;
  near += other.near;
  bytes += other.bytes;
}

json DuplicateCount::to_json() const {
  return {{"exact", exact}, {"near", near}, {"bytes", bytes}};
}

void write_record(const std::string& path, const PieceRecord& record) {
  const json j = {{"documents_read", record.documents_read}, {"bytes_read", record.bytes_read},
                  {"documents_kept", record.documents_kept}, {"faults", record.faults.to_json()},
                  {"cleaning", record.cleaning.to_json()},   {"shards", json_of(record.shards)}};
  write_text_file(path, j.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

PieceRecord read_piece_record(const std::string& path, int64_t examples) {
  PieceRecord record(examples);
  read_json(path, [&](const json& j) {
    record.documents_read = j.at("documents_read").get<int64_t>();
    record.bytes_read = j.at("bytes_read").get<int64_t>();
    record.documents_kept = j.at("documents_kept").get<int64_t>();
    record.faults = InputFaults::from_json(j.at("faults"), examples);
    record.cleaning = CleanCounts::from_json(j.at("cleaning"));
    record.shards = shards_of(j.at("shards"));
  });
  return record;
}

void write_record(const std::string& path, const FinalRecord& record) {
  const json j = {{"shards", json_of(record.shards)}, {"dropped", record.dropped.to_json()}};
  write_text_file(path, j.dump(1) + "\n");
}

FinalRecord read_final_record(const std::string& path) {
  FinalRecord record;
  read_json(path, [&](const json& j) {
    record.shards = shards_of(j.at("shards"));
    const json& dropped = j.at("dropped");
    record.dropped.exact = dropped.at("exact").get<int64_t>();
    record.dropped.near = dropped.at("near").get<int64_t>();
    record.dropped.bytes = dropped.at("bytes").get<int64_t>();
  });
  return record;
}

}  // namespace espalier
