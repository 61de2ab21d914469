// SPDX-License-Identifier: Apache-2.0
// Elements and characters of a page, as they come, put down as lines of text.
#pragma once

#include <string>
#include <string_view>

namespace espalier {

class HtmlWriter {
 public:
  explicit HtmlWriter(std::string& text) : text_(text) { text_.clear(); }

  void start_element(std::string_view name);
  void end_element(std::string_view name);
  void characters(std::string_view text);
  /// For the attribute alt of an image.
  void inline_text(std::string_view text) { characters(text); }
  /// The elements that are open will not be ended.
  void forget_open_elements();
  void finish();

 private:
  // What is to be written before the next word; the larger ones swallow the smaller.
  enum class Gap { none, blank, cell, line, paragraph };

  void ask(Gap gap);
  void close_gap();
  void append_preformatted(std::string_view text);
  void line_break();

  std::string& text_;
  Gap gap_ = Gap::none;
  int left_out_ = 0, preformatted_ = 0, lists_ = 0, heads_ = 0;  // open elements of the kind
  bool after_break_ = false;                                     // <br> was the last thing
  bool starts_preformatted_ = false;                             // just behind <pre>
};

}  // namespace espalier
