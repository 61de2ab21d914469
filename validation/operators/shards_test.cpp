// SPDX-License-Identifier: Apache-2.0
// Work cut into shards gives the bits of the whole: rows of a vocabulary, rotated heads, and the
// fused forms against their parts.
#include <gtest/gtest.h>

#include "cases_attention.hpp"
#include "cases_norm.hpp"
#include "draw.hpp"
#include "layers/residual.hpp"
#include "shards.hpp"

namespace espalier::check {
namespace {

template <class T>
class Shards : public testing::Test {};
using AllTypes = testing::Types<float, double, bf16, fp16>;
TYPED_TEST_SUITE(Shards, AllTypes, );

TYPED_TEST(Shards, RotatesOnlyItsHeads) {
  using T = TypeParam;
  constexpr int64_t kHeads = 5, kDim = 6, kTokens = 7, kWidth = kHeads * kDim;
  Draw draw(8);
  const Buffer<Acc<T>> table("angles", 20 * kDim);
  write_to(table.data(), draw.normals(20 * kDim));
  const DeviceList<int32_t> positions = {0, 3, 19, 5, 5, 1, 2};
  const auto x = filled<T>(draw.normals(kTokens * kWidth)).read();
  const auto rotated = [&](int64_t first, int64_t heads) {
    const Array a = filled<T>(x);
    rope<T>(RopeStyle::half, Rotation::forward, {a.as<T>() + first * kDim, kWidth}, heads, kDim,
            kTokens, table, positions.data());
    return a.read();
  };
  const auto whole = rotated(0, kHeads), part = rotated(1, 3);
  EXPECT_TRUE(
      same_bits(columns(part, kWidth, kDim, 3 * kDim), columns(whole, kWidth, kDim, 3 * kDim)));
  EXPECT_TRUE(same_bits(columns(part, kWidth, 0, kDim), columns(x, kWidth, 0, kDim)));
  EXPECT_TRUE(same_bits(columns(part, kWidth, 4 * kDim, kDim), columns(x, kWidth, 4 * kDim, kDim)));
  EXPECT_NE(whole, x);
}

constexpr int64_t kVocab = 11, kPositions = 13, kHidden = 37, kCount = 29;

/// Tables and tokens of an embedding; some entries are zeros of either sign.
template <class T>
struct EmbeddingProblem {
  Array table, positions;
  std::vector<int32_t> drawn;  // the tokens
  DeviceList<int32_t> tokens, places;
  DeviceList<int64_t> index = scattered_tokens(kCount);
  EmbeddingProblem() {
    Draw draw(41);
    auto rows = draw.normals(kVocab * kHidden);
    for (size_t i = 0; i < rows.size(); i += 5) rows[i] = i % 2 ? 0.0 : -0.0;
    table = filled<T>(rows);
    positions = filled<T>(draw.normals(kPositions * kHidden));
    std::vector<int32_t> drawn_places;
    for (int64_t t = 0; t < kCount; ++t) {
      drawn.push_back(static_cast<int32_t>(draw.integer(0, kVocab - 1)));
      drawn_places.push_back(static_cast<int32_t>(draw.integer(0, kPositions - 1)));
    }
    tokens = drawn;
    places = drawn_places;
  }
  Mat<const T> rows(int64_t first, int64_t count) const {
    return Mat<const T>(table.as<T>() + first * kHidden, count, kHidden);
  }
  Mat<const T> position_rows() const { return positions.matrix<T>(kPositions, kHidden); }
  Array lookup(int64_t first, int64_t count) const {
    Array x(table.type(), kCount * kHidden);
    embedding_forward<T>(x.matrix<T>(kCount, kHidden), rows(first, count),
                         Mat<const T>(nullptr, 0, 0), tokens.data(), nullptr, first);
    return x;
  }
};
constexpr int64_t kVocabCuts[] = {0, 4, 4, 10, kVocab};  // one shard is empty

TYPED_TEST(Shards, VocabularyRowsAddUpToTheLookup) {
  using T = TypeParam;
  const EmbeddingProblem<T> p;
  const auto whole = p.lookup(0, kVocab).read(), table = p.table.read();
  for (int64_t t = 0; t < kCount; ++t)
    for (int64_t j = 0; j < kHidden; ++j)
      ASSERT_EQ(whole[t * kHidden + j], table[p.drawn[t] * kHidden + j]);
  auto sum = p.lookup(0, 0).read();  // one shard at most adds anything, so double adds exactly
  for (int s = 0; s < 4; ++s) {
    const auto part = p.lookup(kVocabCuts[s], kVocabCuts[s + 1] - kVocabCuts[s]).read();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  EXPECT_TRUE(same_bits(sum, whole));
}

TYPED_TEST(Shards, PositionsAfterwardsGiveTheBitsOfTheFusedForm) {
  using T = TypeParam;
  const EmbeddingProblem<T> p;
  for (const double dropout : {0.0, 0.4})
    for (const bool with_positions : {false, true}) {
      const DropoutMask mask{dropout, 9, 10};
      const Mat<const T> positions =
          with_positions ? p.position_rows() : Mat<const T>(nullptr, 0, 0);
      Array fused(p.table.type(), kCount * kHidden);
      embedding_forward<T>(fused.matrix<T>(kCount, kHidden), p.rows(0, kVocab), positions,
                           p.tokens.data(), p.places.data(), 0, mask, p.index.data());
      const Array parts = p.lookup(0, kVocab);
      add_positions<T>(parts.matrix<T>(kCount, kHidden), positions, p.places.data(), mask,
                       p.index.data());
      EXPECT_TRUE(same_bits(parts.read(), fused.read()));
      EXPECT_EQ(fused.read() == p.lookup(0, kVocab).read(), dropout == 0.0 && !with_positions);
    }
}

TYPED_TEST(Shards, VocabularyRowsOfTheGradient) {
  using T = TypeParam;
  const EmbeddingProblem<T> p;
  Draw draw(43);
  const Array dx = filled<T>(draw.normals(kCount * kHidden));
  const Values before = draw.normals(kVocab * kHidden);
  Array whole(sum_type(dx.type()), kVocab * kHidden), parts(whole.type(), whole.size());
  whole.fill(before);
  parts.fill(before);
  const Mat<const T> gradient = dx.matrix<T>(kCount, kHidden);
  embedding_backward<T>(whole.matrix<Acc<T>>(kVocab, kHidden), gradient, p.tokens.data());
  for (int s = 0; s < 4; ++s) {
    const int64_t first = kVocabCuts[s], count = kVocabCuts[s + 1] - first;
    embedding_backward<T>(Mat<Acc<T>>(parts.as<Acc<T>>() + first * kHidden, count, kHidden),
                          gradient, p.tokens.data(), first);
  }
  EXPECT_TRUE(same_bits(parts.read(), whole.read()));
  EXPECT_TRUE(parts.guards_are_intact());
}

TEST(ShardsOfTheVocabulary, GradientsAndControls) {
  const EmbeddingProblem<double> p;
  EmbeddingCase<double> c(5, kPositions, kHidden, p.tokens, {}, {}, 3);  // rows 3 to 7
  EXPECT_EQ(check_gradients(c), "");
  EXPECT_EQ(check_adjoint(c), "");
  EXPECT_EQ(unnoticed_sabotage(c), "");
}

TYPED_TEST(Shards, ResidualAdditionAloneGivesTheBitsOfTheFusedForm) {
  using T = TypeParam;
  const ElementType sums = sum_type(ElementTraits<T>::kType);
  Draw draw(47);
  const Array stream = filled<T>(draw.normals(kCount * kHidden)),
              delta = filled<T>(draw.normals(kCount * kHidden)),
              bias = filled<T>(draw.normals(kHidden)), weight = filled<T>(draw.normals(kHidden));
  const auto matrix = [](const Array& a) { return a.matrix<T>(kCount, kHidden); };
  const auto index = scattered_tokens(kCount);
  const NormParameters<T> norm{weight.vector<T>(), Vec<const T>(nullptr, 0)};
  for (const double dropout : {0.0, 0.4})
    for (const bool with_bias : {false, true}) {
      const DropoutMask mask{dropout, 9, 10};
      const Vec<const T> b = with_bias ? Vec<const T>(bias.vector<T>()) : Vec<const T>(nullptr, 0);
      const Array fused(stream.type(), stream.size()), y(stream.type(), stream.size()),
          statistics(sums, 2 * kCount), alone = filled<T>(stream.read());
      residual_norm_forward<T>(NormKind::rmsnorm, matrix(y), statistics.as<Acc<T>>(), matrix(fused),
                               matrix(stream), matrix(delta), b, norm, 1e-5, mask, index.data());
      residual_add<T>(matrix(alone), matrix(alone), matrix(delta), b, mask, index.data());
      EXPECT_TRUE(same_bits(alone.read(), fused.read()));
      const auto x = fused.read(), a = stream.read();
      int64_t kept = 0;  // tokens' elements that the stream alone makes
      for (size_t i = 0; i < x.size(); ++i) kept += x[i] == a[i];
      EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(x.size()), dropout, 0.1);
    }
}

}  // namespace
}  // namespace espalier::check
