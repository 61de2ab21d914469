// SPDX-License-Identifier: Apache-2.0
// Cuts a text into the words that are encoded one by one.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "corpus/tokenizer/pattern.hpp"
#include "corpus/tokenizer/scanners.hpp"

namespace espalier {

enum class SplitBehaviour { removed, isolated, merged_with_previous, merged_with_next, contiguous };
enum class PrependScheme { never, first, always };

struct PreTokenizerStep {
  enum class Kind {
    scan,          // by a scanner
    split,         // by a pattern
    metaspace,     // blanks become `replacement`, put in front by `scheme`, then split before each
    prefix_space,  // a blank in front
    byte_alphabet  // bytes become letters of the byte alphabet
  };
  Kind kind = Kind::split;
  Scanner scanner = Scanner::none;
  std::shared_ptr<Pattern> pattern;  // split; metaspace: the replacement, to split at
  SplitBehaviour behaviour = SplitBehaviour::isolated;
  bool invert = false;
  std::string replacement;
  PrependScheme scheme = PrependScheme::never;
  bool is_split = true;  // metaspace
};

/// The steps in their order, each on the pieces of the one before. Immutable and thread-safe.
class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps = {}) : steps_(std::move(steps)) {}

  const std::vector<PreTokenizerStep>& steps() const { return steps_; }
  /// The one scanner that is all there is to do, or none.
  Scanner only_scanner() const;

  struct Piece {
    std::string_view text;
    bool first;  // begins where the whole text begins
  };
  /// Pieces of a text, none of them empty; `owned` keeps those that are no part of it.
  std::vector<Piece> split(std::string_view text, bool first, std::deque<std::string>& owned) const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace espalier
