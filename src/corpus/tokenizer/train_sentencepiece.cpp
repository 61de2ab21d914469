// SPDX-License-Identifier: Apache-2.0
// sentencepiece's trainer, fed with lines.
#include "corpus/tokenizer/train_sentencepiece.hpp"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <exception>
#include <regex>
#include <string_view>
#include <unordered_map>

#include "core/error.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

constexpr size_t kLineBytes = 4096;  // longer lines are cut before a blank, or at a character
// What the trainer cannot take in a line, or reads as a blank. They become bytes when encoded.
constexpr std::string_view kReserved[] = {std::string_view("\0", 1), "\xE2\x96\x81", "\xE2\x96\x85",
                                          "\xEF\xBF\xBD"};

// The next stretch of a text that holds no line feed and nothing reserved; takes it off.
std::string_view take_stretch(std::string_view& text) {
  size_t end = std::min(text.find('\n'), text.size()), skip = 1;
  for (const std::string_view mark : kReserved) {
    const size_t at = text.substr(0, end).find(mark);
    if (at == std::string_view::npos) continue;
    end = at;
    skip = mark.size();
  }
  if (end > kLineBytes) {
    const size_t blank = text.rfind(' ', kLineBytes);
    end = blank != std::string_view::npos && blank > 0 ? blank : utf8_boundary(text, kLineBytes);
    skip = 0;
  }
  const std::string_view stretch = text.substr(0, end);
  text.remove_prefix(std::min(end + skip, text.size()));
  return stretch;
}

// Documents as the lines that the trainer asks for.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::function<bool(std::string&)>& next) : next_(next) { advance(); }

  bool done() const override { return done_; }
  void Next() override { advance(); }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

  int64_t bytes() const { return bytes_; }
  std::exception_ptr error() const { return error_; }

 private:
  // Errors of the source must not fly through the library.
  void advance() {
    try {
      for (line_.clear(); line_.empty();) {
        while (rest_.empty()) {
          document_.clear();
          if (!next_(document_)) {
            done_ = true;
            return;
          }
          document_ = printable_text(document_);
          rest_ = document_;
        }
        line_ = take_stretch(rest_);
      }
      bytes_ += static_cast<int64_t>(line_.size());
    } catch (...) {
      error_ = std::current_exception();
      done_ = true;
    }
  }

  const std::function<bool(std::string&)>& next_;
  std::string document_, line_;
  std::string_view rest_;
  int64_t bytes_ = 0;
  bool done_ = false;
  std::exception_ptr error_;
};

[[noreturn]] void fail(const TrainTokenizerConfig& config, const std::string& words,
                       int64_t bytes) {
  std::smatch found;
  const std::regex too_large("set it to a value <= ([0-9]+)"), too_small("([0-9]+) vs ([0-9]+)");
  if (std::regex_search(words, found, too_large)) {
    throw DataError(
        fmt::format("train_tokenizer.vocab_size = {} is too large for this sample of "
                    "{} bytes; {} is the largest possible, or give more text",
                    config.vocab_size, bytes, found[1].str()));
  }
  if (words.find("required_chars") != std::string::npos &&
      std::regex_search(words, found, too_small)) {
    throw DataError(fmt::format(
        "train_tokenizer.vocab_size = {} is too small: the characters and bytes alone are {}; use "
        "a larger one, or a smaller character_coverage than {}",
        config.vocab_size, found[2].str(), config.character_coverage));
  }
  throw DataError(fmt::format("sentencepiece cannot train on this sample of {} bytes: {}", bytes,
                              words.empty() ? "no reason was given" : words));
}

std::unordered_map<std::string, std::string> settings(const TrainTokenizerConfig& config) {
  return {{"model_type", config.model == SubwordModel::bpe ? "bpe" : "unigram"},
          {"vocab_size", fmt::format("{}", config.vocab_size)},
          {"character_coverage", fmt::format("{}", config.character_coverage)},
          {"num_threads", fmt::format("{}", config.threads)},
          {"normalization_rule_name", "identity"},
          {"add_dummy_prefix", "false"},
          {"remove_extra_whitespaces", "false"},
          {"byte_fallback", "true"},
          {"allow_whitespace_only_pieces", "true"},
          {"hard_vocab_limit", "true"},
          {"max_sentence_length", fmt::format("{}", 4 * kLineBytes)},
          {"input_sentence_size", "0"},
          {"shuffle_input_sentence", "false"},
          {"minloglevel", "4"}};
}

}  // namespace

std::string train_sentencepiece(const TrainTokenizerConfig& config,
                                const std::function<bool(std::string&)>& next) {
  if (config.vocab_size < 300 || config.vocab_size > (1 << 24)) {
    throw DataError(
        fmt::format("train_tokenizer.vocab_size = {} is outside 300 to {}: 256 bytes "
                    "and the characters must have room",
                    config.vocab_size, 1 << 24));
  }
  Lines lines(next);
  if (lines.error()) std::rethrow_exception(lines.error());
  if (lines.done()) throw DataError("train_tokenizer: the sample holds no text; check the sources");
  std::string model, words;
  try {
    const auto status =
        sentencepiece::SentencePieceTrainer::Train(settings(config), &lines, &model);
    if (!status.ok()) words = status.ToString();
  } catch (const std::exception& error) {
    words = error.what();
  }
  if (lines.error()) std::rethrow_exception(lines.error());
  if (!words.empty() || model.empty()) fail(config, words, lines.bytes());
  return model;
}

}  // namespace espalier
