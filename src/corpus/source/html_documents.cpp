// SPDX-License-Identifier: Apache-2.0
// Web pages: each file is one document.
#include <algorithm>
#include <climits>
#include <string>

#include "core/error.hpp"
#include "corpus/source/html_encoding.hpp"
#include "corpus/source/html_text.hpp"
#include "corpus/source/part_input.hpp"

namespace espalier {
namespace {

// A page in UTF-8 may be three times as long, and libxml2 counts with int.
constexpr int64_t kLongestPage = INT_MAX / 4;

class PageDocument : public PartReader {
 public:
  explicit PageDocument(const PartRequest& request) : request_(request), input_(request.file, 0) {
    request_.longest_document_bytes = std::min(request_.longest_document_bytes, kLongestPage);
  }

  bool next(Document& out) override {
    if (done_) return false;
    done_ = true;
    out.line = 1;
    return read_whole_file(request_, input_, page_) && decode() && parse(out.text) &&
           request_.faults.settle(out.text, 1);
  }
  int64_t disk_position() const override { return input_.disk_position(); }

 private:
  // Replaces what is broken in any case: the parser would take it for another encoding.
  bool decode() {
    const std::string declared = declared_encoding(page_);
    const bool is_usable = !declared.empty() && is_known_encoding(declared);
    const std::string& other = request_.source.encoding;
    const std::string name = is_usable ? declared : other.empty() ? "utf-8" : other;
    std::string utf8;
    const int64_t broken = decode_page(page_, name, utf8);
    page_.swap(utf8);
    if (broken == 0) return true;
    const std::string why = declared.empty() || is_usable
                                ? fmt::format("read as {}", name)
                                : fmt::format(
                                      "read as {}, since the page's own encoding \"{}\" is "
                                      "not known",
                                      name, declared);
    return request_.faults.settle_broken(broken, 1, why);
  }

  bool parse(std::string& text) {
    const size_t size = page_.size();
    const size_t used = html_to_text(page_, text);
    if (used == size) return true;
    // A part of a document must not pass for the whole.
    const auto line =
        std::count(page_.begin(), page_.begin() + static_cast<std::ptrdiff_t>(used), '\n');
    request_.faults.report(FaultKind::damaged_file, line + 1,
                           fmt::format("the HTML parser gives up at byte {} of {}", used, size));
    return false;
  }

  PartRequest request_;
  PartInput input_;
  std::string page_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<PartReader> read_html_part(const PartRequest& request) {
  return std::make_unique<PageDocument>(request);
}

}  // namespace espalier
