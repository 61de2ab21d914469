// SPDX-License-Identifier: Apache-2.0
// vocab.json and merges.txt.
#include "core/error.hpp"
#include "corpus/tokenizer/bpe_files.hpp"
#include "corpus/tokenizer/json_reader.hpp"

namespace espalier {
namespace {

constexpr const char* kEnd = "<|endoftext|>";

void read_merges(const std::string& text, const std::string& where, BpeTable& table) {
  size_t line_number = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.compare(0, 8, "#version") == 0 || (line.empty() && at >= text.size())) continue;
    const size_t blank = line.find(' ');
    if (blank == std::string::npos || line.find(' ', blank + 1) != std::string::npos) {
      throw DataError(fmt::format("{}: line {} of the merges is not two words: {}", where,
                                  line_number, line.substr(0, 80)));
    }
    table.merges.emplace_back(line.substr(0, blank), line.substr(blank + 1));
  }
}

}  // namespace

BpeDescription describe_gpt2(const std::string& vocab, const std::string& merges,
                             const std::string& where) {
  BpeDescription description;
  description.where = where;
  const nlohmann::json json = parse_json(vocab, where + ": vocabulary");
  const JsonObject object(json, where + ": vocabulary");
  for (const auto& item : json.items()) {
    const int64_t id = object.count(item.key().c_str());
    if (id > 0x7FFFFFF0) object.fail(fmt::format("has the id {}, which is out of range", id));
    description.table.vocab.emplace_back(item.key(), static_cast<int32_t>(id));
    if (item.key() == kEnd) {
      AddedToken end;
      end.content = kEnd;
      end.id = static_cast<int32_t>(id);
      end.special = true;
      end.normalized = false;
      description.added.push_back(end);
    }
  }
  read_merges(merges, where, description.table);
  PreTokenizerStep scan;
  scan.kind = PreTokenizerStep::Kind::scan;
  scan.scanner = Scanner::gpt2;
  description.pre_tokenizer.push_back(scan);
  description.decode.byte_alphabet = true;
  return description;
}

}  // namespace espalier
