// SPDX-License-Identifier: Apache-2.0
// JSON Lines: one object a line, the text in one of its fields.
#include <simdjson.h>

#include <algorithm>
#include <new>
#include <string>

#include "core/error.hpp"
#include "corpus/source/json_repair.hpp"
#include "corpus/source/line_documents.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

static_assert(LineScanner::kPadding >= simdjson::SIMDJSON_PADDING);

int64_t longest_line(const PartRequest& request) {
  return std::min<int64_t>(request.longest_document_bytes,
                           simdjson::SIMDJSON_MAXSIZE_BYTES - LineScanner::kPadding);
}

// What a line is that is no object, as far as it is easy to see.
std::string not_an_object(std::string_view line, simdjson::error_code code) {
  const size_t first = line.find_first_not_of(" \t");
  const char begin = first == std::string_view::npos ? ' ' : line[first];
  if (begin == '[') return "a JSON array; write one object a line";
  if (code == simdjson::SUCCESS) return "JSON, but no object";
  return fmt::format("no JSON: {}", simdjson::error_message(code));
}

class JsonDocuments : public LineDocuments {
 public:
  explicit JsonDocuments(const PartRequest& request)
      : LineDocuments(request, longest_line(request)),
        is_pointer_(!request.source.field.empty() && request.source.field[0] == '/') {}

 private:
  bool read_line(const Line& line, int64_t number, Document& out) override {
    simdjson::dom::element root;
    simdjson::error_code code = parse(line.text, root);
    int64_t broken = 0;
    if (code == simdjson::UTF8_ERROR || code == simdjson::STRING_ERROR) {
      broken = repair_json(line.text, repaired_);
      if (broken > 0) {
        repaired_.reserve(repaired_.size() + LineScanner::kPadding);
        code = parse(repaired_, root);
      }
    }
    if (code == simdjson::NUMBER_ERROR) {
      blank_numbers(broken > 0 ? std::string(repaired_) : std::string(line.text), repaired_);
      repaired_.reserve(repaired_.size() + LineScanner::kPadding);
      code = parse(repaired_, root);
    }
    if (code == simdjson::EMPTY) {
      request().faults.report(FaultKind::empty_document, number, "is an empty line");
      return false;
    }
    if (code != simdjson::SUCCESS || !root.is_object()) {
      request().faults.report(FaultKind::bad_json, number, not_an_object(line.text, code));
      return false;
    }
    std::string_view text;
    if (!find_text(root, number, text)) return false;
    out.text.assign(text);
    if (broken > 0 && !request().faults.settle_broken(broken, number, "in the line")) return false;
    return request().faults.settle(out.text, number, Utf8::valid);  // the parser looked
  }

  simdjson::error_code parse(std::string_view line, simdjson::dom::element& root) {
    const auto code = parser_.parse(line.data(), line.size(), false).get(root);
    if (code == simdjson::MEMALLOC) throw std::bad_alloc();
    return code;
  }

  bool find_text(simdjson::dom::element root, int64_t number, std::string_view& text) {
    const std::string& field = request().source.field;
    simdjson::dom::element value;
    const auto missing = (is_pointer_ ? root.at_pointer(field) : root.at_key(field)).get(value);
    if (missing == simdjson::SUCCESS && value.get(text) == simdjson::SUCCESS) return true;
    request().faults.report(FaultKind::missing_field, number,
                            missing == simdjson::SUCCESS
                                ? fmt::format("the field {} is no string", field)
                                : fmt::format("there is no field {}", field));
    return false;
  }

  bool is_pointer_;
  simdjson::dom::parser parser_;
  std::string repaired_;
};

}  // namespace

std::unique_ptr<PartReader> read_jsonl_part(const PartRequest& request) {
  return std::make_unique<JsonDocuments>(request);
}

}  // namespace espalier
