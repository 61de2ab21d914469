// SPDX-License-Identifier: Apache-2.0
// Dropout: the mask as a random number, the same mask for any split of the work, and derivatives of
// the operators that drop.
#include <gtest/gtest.h>

#include <cmath>

#include "cases_attention.hpp"
#include "cases_norm.hpp"
#include "derivative.hpp"
#include "draw.hpp"

namespace espalier::check {
namespace {

DropoutMask mask_of(double probability, uint64_t purpose = hash_name("some place")) {
  return {probability, 4711, purpose};
}

/// Factors of elements [first, first + n).
std::vector<double> factors_of(const DropoutMask& mask, uint64_t first, int64_t n) {
  const DropoutFactors<double> factors(mask);
  const Buffer<double> all("factors", n);
  double* to = all.data();
  for_each_row(
      "test.factors", 1, KOKKOS_LAMBDA(const Row& row) {
        factors.each(row, first, n, [=](int64_t j, double f) { to[j] = f; });
      });
  return host_copy(to, n);
}

double plain_factor(const DropoutMask& mask, uint64_t i) {
  const Philox4 r = philox(mask.seed, mask.purpose, i / 4);
  return r.v[i % 4] / 0x1.0p32 < mask.probability ? 0.0 : 1.0 / (1.0 - mask.probability);
}

// The definition, word by word.
TEST(Dropout, FactorsOfThePlainDefinition) {
  const DropoutMask mask = mask_of(0.3);
  for (const uint64_t first : {0ull, 1ull, 6ull, 1003ull, (1ull << 35) + 3, ~0ull - 600})
    for (const int64_t n : {1, 2, 5, 255, 256, 257, 600}) {
      const auto factors = factors_of(mask, first, n);
      for (int64_t j = 0; j < n; ++j) {
        const uint64_t i = first + static_cast<uint64_t>(j);
        ASSERT_EQ(factors[j], plain_factor(mask, i)) << "element " << i;
      }
    }
}

double mean_of(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const double ma = mean_of(a), mb = mean_of(b);
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - ma) * (b[i] - mb);
    aa += (a[i] - ma) * (a[i] - ma);
    bb += (b[i] - mb) * (b[i] - mb);
  }
  return ab / std::sqrt(aa * bb);
}

// Bounds of five standard deviations: of the share sqrt(p (1 - p) / n), of a correlation 1 / sqrt
// n.
TEST(Dropout, MasksAreFairAndIndependent) {
  constexpr int64_t kCount = 1 << 18;
  for (const double p : {0.01, 0.1, 0.5, 0.9}) {
    const auto x = factors_of(mask_of(p), 12345, kCount);
    int64_t dropped = 0;
    for (const double f : x) dropped += f == 0.0;
    EXPECT_NEAR(static_cast<double>(dropped) / kCount, p, 5 * std::sqrt(p * (1 - p) / kCount));
    EXPECT_NEAR(mean_of(x), 1.0, 5 * std::sqrt(p / (1 - p) / kCount));
    const double bound = 5 / std::sqrt(static_cast<double>(kCount));
    DropoutMask other_seed = mask_of(p);
    ++other_seed.seed;
    EXPECT_LT(std::abs(correlation(x, factors_of(other_seed, 12345, kCount))), bound);
    EXPECT_LT(std::abs(correlation(x, factors_of(mask_of(p, 2), 12345, kCount))), bound);
    for (const uint64_t shift : {1, 2, 3, 4, 256})
      EXPECT_LT(std::abs(correlation(x, factors_of(mask_of(p), 12345 + shift, kCount))), bound);
    EXPECT_GT(correlation(x, factors_of(mask_of(p), 12345, kCount)), 0.999);  // the control
  }
}

TEST(Dropout, RefusesWhatItCannotDo) {
  EXPECT_THROW(DropoutFactors<float>{mask_of(1.0)}, InternalError);
  EXPECT_THROW(DropoutFactors<float>{mask_of(-0.1)}, InternalError);
  EXPECT_THROW(DropoutFactors<float>{mask_of(std::nan(""))}, InternalError);
  Array x(ElementType::fp32, 6);
  x.fill({1, 2, 3, 4, 5, 6});
  EXPECT_THROW(
      apply_dropout<float>(x.matrix<float>(2, 3), x.matrix<float>(2, 3), mask_of(0.5), nullptr),
      InternalError);
}

