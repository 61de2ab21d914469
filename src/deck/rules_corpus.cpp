// SPDX-License-Identifier: Apache-2.0
// Rules across the keys of a corpus deck.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "deck/corpus_draft.hpp"

namespace espalier {
namespace {

constexpr size_t kLongestName = 64;
constexpr int64_t kSmallestDocument = 64;  // bytes

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kLongestName && name[0] != '.' && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

// The outward form of a tag of BCP 47 (RFC 5646, section 2.1): subtags of up to 8 letters or
// digits, the first of 2 to 8 letters.
bool is_language_tag(const std::string& tag) {
  size_t length = 0;
  bool is_first = true;
  for (size_t i = 0; i <= tag.size(); ++i) {
    if (i == tag.size() || tag[i] == '-') {
      if (length < (is_first ? 2 : 1) || length > 8) return false;
      length = 0;
      is_first = false;
      continue;
    }
    const char c = tag[i];
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_letter && (is_first || c < '0' || c > '9')) return false;
    ++length;
  }
  return true;
}

void check_documents(CorpusDraft& draft, int64_t i) {
  const SourceConfig& s = draft.config.sources[static_cast<size_t>(i)];
  const auto is_given = [&](const char* name) { return draft.is_explicit(name, i); };
  if (s.documents == DocumentCut::separator && s.separator.empty() &&
      draft.is_sound("source.separator", i))
    draft.missing("source.separator", i, "documents = \"separator\" needs it",
                  "give the line that stands between documents, for example \"<|endoftext|>\"");
  if (s.documents == DocumentCut::size && s.document_bytes < kSmallestDocument &&
      draft.is_sound("source.document_bytes", i)) {
    if (is_given("source.document_bytes") || s.document_bytes != 0)
      draft.fault("source.document_bytes", i, fmt::format("must be at least {}", kSmallestDocument),
                  "try 4096");
    else
      draft.missing("source.document_bytes", i, "documents = \"size\" needs it", "try 4096");
  }
  const auto idle = [&](const char* name, bool is_idle, const char* why) {
    if (is_idle && is_given(name)) draft.warn(name, i, std::string("without effect: ") + why, "");
  };
  idle("source.separator", s.documents != DocumentCut::separator, "documents is not separator");
  idle("source.document_bytes", s.documents != DocumentCut::size, "documents is not size");
  const bool may_be_text = s.format == SourceFormat::automatic || s.format == SourceFormat::text;
  idle("source.documents", !may_be_text, "format is not text");
  idle("source.field", s.format == SourceFormat::text || s.format == SourceFormat::html,
       "format is not jsonl");
  idle("source.encoding", s.format == SourceFormat::text || s.format == SourceFormat::jsonl,
       "format is not html");
}

void check_source(CorpusDraft& draft, int64_t i, std::set<std::string>& names) {
  const SourceConfig& s = draft.config.sources[static_cast<size_t>(i)];
  if (draft.is_sound("source.name", i)) {
    if (!is_name(s.name))
      draft.fault(
          "source.name", i, "is no name",
          fmt::format("use letters, digits, - . and _, up to {}, a letter, digit or _ first",
                      kLongestName));
    else if (s.name == "all")
      draft.fault("source.name", i, "is the name of the sum of all sources", "choose another");
    else if (!names.insert(s.name).second)
      draft.fault("source.name", i, "stands twice", "give each source a name of its own");
  }
  if (draft.is_sound("source.paths", i) && s.paths.empty())
    draft.fault("source.paths", i, "names no file", "list files, folders or globs");
  if (draft.is_sound("source.language", i) && !s.language.empty() && !is_language_tag(s.language))
    draft.fault("source.language", i, "is no language tag", "try en, zh-Hant or pt-BR");
  if (draft.is_sound("source.field", i) && s.field.empty())
    draft.fault("source.field", i, "is empty", "try text");
  check_documents(draft, i);
  // As Cleaner::skips_script_share: "und" is the tag of a language that is not known.
  if (draft.config.clean.min_script_share > 0 && (s.language.empty() || s.language == "und"))
    draft.warn("source.language", i,
               "clean.min_script_share checks nothing where the language is not known",
               "give the source's language");
}

void check_clean(CorpusDraft& draft) {
  const CleanConfig& c = draft.config.clean;
  if (c.max_characters > 0 && c.max_characters < c.min_characters)
    draft.fault(
        "clean.max_characters", kNoSource,
        fmt::format("is below min_characters = {}, so every document is dropped", c.min_characters),
        "raise it, or 0 for no limit");
  if (c.deduplicate == Deduplication::near) return;
  for (const char* name : {"clean.similarity", "clean.shingle"})
    if (draft.is_explicit(name) && draft.is_sound(name))
      draft.warn(name, kNoSource, "without effect: deduplicate is not near", "");
}

void check_tokenizer(CorpusDraft& draft) {
  const TokenizerConfig& t = draft.config.tokenizer;
  const bool is_bytes = t.kind == TokenizerKind::bytes;
  if (!is_bytes && t.path.empty() && draft.is_sound("tokenizer.path"))
    draft.missing(
        "tokenizer.path", kNoSource, "this kind of tokenizer is read from files",
        "name the .model, the tokenizer.json, or the folder of vocab.json and merges.txt");
  if (!is_bytes) return;
  const auto refuse = [&](const char* name, bool is_given) {
    if (is_given)
      draft.fault(name, kNoSource, "tokenizer.kind = \"bytes\" has no files and no special tokens",
                  "leave it out");
  };
  refuse("tokenizer.path", !t.path.empty());
  refuse("tokenizer.end_of_document", !t.end_of_document.empty());
  refuse("tokenizer.special_tokens", t.special_tokens != SpecialTokens::as_text);
}

}  // namespace

void check_corpus(CorpusDraft& draft) {
  if (draft.config.build.output.empty() && draft.config.train_tokenizer.output.empty() &&
      draft.is_sound("build.output"))
    draft.missing("build.output", kNoSource, "string", "name the folder of the token store");
  std::set<std::string> names;
  for (size_t i = 0; i < draft.config.sources.size(); ++i)
    check_source(draft, static_cast<int64_t>(i), names);
  check_clean(draft);
  check_tokenizer(draft);
}

}  // namespace espalier
