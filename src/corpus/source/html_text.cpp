// SPDX-License-Identifier: Apache-2.0
// libxml2's HTML parser, its events handed to a writer; no tree is built.
#include "corpus/source/html_text.hpp"

#include <libxml/HTMLparser.h>
#include <libxml/parserInternals.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

#include "core/error.hpp"
#include "corpus/source/html_writer.hpp"

namespace espalier {
namespace {

// Each end tag is looked for among the open elements, so deep nesting costs its square. Deeper than
// this the parser starts afresh; browsers stop nesting at 512.
constexpr int kDeepest = 1024;

struct Parse {
  std::string_view page;
  HtmlWriter& writer;
  htmlParserCtxtPtr parser = nullptr;
  bool is_too_deep = false;
  size_t stopped_at = 0;
};

std::string_view view(const xmlChar* text) {
  return reinterpret_cast<const char*>(text);
}

size_t consumed(htmlParserCtxtPtr parser) {
  const xmlParserInput* input = parser->input;
  if (input == nullptr) return 0;
  return input->consumed + static_cast<size_t>(input->cur - input->base);
}

// Where the tag begins that the parser has read up to `end`, behind its attributes.
size_t find_tag(std::string_view page, size_t end, std::string_view name) {
  const auto same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  for (size_t at = std::min(end, page.size()); at > 0;) {
    at = page.rfind('<', at - 1);
    if (at == std::string_view::npos) break;
    const std::string_view there = page.substr(at + 1, name.size());
    if (std::equal(name.begin(), name.end(), there.begin(), there.end(), same)) return at;
  }
  return std::min(end, page.size());
}

void on_start(void* context, const xmlChar* name, const xmlChar** attributes) {
  auto& parse = *static_cast<Parse*>(context);
  if (parse.is_too_deep) return;
  if (parse.parser->nameNr > kDeepest) {
    parse.is_too_deep = true;
    parse.stopped_at = find_tag(parse.page, consumed(parse.parser), view(name));
    ::xmlStopParser(parse.parser);
    return;
  }
  parse.writer.start_element(view(name));
  if (view(name) != "img" || attributes == nullptr) return;
  for (; attributes[0] != nullptr; attributes += 2) {
    if (view(attributes[0]) == "alt" && attributes[1] != nullptr) {
      parse.writer.inline_text(view(attributes[1]));
    }
  }
}

void on_end(void* context, const xmlChar* name) {
  auto& parse = *static_cast<Parse*>(context);
  if (!parse.is_too_deep) parse.writer.end_element(view(name));
}

void on_characters(void* context, const xmlChar* text, int size) {
  auto& parse = *static_cast<Parse*>(context);
  if (parse.is_too_deep) return;
  parse.writer.characters({reinterpret_cast<const char*>(text), static_cast<size_t>(size)});
}

xmlSAXHandler make_handler() {
  xmlSAXHandler handler;
  std::memset(&handler, 0, sizeof handler);
  handler.startElement = &on_start;
  handler.endElement = &on_end;
  handler.characters = &on_characters;
  handler.ignorableWhitespace = &on_characters;
  handler.cdataBlock = &on_characters;
  handler.initialized = 1;
  return handler;
}

// Parses from the beginning of `page`; the bytes that were used. `more_options` of
// htmlParserOption.
size_t parse_page(std::string_view page, int more_options, HtmlWriter& writer) {
  const std::unique_ptr<htmlParserCtxt, void (*)(htmlParserCtxtPtr)> parser(
      ::htmlCreateMemoryParserCtxt(page.data(), static_cast<int>(page.size())),
      &::htmlFreeParserCtxt);
  if (parser == nullptr) throw std::bad_alloc();
  *parser->sax = make_handler();
  Parse parse{page, writer, parser.get()};
  parser->userData = &parse;
  ::htmlCtxtUseOptions(parser.get(), HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING | HTML_PARSE_NONET |
                                         HTML_PARSE_NODEFDTD | HTML_PARSE_IGNORE_ENC |
                                         more_options);
  ::xmlSwitchEncoding(parser.get(), XML_CHAR_ENCODING_UTF8);
  ::htmlParseDocument(parser.get());
  if (parse.is_too_deep) return parse.stopped_at;
  if (parser->errNo == XML_ERR_NO_MEMORY) throw std::bad_alloc();
  return std::min(consumed(parser.get()), page.size());
}

}  // namespace

size_t html_to_text(std::string& page, std::string& text) {
  ESPALIER_REQUIRE(page.size() <= INT_MAX, "a page of {} bytes", page.size());
  static const bool kIsReady = [] {
    ::xmlInitParser();
    return true;
  }();
  static_cast<void>(kIsReady);
  std::replace(page.begin(), page.end(), '\0', ' ');
  HtmlWriter writer(text);
  size_t at = 0;
  while (at < page.size()) {
    // In the middle of a page text is no new paragraph.
    const int options = at == 0 ? 0 : HTML_PARSE_NOIMPLIED;
    const size_t used = parse_page(std::string_view(page).substr(at), options, writer);
    if (used == 0) break;
    at += used;
    if (at < page.size()) writer.forget_open_elements();
  }
  writer.finish();
  return at;
}

}  // namespace espalier
