// SPDX-License-Identifier: Apache-2.0
// What a tokenizer does to a text before it looks for words.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "corpus/tokenizer/pattern.hpp"

namespace espalier {

/// One step. Texts are valid UTF-8 before and after.
struct NormalizerStep {
  enum class Kind {
    nfc,
    nfd,
    nfkc,
    nfkd,
    lowercase,
    strip_accents,
    strip_left,
    strip_right,
    prepend,
    replace,
    byte_alphabet
  };
  Kind kind = Kind::nfc;
  std::string content;               // prepend, replace
  std::shared_ptr<Pattern> pattern;  // replace
};

/// The steps in their order. Immutable and thread-safe.
class TextNormalizer {
 public:
  explicit TextNormalizer(std::vector<NormalizerStep> steps = {}) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }
  const std::vector<NormalizerStep>& steps() const { return steps_; }

  /// `first` becomes false if what stood at the beginning is gone.
  std::string normalise(std::string_view text, bool& first) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace espalier
