// SPDX-License-Identifier: Apache-2.0
// Token arrays in memory, for tests of what reads them.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"
#include "corpus/store/token_array.hpp"

namespace espalier::testing {

/// Documents of given lengths, each with end-of-document token 0 as its last one (lengths count
/// it). All other ids are different: first_id, first_id + 1, ...
class MemoryArray : public TokenArray {
 public:
  MemoryArray(std::string path, const std::vector<int64_t>& lengths, int32_t first_id = 1)
      : path_(std::move(path)) {
    for (const int64_t length : lengths) {
      for (int64_t i = 1; i < length; ++i) tokens_.push_back(first_id++);
      if (length > 0) tokens_.push_back(0);
      begins_.push_back(static_cast<int64_t>(tokens_.size()));
    }
  }
  const std::string& path() const override { return path_; }
  int64_t tokens() const override { return static_cast<int64_t>(tokens_.size()); }
  int64_t vocab_size() const override { return INT32_MAX; }
  int32_t end_of_document() const override { return 0; }
  const std::string& tokenizer() const override { return tokenizer_; }
  void read(int64_t begin, int64_t count, int32_t* out) const override {
    ESPALIER_REQUIRE(begin >= 0 && count >= 0 && begin + count <= tokens(), "tokens {} + {} of {}",
                     begin, count, tokens());
    std::copy_n(tokens_.begin() + begin, count, out);
  }
  bool has_index() const override { return has_index_; }
  int64_t documents() const override {
    return has_index_ ? static_cast<int64_t>(begins_.size()) - 1 : 0;
  }
  int64_t document_begin(int64_t i) const override { return begins_.at(static_cast<size_t>(i)); }

  const std::vector<int32_t>& all() const { return tokens_; }
  void forget_index() { has_index_ = false; }

 private:
  std::string path_, tokenizer_ = "memory";
  std::vector<int32_t> tokens_;
  std::vector<int64_t> begins_{0};
  bool has_index_ = true;
};

/// Lengths from 1 on, most of them short and some many times `typical`.
inline std::vector<int64_t> skewed_lengths(uint64_t seed, int64_t count, int64_t typical) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < count; ++i) {
    const double u = random_uniform(seed, 11, static_cast<uint64_t>(i));
    lengths.push_back(1 + static_cast<int64_t>(static_cast<double>(typical) * 0.3 / (1.02 - u)));
  }
  return lengths;
}

inline TokenSource memory_source(const std::string& name, const std::string& folder,
                                 const std::vector<std::vector<int64_t>>& parts,
                                 double weight = 1.0, int32_t first_id = 1) {
  TokenSource source;
  source.name = name;
  source.weight = weight;
  for (size_t i = 0; i < parts.size(); ++i) {
    auto array = std::make_unique<MemoryArray>(
        folder + "/" + name + "-" + std::to_string(i) + ".tok", parts[i], first_id);
    first_id += static_cast<int32_t>(array->tokens());
    source.parts.push_back(std::move(array));
  }
  return source;
}

inline OpenTokens open_memory(std::vector<TokenSource> sources) {
  OpenTokens open;
  open.sources = std::move(sources);
  open.tokenizer = "memory";
  open.vocab_size = INT32_MAX;
  open.end_of_document = 0;
  return open;
}

}  // namespace espalier::testing
