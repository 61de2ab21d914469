// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in a text before it is cut into words.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace espalier {

/// One entry of added_tokens in a tokenizer.json.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // only where no letter touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and behind it
  bool normalized = true;    // looked for in the normalised text
  bool special = false;
};

/// A part of a text: ordinary, or an added token.
struct Section {
  size_t begin, end;
  int32_t id;  // -1: ordinary text
};

/// Finds the longest of the tokens at the leftmost place, and goes on behind it.
class AddedTokens {
 public:
  /// `text` is what is looked for (its normal form, for those looked for in the normalised text);
  /// `taken` is false for tokens that stay text where they are found.
  void add(const std::string& text, const AddedToken& token, bool taken);

  bool empty() const { return taken_ == 0; }
  /// Some token's match reaches beyond its own text or depends on what stands around it.
  bool looks_around() const { return looks_around_; }

  /// Appends the sections of a text, which is valid UTF-8.
  void find(std::string_view text, std::vector<Section>& sections) const;

  /// Does some token stand across this place of the text?
  bool stands_across(std::string_view text, size_t place) const;

 private:
  struct Entry {
    AddedToken token;
    bool taken;
  };
  struct Node {
    int32_t entry = -1;
    std::vector<std::pair<unsigned char, int32_t>> next;
  };
  int32_t child(int32_t node, unsigned char byte) const;
  size_t longest_at(std::string_view text, size_t at, const Entry*& entry) const;
  void take(std::string_view text, size_t begin, size_t end, const Entry& entry, size_t& done,
            std::vector<Section>& sections) const;

  std::vector<Entry> entries_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> begins_{};
  size_t longest_ = 0;
  int64_t taken_ = 0;
  bool looks_around_ = false;
};

}  // namespace espalier
