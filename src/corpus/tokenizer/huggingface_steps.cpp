// SPDX-License-Identifier: Apache-2.0
// tokenizer.json: normalizer, pre_tokenizer and decoder.
#include <algorithm>

#include "core/error.hpp"
#include "corpus/tokenizer/bpe_files.hpp"
#include "corpus/tokenizer/character_classes.hpp"
#include "corpus/tokenizer/json_reader.hpp"

namespace espalier {
namespace {

constexpr const char* kWhitespaceWords =
    R"([\w\x{200C}\x{200D}]+|[^\w\s\x{200C}\x{200D}]+)";  // the regex crate's \w has the joiners
constexpr const char* kPunctuation = R"([!-/:-@\[-`{-~\p{P}])";
constexpr int kMostDepth = 8;  // of Sequences in Sequences

// Each step of a Sequence, or the one step.
template <class F>
void each_step(const nlohmann::json& value, const std::string& where, const char* list, F&& read,
               int depth = 0) {
  const JsonObject step(value, where);
  if (step.text("type") != "Sequence") return read(step);
  step.allow_only({"type", list});
  if (depth > kMostDepth) step.fail("is nested too deep");
  size_t number = 0;
  for (const nlohmann::json& inner : step.array(list)) {
    each_step(inner, fmt::format("{}[{}]", where, number++), list, read, depth + 1);
  }
}

struct PatternWords {
  std::string words;
  bool literal;
};

PatternWords pattern_words(const JsonObject& step) {
  const JsonObject pattern = step.object("pattern");
  pattern.allow_only({"String", "Regex"});
  if (pattern.has("String") == pattern.has("Regex")) {
    pattern.fail("must hold either String or Regex");
  }
  return pattern.has("String") ? PatternWords{pattern.text("String"), true}
                               : PatternWords{pattern.text("Regex"), false};
}

std::shared_ptr<Pattern> make_pattern(const PatternWords& words, const std::string& where) {
  return std::make_shared<Pattern>(words.literal ? Pattern::literal(words.words, where)
                                                 : Pattern(words.words, where));
}

void append_normalizer(const JsonObject& step, std::vector<NormalizerStep>& steps) {
  using Kind = NormalizerStep::Kind;
  const std::string type = step.text("type");
  const std::pair<const char*, Kind> plain[] = {{"NFC", Kind::nfc},
                                                {"NFD", Kind::nfd},
                                                {"NFKC", Kind::nfkc},
                                                {"NFKD", Kind::nfkd},
                                                {"Lowercase", Kind::lowercase},
                                                {"StripAccents", Kind::strip_accents},
                                                {"ByteLevel", Kind::byte_alphabet}};
  for (const auto& [name, kind] : plain) {
    if (type != name) continue;
    step.allow_only({"type"});
    steps.push_back({kind, "", nullptr});
    return;
  }
  if (type == "Strip") {
    step.allow_only({"type", "strip_left", "strip_right"});
    if (step.flag("strip_left", true)) steps.push_back({Kind::strip_left, "", nullptr});
    if (step.flag("strip_right", true)) steps.push_back({Kind::strip_right, "", nullptr});
  } else if (type == "Prepend") {
    step.allow_only({"type", "prepend"});
    steps.push_back({Kind::prepend, step.text("prepend"), nullptr});
  } else if (type == "Replace") {
    step.allow_only({"type", "pattern", "content"});
    steps.push_back(
        {Kind::replace, step.text("content"), make_pattern(pattern_words(step), step.where())});
  } else {
    step.fail(fmt::format("is of type {}, which this program does not know", type));
  }
}

SplitBehaviour read_behaviour(const JsonObject& step, const char* otherwise) {
  const std::string word = step.text("behavior", otherwise);
  if (word == "Removed") return SplitBehaviour::removed;
  if (word == "Isolated") return SplitBehaviour::isolated;
  if (word == "MergedWithPrevious") return SplitBehaviour::merged_with_previous;
  if (word == "MergedWithNext") return SplitBehaviour::merged_with_next;
  if (word == "Contiguous") return SplitBehaviour::contiguous;
  step.fail(fmt::format("has behavior {}, which this program does not know", word));
}

PreTokenizerStep scan_step(Scanner scanner) {
  PreTokenizerStep step;
  step.kind = PreTokenizerStep::Kind::scan;
  step.scanner = scanner;
  return step;
}

// A scanner's matches leave nothing between them.
PreTokenizerStep split_step(const PatternWords& words, SplitBehaviour behaviour, bool invert,
                            const std::string& where) {
  const Scanner scanner = words.literal ? Scanner::none : scanner_of(words.words);
  const bool each =
      behaviour == SplitBehaviour::isolated || (behaviour == SplitBehaviour::removed && invert);
  if (scanner != Scanner::none && each) return scan_step(scanner);
  PreTokenizerStep step;
  step.pattern = make_pattern(words, where);
  step.behaviour = behaviour;
  step.invert = invert;
  return step;
}

PreTokenizerStep metaspace_step(const JsonObject& step) {
  step.allow_only(
      {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  PreTokenizerStep out;
  out.kind = PreTokenizerStep::Kind::metaspace;
  out.replacement = step.text("replacement");
  if (out.replacement.empty() || character_bytes(out.replacement[0]) != out.replacement.size()) {
    step.fail("has a replacement that is not one character");
  }
  const std::string scheme = step.text("prepend_scheme", "always");
  out.scheme = scheme == "first"   ? PrependScheme::first
               : scheme == "never" ? PrependScheme::never
                                   : PrependScheme::always;
  if (scheme != "first" && scheme != "never" && scheme != "always") {
    step.fail(fmt::format("has prepend_scheme {}, which this program does not know", scheme));
  }
  if (!step.flag("add_prefix_space", true)) {
    if (step.has("prepend_scheme") && out.scheme != PrependScheme::never) {
      step.fail("has add_prefix_space = false against its prepend_scheme");
    }
    out.scheme = PrependScheme::never;
  }
  out.is_split = step.flag("split", true);
  out.pattern = make_pattern({out.replacement, true}, step.where());
  return out;
}

void append_pre_tokenizer(const JsonObject& step, std::vector<PreTokenizerStep>& steps) {
  using Kind = PreTokenizerStep::Kind;
  const std::string type = step.text("type");
  if (type == "ByteLevel") {
    step.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    PreTokenizerStep out;
    out.kind = Kind::prefix_space;
    if (step.flag("add_prefix_space", true)) steps.push_back(out);
    if (step.flag("use_regex", true)) steps.push_back(scan_step(Scanner::gpt2));
    out.kind = Kind::byte_alphabet;
    steps.push_back(out);
  } else if (type == "Split") {
    step.allow_only({"type", "pattern", "behavior", "invert"});
    steps.push_back(split_step(pattern_words(step), read_behaviour(step, ""),
                               step.flag("invert", false), step.where()));
  } else if (type == "Digits") {
    step.allow_only({"type", "individual_digits"});
    steps.push_back(split_step({"\\p{N}", false},
                               step.flag("individual_digits", false) ? SplitBehaviour::isolated
                                                                     : SplitBehaviour::contiguous,
                               false, step.where()));
  } else if (type == "Punctuation") {
    step.allow_only({"type", "behavior"});
    steps.push_back(
        split_step({kPunctuation, false}, read_behaviour(step, "Isolated"), false, step.where()));
  } else if (type == "Whitespace") {
    step.allow_only({"type"});
    steps.push_back(
        split_step({kWhitespaceWords, false}, SplitBehaviour::removed, true, step.where()));
  } else if (type == "WhitespaceSplit") {
    step.allow_only({"type"});
    steps.push_back(split_step({"\\s", false}, SplitBehaviour::removed, false, step.where()));
  } else if (type == "Metaspace") {
    steps.push_back(metaspace_step(step));
  } else {
    step.fail(fmt::format("is of type {}, which this program does not know", type));
  }
}

void read_strip(const JsonObject& step, DecodeRules& rules) {
  step.allow_only({"type", "content", "start", "stop"});
  if (step.count("stop") != 0 || !rules.strip.empty()) {
    step.fail("strips the end, or is the second Strip; this program reads one, of the beginning");
  }
  rules.strip = step.text("content");
  rules.strip_most = step.count("start");
  if (rules.strip.empty() || rules.strip_most > 1000) {
    step.fail("strips nothing, or more than 1000 times");
  }
}

// What comes behind Strip would see the text without what it took; only Fuse may.
void append_decoder(const JsonObject& step, DecodeRules& rules) {
  const std::string type = step.text("type");
  if (type == "Fuse") return step.allow_only({"type"});
  if (!rules.strip.empty()) step.fail(fmt::format("({}) stands behind Strip", type));
  if (type == "ByteLevel") {
    step.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    rules.byte_alphabet = true;
  } else if (type == "ByteFallback") {
    step.allow_only({"type"});
    rules.byte_fallback = true;
  } else if (type == "Strip") {
    read_strip(step, rules);
  } else if (type == "Metaspace") {
    const PreTokenizerStep metaspace = metaspace_step(step);
    rules.replace.emplace_back(metaspace.replacement, " ");
    if (metaspace.scheme != PrependScheme::never) {
      rules.strip = " ";
      rules.strip_most = 1;
    }
  } else if (type == "BPEDecoder") {
    step.allow_only({"type", "suffix"});
    rules.replace.emplace_back(step.text("suffix", "</w>"), " ");
  } else if (type == "Replace") {
    step.allow_only({"type", "pattern", "content"});
    const PatternWords words = pattern_words(step);
    if (!words.literal || words.words.empty()) step.fail("replaces no String");
    rules.replace.emplace_back(words.words, step.text("content"));
  } else {
    step.fail(fmt::format("is of type {}, which this program does not know", type));
  }
}

}  // namespace

std::vector<NormalizerStep> read_normalizer(const nlohmann::json& value, const std::string& where) {
  std::vector<NormalizerStep> steps;
  each_step(value, where, "normalizers",
            [&](const JsonObject& step) { append_normalizer(step, steps); });
  return steps;
}

std::vector<PreTokenizerStep> read_pre_tokenizer(const nlohmann::json& value,
                                                 const std::string& where, Symbols& symbols) {
  std::vector<PreTokenizerStep> steps;
  each_step(value, where, "pretokenizers",
            [&](const JsonObject& step) { append_pre_tokenizer(step, steps); });
  const auto maps = [](const PreTokenizerStep& step) {
    return step.kind == PreTokenizerStep::Kind::byte_alphabet;
  };
  if (std::count_if(steps.begin(), steps.end(), maps) == 1 && maps(steps.back())) {
    steps.pop_back();
    symbols = Symbols::bytes;
  }
  return steps;
}

DecodeRules read_decoder(const nlohmann::json& value, const std::string& where) {
  DecodeRules rules;
  each_step(value, where, "decoders", [&](const JsonObject& step) { append_decoder(step, rules); });
  return rules;
}

}  // namespace espalier
