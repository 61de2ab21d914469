// SPDX-License-Identifier: Apache-2.0
// PCRE2 behind Pattern.
#include "corpus/tokenizer/pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/error.hpp"
#include "corpus/tokenizer/character_classes.hpp"

namespace espalier {
namespace {

constexpr uint32_t kMatchLimit = 10'000'000;  // steps of one match, as PCRE2 counts them
constexpr size_t kSmallStack = size_t{1} << 15, kLargeStack = size_t{1} << 23;

// What a thread needs to match; PCRE2 shares none of it.
struct Workspace {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kSmallStack, kLargeStack, nullptr);

  Workspace() {
    if (data == nullptr || context == nullptr || stack == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_depth_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, 1 << 18);  // KiB
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Workspace() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
};

std::string words_of(int error) {
  PCRE2_UCHAR8 words[256];
  pcre2_get_error_message(error, words, sizeof words);
  return reinterpret_cast<const char*>(words);
}

}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  std::string shown, where;
  ~Code() { pcre2_code_free(code); }
};

Pattern::Pattern() : code_(std::make_unique<Code>()) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

Pattern::Pattern(const std::string& expression, const std::string& where) : Pattern() {
  const std::string words = translate_expression(expression, where);
  code_->shown = expression.substr(0, 80);
  code_->where = where;
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR8>(words.data()), words.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                              &error, &at, context);
  pcre2_compile_context_free(context);
  if (code_->code == nullptr) {
    throw DataError(fmt::format("{}: pattern {} is none that this program knows: {} (byte {})",
                                where, code_->shown, words_of(error), at));
  }
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // without JIT it only takes longer
}

Pattern Pattern::literal(const std::string& text, const std::string& where) {
  if (text.empty()) throw DataError(where + ": the pattern is an empty string; name a text");
  std::string expression;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x80 || byte == '_' || (byte >= '0' && byte <= '9') ||
                       (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    expression += plain ? std::string(1, c) : fmt::format("\\x{{{:x}}}", byte);
  }
  return Pattern(expression, where);
}

void Pattern::find(std::string_view text, std::vector<Stretch>& stretches) const {
  thread_local Workspace workspace;
  const auto* subject = reinterpret_cast<PCRE2_SPTR8>(text.data());
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(workspace.data);
  size_t from = 0, shown = 0;  // where to look on, and the end of the last stretch
  size_t last = std::string_view::npos;
  while (from <= text.size() && !text.empty()) {
    int found = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                            workspace.data, workspace.context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(code_->code, subject, text.size(), from,
                          PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, workspace.data, workspace.context);
    }
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      throw DataError(fmt::format(
          "{}: matching pattern {} at byte {} of a text of {} bytes failed: {}; use a simpler "
          "pattern or leave the text out",
          code_->where, code_->shown, from, text.size(), words_of(found)));
    }
    const size_t begin = offsets[0], end = offsets[1];
    // \K is refused, so that begin <= end and begin >= from.
    if (begin == end && last == end) {  // no empty match right behind another
      if (from >= text.size()) break;
      from += character_bytes(text[from]);
      continue;
    }
    if (shown != begin) stretches.push_back({shown, begin, false});
    stretches.push_back({begin, end, true});
    shown = from = last = end;
  }
  if (shown != text.size()) stretches.push_back({shown, text.size(), false});
}

}  // namespace espalier
