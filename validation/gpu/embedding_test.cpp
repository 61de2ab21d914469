// SPDX-License-Identifier: Apache-2.0
// The tuned embedding and its gradient, to the bit: both have one order of additions in fp32.
#include "cuda/pointwise.hpp"
#include "gpu/device_rows.hpp"

namespace espalier {
namespace {

using namespace gpu_test;

template <class T>
class TunedEmbedding : public testing::Test {};
using Types = testing::Types<float, bf16, fp16>;
TYPED_TEST_SUITE(TunedEmbedding, Types);

struct Problem {
  int64_t tokens = 0, columns = 0, entries = 0;
  int64_t vocabulary = 0, first = 0;  // tokens are below the one, the table begins at the other
  int64_t start = 0;                  // of every array
  int64_t hot = 0;                    // of ten tokens so many are one entry
  bool positions = false;
  uint64_t seed = 1;

  std::string text() const {
    return fmt::format("{} tokens of {}, table [{}, {}] from entry {}, arrays from {}, hot {}",
                       tokens, vocabulary, entries, columns, first, start, hot);
  }
};

constexpr int64_t kPositions = 40;

std::vector<int32_t> draw_tokens(const Problem& p, Random& random) {
  std::vector<int32_t> tokens;
  for (int64_t t = 0; t < p.tokens; ++t)
    tokens.push_back(static_cast<int32_t>(random.below(10) < p.hot ? p.first + p.entries / 2
                                                                   : random.below(p.vocabulary)));
  return tokens;
}

template <class T>
std::string check_forward(const Problem& p) {
  Random random(p.seed);
  const auto table = random.values<T>(p.entries * p.columns);
  const auto position_table = random.values<T>(kPositions * p.columns);
  const auto tokens = draw_tokens(p, random);
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < p.tokens; ++t)
    positions.push_back(static_cast<int32_t>(random.below(kPositions)));

  const RowShape shape = dense(p.tokens, p.columns, p.start);
  const DeviceArray<T> x(poisoned<T>(shape.size()));
  const DeviceArray<T> entries(placed(dense(p.entries, p.columns, p.start), table));
  const DeviceArray<T> places(placed(dense(kPositions, p.columns, p.start), position_table));
  const DeviceArray<int32_t> ids(tokens), at(positions);
  cuda::EmbeddingForward<T> call;
  call.x = x.data() + p.start;
  call.table = entries.data() + p.start;
  if (p.positions) call.position_table = places.data() + p.start;
  call.tokens = ids.data();
  call.positions = at.data();
  call.rows = p.tokens;
  call.columns = p.columns;
  call.entries = p.entries;
  call.first = p.first;
  cuda::embedding_forward(call, stream());
  std::string fault;
  const auto got = taken(shape, x.values(), fault);
  std::vector<T> want;
  for (int64_t t = 0; t < p.tokens; ++t)
    for (int64_t j = 0; j < p.columns; ++j) {
      const int64_t entry = tokens[static_cast<size_t>(t)] - p.first;
      if (entry < 0 || entry >= p.entries) {
        want.push_back(T(-0.0f));
        continue;
      }
      const T e = table[static_cast<size_t>(entry * p.columns + j)];
      const auto place = static_cast<size_t>(positions[static_cast<size_t>(t)] * p.columns + j);
      want.push_back(
          p.positions ? T(static_cast<float>(e) + static_cast<float>(position_table[place])) : e);
    }
  compare_bits("x", got, want, fault);
  return fault;
}

/// `scale`: of dx here, 1 unless the comparison is on trial.
template <class T>
std::string check_backward(const Problem& p, float scale) {
  Random random(p.seed);
  const auto table = random.values<float>(p.entries * p.columns);
  const auto dx = random.values<T>(p.tokens * p.columns);
  const auto tokens = draw_tokens(p, random);
  const RowShape shape = dense(p.entries, p.columns, p.start);
  const DeviceArray<float> d_table(placed(shape, table));
  const DeviceArray<T> gradient(placed(dense(p.tokens, p.columns, p.start), dx));
  const DeviceArray<int32_t> ids(tokens);
  cuda::embedding_backward<T>(d_table.data() + p.start, gradient.data() + p.start, ids.data(),
                              p.tokens, p.columns, p.entries, p.first, stream());
  std::string fault;
  const auto got = taken(shape, d_table.values(), fault);
  std::vector<float> want = table;
  for (int64_t t = 0; t < p.tokens; ++t) {
    const int64_t entry = tokens[static_cast<size_t>(t)] - p.first;
    if (entry < 0 || entry >= p.entries) continue;
    for (int64_t j = 0; j < p.columns; ++j)
      want[static_cast<size_t>(entry * p.columns + j)] +=
          scale * static_cast<float>(dx[static_cast<size_t>(t * p.columns + j)]);
  }
  compare_bits("d_table", got, want, fault);
  return fault;
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  uint64_t seed = 0;
  const auto add = [&](int64_t tokens, int64_t columns, int64_t entries, int64_t vocabulary,
                       int64_t first, int64_t hot) {
    for (const int64_t start : {0, 1}) {
      Problem p;
      p.tokens = tokens;
      p.columns = columns;
      p.entries = entries;
      p.vocabulary = vocabulary;
      p.first = first;
      p.hot = hot;
      p.start = start;
      p.positions = (all.size() / 2) % 2 == 0;
      p.seed = ++seed;
      all.push_back(p);
    }
  };
  for (const int64_t n : {1, 7, 33, 100, 256, 768, 1600, 4097}) add(50, n, 13, 13, 0, 3);
  add(1, 64, 5, 5, 0, 0);
  add(300, 24, 700, 2000, 600, 0);  // a shard in the middle of the vocabulary
  add(300, 24, 40, 2000, 1960, 2);  // a small one at its end
  add(9000, 8, 3, 3, 0, 0);         // lists of tokens that fill several times
  add(7000, 16, 1, 4, 1, 9);        // one entry has nearly all
  add(2500, 40, 70, 70, 0, 5);      // positions: few entries, many tokens each
  return all;
}

TYPED_TEST(TunedEmbedding, ForwardIsThatOfFp32) {
  for (const auto& p : problems()) EXPECT_EQ(check_forward<TypeParam>(p), "") << p.text();
}

TYPED_TEST(TunedEmbedding, BackwardAddsInTokenOrder) {
  for (const auto& p : problems()) EXPECT_EQ(check_backward<TypeParam>(p, 1.0f), "") << p.text();
}

// More entries than 512 blocks of 64 own, so that there are more blocks.
TYPED_TEST(TunedEmbedding, BackwardOfALargeVocabulary) {
  Problem p;
  p.tokens = 200;
  p.columns = 2;
  p.entries = p.vocabulary = 512 * 64 + 37;
  EXPECT_EQ(check_backward<TypeParam>(p, 1.0f), "");
}

TYPED_TEST(TunedEmbedding, AnotherScaleIsNoticed) {
  Problem p;
  p.tokens = 30;
  p.columns = 24;
  p.entries = p.vocabulary = 7;
  EXPECT_EQ(check_backward<TypeParam>(p, 1.0f), "");
  EXPECT_NE(check_backward<TypeParam>(p, 2.0f), "");
}

}  // namespace
}  // namespace espalier
