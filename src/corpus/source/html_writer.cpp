// SPDX-License-Identifier: Apache-2.0
// Which element does what to the text, and how gaps are closed.
#include "corpus/source/html_writer.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace espalier {
namespace {

enum class Element {
  line,
  paragraph,
  list,
  cell,
  line_break,
  rule,
  preformatted,
  left_out,
  head,
  no_script
};

const std::unordered_map<std::string_view, Element>& elements() {
  static const std::unordered_map<std::string_view, Element> kElements = [] {
    std::unordered_map<std::string_view, Element> table;
    const auto add = [&table](Element element, std::initializer_list<std::string_view> names) {
      for (const std::string_view name : names) table[name] = element;
    };
    add(Element::line, {"address",    "article", "aside",    "body",   "caption",  "center",
                        "dd",         "details", "dialog",   "div",    "dt",       "fieldset",
                        "figcaption", "figure",  "footer",   "form",   "frameset", "header",
                        "hgroup",     "html",    "iframe",   "legend", "li",       "main",
                        "nav",        "object",  "optgroup", "option", "search",   "section",
                        "select",     "summary", "tbody",    "tfoot",  "thead",    "tr"});
    add(Element::paragraph,
        {"blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "p", "table", "title"});
    add(Element::list, {"dir", "dl", "menu", "ol", "ul"});
    add(Element::cell, {"td", "th"});
    add(Element::line_break, {"br"});
    add(Element::rule, {"hr"});
    add(Element::preformatted, {"listing", "pre", "textarea", "xmp"});
    add(Element::left_out, {"rp", "rt", "rtc", "script", "style", "template"});
    add(Element::head, {"head"});
    add(Element::no_script, {"noscript"});
    return table;
  }();
  return kElements;
}

// Inside of what is left out only these are looked at, to find its end.
bool can_be_left_out(Element element) {
  return element == Element::left_out || element == Element::no_script;
}

constexpr std::array<bool, 256> blank_table() {
  std::array<bool, 256> table{};
  for (const unsigned char c : {' ', '\t', '\n', '\r', '\f'}) table[c] = true;
  return table;
}
constexpr std::array<bool, 256> kIsBlank = blank_table();

bool is_blank(char c) {
  return kIsBlank[static_cast<unsigned char>(c)];
}

}  // namespace

void HtmlWriter::ask(Gap gap) {
  gap_ = std::max(gap_, gap);
  if (gap > Gap::cell) after_break_ = false;
}

void HtmlWriter::line_break() {
  const bool second = after_break_;
  ask(second ? Gap::paragraph : Gap::line);
  after_break_ = true;
}

void HtmlWriter::start_element(std::string_view name) {
  const auto found = elements().find(name);
  if (found == elements().end() || (left_out_ > 0 && !can_be_left_out(found->second))) return;
  starts_preformatted_ = false;
  switch (found->second) {
    case Element::line: ask(Gap::line); break;
    case Element::paragraph:
    case Element::rule: ask(Gap::paragraph); break;
    case Element::list: ask(lists_++ == 0 ? Gap::paragraph : Gap::line); break;
    case Element::cell: ask(Gap::cell); break;
    case Element::line_break:
      if (preformatted_ > 0) {
        append_preformatted("\n");
      } else {
        line_break();
      }
      break;
    case Element::preformatted:
      ask(Gap::paragraph);
      ++preformatted_;
      starts_preformatted_ = true;
      break;
    case Element::left_out: ++left_out_; break;
    case Element::head: ++heads_; break;
    case Element::no_script:
      // In the head it holds styles and links; in the body what the reader would see.
      if (heads_ > 0) ++left_out_;
      ask(Gap::line);
      break;
  }
}

void HtmlWriter::end_element(std::string_view name) {
  const auto found = elements().find(name);
  if (found == elements().end() || (left_out_ > 0 && !can_be_left_out(found->second))) return;
  const auto leave = [](int& open) { open = std::max(open - 1, 0); };
  switch (found->second) {
    case Element::line: ask(Gap::line); break;
    case Element::paragraph: ask(Gap::paragraph); break;
    case Element::list:
      leave(lists_);
      ask(lists_ == 0 ? Gap::paragraph : Gap::line);
      break;
    case Element::preformatted:
      leave(preformatted_);
      ask(Gap::paragraph);
      break;
    case Element::left_out: leave(left_out_); break;
    case Element::head:
      leave(heads_);
      ask(Gap::line);
      break;
    case Element::no_script:
      if (heads_ > 0) leave(left_out_);
      ask(Gap::line);
      break;
    case Element::cell:
    case Element::line_break:
    case Element::rule: break;
  }
}

// Writes the gap that was asked for, none before the first word.
void HtmlWriter::close_gap() {
  if (!text_.empty() && gap_ > Gap::blank) {
    while (!text_.empty() && is_blank(text_.back())) text_.pop_back();  // the end of a <pre>
  }
  if (!text_.empty()) {
    switch (gap_) {
      case Gap::none: break;
      case Gap::blank:
        if (!is_blank(text_.back())) text_ += ' ';
        break;
      case Gap::cell: text_ += '\t'; break;
      case Gap::line: text_ += '\n'; break;
      case Gap::paragraph: text_ += "\n\n"; break;
    }
  }
  gap_ = Gap::none;
  after_break_ = false;
}

void HtmlWriter::append_preformatted(std::string_view text) {
  // The first line feed behind <pre> belongs to the tag.
  if (starts_preformatted_ && !text.empty() && text[0] == '\n') text.remove_prefix(1);
  starts_preformatted_ = false;
  if (text.empty()) return;
  close_gap();
  text_.append(text);
}

void HtmlWriter::characters(std::string_view text) {
  if (left_out_ > 0) return;
  if (preformatted_ > 0) {
    append_preformatted(text);
    return;
  }
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    if (is_blank(text[at])) {
      while (end < text.size() && is_blank(text[end])) ++end;
      ask(Gap::blank);
    } else {
      while (end < text.size() && !is_blank(text[end])) ++end;
      if (gap_ == Gap::blank && !text_.empty()) {
        text_ += ' ';
        gap_ = Gap::none;
        after_break_ = false;
      } else if (gap_ != Gap::none || after_break_) {
        close_gap();
      }
      text_.append(text.substr(at, end - at));
    }
    at = end;
  }
}

void HtmlWriter::forget_open_elements() {
  left_out_ = preformatted_ = lists_ = heads_ = 0;
  starts_preformatted_ = false;
  ask(Gap::line);
}

void HtmlWriter::finish() {
  while (!text_.empty() && is_blank(text_.back())) text_.pop_back();
  const size_t first =
      static_cast<size_t>(std::find_if_not(text_.begin(), text_.end(), is_blank) - text_.begin());
  text_.erase(0, first);
}

}  // namespace espalier