// Rows in any order and any number of calls: only a row's global index counts.
template <class T>
void compare_splits(int64_t columns) {
  constexpr int64_t kTokens = 23;
  const auto index = scattered_tokens(kTokens);
  Draw draw(columns);
  Array x(ElementTraits<T>::kType, kTokens * columns), whole(x.type(), x.size());
  x.fill(draw.normals(x.size()));
  const Mat<const T> from = x.matrix<T>(kTokens, columns);
  apply_dropout<T>(whole.matrix<T>(kTokens, columns), from, mask_of(0.4), index.data());
  const auto expected = whole.read();
  for (const int64_t rows : {1, 4, 9}) {
    Array parts(x.type(), x.size());
    for (int64_t first = 0; first < kTokens; first += rows) {
      const int64_t count = std::min(rows, kTokens - first);
      apply_dropout<T>(Mat<T>(parts.as<T>() + first * columns, count, columns),
                       Mat<const T>(x.as<T>() + first * columns, count, columns), mask_of(0.4),
                       index.data() + first);
    }
    EXPECT_EQ(parts.read(), expected);
  }
  apply_dropout<T>(x.matrix<T>(kTokens, columns), from, mask_of(0.4), index.data());
  EXPECT_EQ(x.read(), expected);  // in place
  auto moved = index.host();
  ++moved.back();
  const DeviceList<int64_t> elsewhere = moved;
  apply_dropout<T>(whole.matrix<T>(kTokens, columns), from, mask_of(0.4), elsewhere.data());
  EXPECT_NE(whole.read(), expected);
}
TEST(Dropout, SameMaskForAnySplitOfTheTokens) {
  for (const int64_t columns : {3, 64, 257, 600}) {
    compare_splits<double>(columns);
    compare_splits<float>(columns);
    compare_splits<bf16>(columns);
    compare_splits<fp16>(columns);
  }
}

struct Shape {
  int64_t kv_heads, group, head_dim, sequences, length, mean_document;
};
/// As in attention_test.cpp: beside the tiles of queries and keys, and lengths that are no multiple
/// of a block of random words.
constexpr Shape kShapes[] = {{2, 2, 2, 2, 7, 3},  {1, 4, 6, 1, 63, 0},  {3, 1, 5, 1, 64, 20},
                             {1, 2, 3, 2, 65, 1}, {1, 1, 4, 1, 257, 0}, {1, 2, 4, 1, 300, 70}};

AttentionShape attention_shape(const Shape& s) {
  return check::attention_shape(s.kv_heads * s.group, s.kv_heads, s.head_dim, s.sequences,
                                s.length);
}
std::vector<int32_t> documents(const Shape& s) {
  Draw draw(s.length + s.head_dim);
  std::vector<int32_t> all;
  for (int64_t b = 0; b < s.sequences; ++b) {
    const auto one = draw_documents(draw, s.length, s.mean_document);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

TEST(DropoutInAttention, Gradients) {
  for (const auto& s : kShapes) {
    SCOPED_TRACE(fmt::format("{} x {} tokens", s.sequences, s.length));
    AttentionCase<double> c(attention_shape(s), documents(s), Omission::none, mask_of(0.3));
    EXPECT_EQ(check_gradients(c), "");
  }
}

TEST(DropoutInAttention, NegativeControls) {
  const Shape s = {2, 2, 4, 2, 9, 4};
  AttentionCase<double> c(attention_shape(s), documents(s), Omission::none, mask_of(0.2));
  EXPECT_EQ(unnoticed_sabotage(c), "");
  for (const Omission omission : {Omission::softmax_normalisation, Omission::document_mask,
                                  Omission::dropout, Omission::dropout_purpose}) {
    AttentionCase<double> broken(attention_shape(s), documents(s), omission, mask_of(0.2));
    EXPECT_NE(check_gradients(broken), "") << static_cast<int>(omission);
  }
}

/// One output of the definition: the softmax of all visible keys, then dropout by global index.
double plain_output(const AttentionShape& s, const AttentionDropout& d,
                    const std::vector<int64_t>& first_token, const std::vector<double>& qkv,
                    const std::vector<int32_t>& start, int64_t t, int64_t h, int64_t channel) {
  const int64_t dim = s.head.head_dim, width = s.head.row(), b = t / s.length;
  const int64_t kv = h / (s.head.heads / s.head.kv_heads), query = t % s.length;
  double sum = 0.0, output = 0.0;
  for (int64_t k = start[t]; k <= query; ++k) {
    const double* key = &qkv[(b * s.length + k) * width + (s.head.heads + kv) * dim];
    double score = 0.0;
    for (int64_t j = 0; j < dim; ++j) score += qkv[t * width + h * dim + j] * key[j];
    const double weight = std::exp(score * s.scale);
    const auto index = static_cast<uint64_t>(
        ((first_token[b] + query) * d.heads + d.first_head + h) * s.length + k);
    sum += weight;
    output += weight * plain_factor(d.mask, index) * key[s.head.kv_heads * dim + channel];
  }
  return output / sum;
}

TEST(DropoutInAttention, ValuesOfAPlainSoftmax) {
  for (const auto& s : kShapes) {
    const AttentionShape shape = attention_shape(s);
    const auto start = documents(s);
    AttentionCase<double> c(shape, start, Omission::none, mask_of(0.25));
    Draw draw(19);
    Array in(ElementType::fp64, c.inputs()[0].size), out(ElementType::fp64, c.outputs()[0].size);
    in.fill(draw.normals(in.size()));
    c.forward({out}, {in});
    const auto qkv = in.read(), heads = out.read();
    const auto first_token = c.first_token();
    const int64_t dim = s.head_dim, count = shape.head.heads;
    for (int64_t t = 0; t < s.sequences * s.length; t += 1 + s.length / 20)
      for (int64_t h = 0; h < count; ++h)
        for (int64_t channel = 0; channel < dim; ++channel)
          ASSERT_NEAR(heads[(t * count + h) * dim + channel],
                      plain_output(shape, c.dropout(), first_token, qkv, start, t, h, channel),
                      1e-12);
  }
}

// As in attention_test.cpp: the same roundings, of values up to 1 / (1 - p) larger.
template <class T>
void compare_attention() {
  for (const auto& s : kShapes) {
    AttentionCase<T> low(attention_shape(s), documents(s), Omission::none, mask_of(0.2));
    AttentionCase<double> exact(attention_shape(s), documents(s), Omission::none, mask_of(0.2));
    const bool wide = std::is_same_v<T, float>;
    EXPECT_EQ(compare_types(low, exact, {wide ? 10.0 : 1.25, wide ? 15.0 : 2.5}), "");
  }
}
TEST(DropoutInAttention, LowPrecision) {
  compare_attention<float>();
  compare_attention<bf16>();
  compare_attention<fp16>();
}

TEST(DropoutInResidual, Gradients) {
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm})
    for (const Bias bias : {Bias::no, Bias::yes})
      for (const int64_t tokens : {1, 65})
        for (const int64_t hidden : {3, 17, 64, 300}) {
          ResidualNormCase<double> c(kind, bias, tokens, hidden, mask_of(0.3));
          EXPECT_EQ(check_gradients(c), "");
        }
}

TEST(DropoutInResidual, NegativeControls) {
  const DropoutMask mask = mask_of(0.3);
  ResidualNormCase<double> c(NormKind::layernorm, Bias::yes, 5, 19, mask);
  EXPECT_EQ(unnoticed_sabotage(c), "");
  for (const DropoutMask& wrong : {DropoutMask{}, mask_of(0.3, 8), mask_of(0.31)}) {
    ResidualNormCase<double> broken(NormKind::layernorm, Bias::yes, 5, 19, mask, wrong);
    EXPECT_NE(check_gradients(broken), "");
  }
}

std::vector<int32_t> draw_indices(int64_t count, int64_t below) {
  Draw draw(count);
  std::vector<int32_t> index;
  for (int64_t i = 0; i < count; ++i)
    index.push_back(static_cast<int32_t>(draw.integer(0, below - 1)));
  return index;
}

TEST(DropoutInEmbedding, GradientsAndAdjoint) {
  for (const int64_t hidden : {1, 15, 130})
    for (const int64_t count : {1, 7, 257})
      for (const Bias positions : {Bias::no, Bias::yes}) {
        const auto places =
            positions == Bias::yes ? draw_indices(count, 11) : std::vector<int32_t>();
        EmbeddingCase<double> c(7, 11, hidden, draw_indices(count, 7), places, mask_of(0.4));
        EXPECT_EQ(check_gradients(c), "");
        EXPECT_EQ(check_adjoint(c), "");
      }
}

TEST(DropoutInEmbedding, NegativeControls) {
  EmbeddingCase<double> c(7, 11, 9, draw_indices(13, 7), draw_indices(13, 11), mask_of(0.4));
  EXPECT_EQ(unnoticed_sabotage(c), "");
}

}  // namespace
}  // namespace espalier::check
