// SPDX-License-Identifier: Apache-2.0
// Attention: derivatives, a plain softmax, document isolation, cached attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cases_attention.hpp"
#include "derivative.hpp"
#include "draw.hpp"

namespace espalier::check {
namespace {

struct Shape {
  int64_t kv_heads, group, head_dim, sequences, length, mean_document;
};
/// Lengths beside one tile of queries (64) and of keys (256); groups of 1, 2, 4 query heads; one
/// document, many, and each token its own.
constexpr Shape kShapes[] = {{1, 1, 4, 1, 1, 0},    {2, 2, 2, 2, 7, 3},    {1, 4, 6, 1, 63, 0},
                             {3, 1, 5, 1, 64, 20},  {2, 1, 80, 1, 65, 0},  {1, 2, 3, 2, 65, 1},
                             {1, 1, 16, 1, 257, 0}, {1, 2, 8, 1, 300, 70}, {2, 1, 7, 1, 300, 2}};

/// Heads that the kernels of cuda/ take.
constexpr Shape kTensorCoreShapes[] = {
    {1, 2, 64, 1, 130, 40}, {2, 1, 96, 2, 33, 0}, {1, 1, 128, 1, 70, 9}, {1, 1, 256, 1, 17, 0}};

std::string label(const Shape& s) {
  return fmt::format("{} x {} heads of {}, {} x {} tokens, documents of {}", s.kv_heads, s.group,
                     s.head_dim, s.sequences, s.length, s.mean_document);
}
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

TEST(Attention, Gradients) {
  for (const auto& s : kShapes) {
    SCOPED_TRACE(label(s));
    AttentionCase<double> c(attention_shape(s), documents(s));
    // With one visible key a query and a key have no effect; the random direction has a part along
    // the values, so its derivative is not 0.
    EXPECT_EQ(check_gradients(c), "");
  }
}

TEST(Attention, NegativeControls) {
  const Shape s = {2, 2, 4, 2, 9, 4};
  AttentionCase<double> c(attention_shape(s), documents(s));
  EXPECT_EQ(unnoticed_sabotage(c), "");
  for (const Omission omission : {Omission::softmax_normalisation, Omission::document_mask}) {
    AttentionCase<double> broken(attention_shape(s), documents(s), omission);
    EXPECT_NE(check_gradients(broken), "");
  }
}

/// The definition, with all scores at once: heads and log_sum of qkv.
struct PlainAttention {
  std::vector<double> heads, log_sum;
  PlainAttention(const AttentionShape& s, const std::vector<double>& qkv,
                 const std::vector<int32_t>& start)
      : heads(s.sequences * s.length * s.head.heads * s.head.head_dim, 0.0),
        log_sum(s.sequences * s.length * s.head.heads) {
    for (int64_t t = 0; t < s.sequences * s.length; ++t)
      for (int64_t h = 0; h < s.head.heads; ++h) one(s, qkv, start, t, h);
  }

 private:
  void one(const AttentionShape& s, const std::vector<double>& qkv,
           const std::vector<int32_t>& start, int64_t t, int64_t h) {
    const int64_t dim = s.head.head_dim, width = s.head.row();
    const int64_t first = t / s.length * s.length;
    const int64_t kv = h / (s.head.heads / s.head.kv_heads);
    const double* q = &qkv[t * width + h * dim];
    std::vector<double> p;
    double greatest = -1e300, sum = 0.0;
    for (int64_t k = first + start[t]; k <= t; ++k) {
      const double* key = &qkv[k * width + (s.head.heads + kv) * dim];
      double score = 0.0;
      for (int64_t d = 0; d < dim; ++d) score += q[d] * key[d];
      p.push_back(score * s.scale);
      greatest = std::max(greatest, p.back());
    }
    for (double& x : p) sum += x = std::exp(x - greatest);
    for (size_t i = 0; i < p.size(); ++i) {
      const int64_t k = first + start[t] + static_cast<int64_t>(i);
      const double* value = &qkv[k * width + (s.head.heads + s.head.kv_heads + kv) * dim];
      for (int64_t d = 0; d < dim; ++d)
        heads[(t * s.head.heads + h) * dim + d] += p[i] / sum * value[d];
    }
    log_sum[t * s.head.heads + h] = greatest + std::log(sum);
  }
};

TEST(Attention, ValuesOfAPlainSoftmax) {
  for (const auto& s : kShapes) {
    SCOPED_TRACE(label(s));
    const AttentionShape shape = attention_shape(s);
    AttentionCase<double> c(shape, documents(s));
    Draw draw(17);
    // Scores of up to a few tens: the running maximum has to move.
    const auto qkv = draw.normals(c.inputs()[0].size, 3.0);
    Array in(ElementType::fp64, c.inputs()[0].size), out(ElementType::fp64, c.outputs()[0].size);
    in.fill(qkv);
    c.forward({out}, {in});
    const PlainAttention plain(shape, qkv, documents(s));
    EXPECT_LT(relative_distance(out.read(), plain.heads), 1e-13);
    EXPECT_LT(relative_distance(c.saved()[0].read(), plain.log_sum), 1e-13);
  }
}

/// Gradient of the outputs of the tokens that `counts` with respect to qkv, for random qkv.
template <class T>
std::vector<double> gradient_of(const AttentionShape& shape, const std::vector<int32_t>& start,
                                const std::vector<bool>& counts) {
  AttentionCase<T> c(shape, start);
  Draw draw(23);
  const ElementType type = ElementTraits<T>::kType;
  Array in(type, c.inputs()[0].size), out(type, c.outputs()[0].size);
  Array d_out(type, out.size()), d_in(type, in.size());
  in.fill(draw.normals(in.size()));
  auto u = draw.normals(out.size());
  const int64_t width = shape.head.heads * shape.head.head_dim;
  for (size_t i = 0; i < u.size(); ++i)
    if (!counts[i / width]) u[i] = 0.0;
  d_out.fill(u);
  c.forward({out}, {in});
  c.backward({d_in}, {d_out}, {in});
  return d_in.read();
}

/// Largest gradient of document `which`'s outputs on a token of another document, over T's bits.
template <class T>
double leakage(const AttentionShape& shape, const std::vector<int32_t>& documents,
               const std::vector<int32_t>& mask, int32_t which) {
  std::vector<bool> counts;
  for (const int32_t start : documents) counts.push_back(start == which);
  const auto gradient = gradient_of<T>(shape, mask, counts);
  double own = 0.0, other = 0.0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    double& part = counts[i / shape.head.row()] ? own : other;
    part = std::max(part, std::abs(gradient[i]));
  }
  EXPECT_GT(own, 1e-3);
  return other;
}

template <class T>
void check_isolation() {
  const Shape s = {2, 2, 6, 1, 300, 40};
  const AttentionShape shape = attention_shape(s);
  const auto start = documents(s);
  const std::vector<int32_t> no_mask(start.size(), 0);
  std::vector<int32_t> firsts = start;
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
  ASSERT_GE(firsts.size(), 4u);
  for (const int32_t which : firsts) {
    EXPECT_EQ(leakage<T>(shape, start, start, which), 0.0) << "document at " << which;
    // Without the mask all but the first document do see earlier ones.
    if (which > 0) {
      EXPECT_GT(leakage<T>(shape, start, no_mask, which), 1e-6);
    }
  }
}
TEST(Attention, DocumentsAreExactlyIsolated) {
  check_isolation<double>();
  check_isolation<float>();
  check_isolation<bf16>();
  check_isolation<fp16>();
}

TEST(Attention, SequencesAreIsolated) {
  const Shape s = {1, 2, 4, 2, 65, 0};
  std::vector<bool> second(2 * 65, false);
  std::fill(second.begin() + 65, second.end(), true);
  const auto gradient = gradient_of<double>(attention_shape(s), documents(s), second);
  for (int64_t i = 0; i < 65 * attention_shape(s).head.row(); ++i) ASSERT_EQ(gradient[i], 0.0);
}

TEST(Attention, EveryTokenItsOwnDocumentCopiesItsValue) {
  const Shape s = {2, 2, 5, 1, 70, 1};
  const AttentionShape shape = attention_shape(s);
  AttentionCase<double> c(shape, documents(s));
  Draw draw(3);
  Array in(ElementType::fp64, c.inputs()[0].size), out(ElementType::fp64, c.outputs()[0].size);
  in.fill(draw.normals(in.size()));
  c.forward({out}, {in});
  const auto x = in.read(), y = out.read();
  for (int64_t t = 0; t < 70; ++t)
    for (int64_t h = 0; h < 4; ++h)
      for (int64_t d = 0; d < 5; ++d)
        // The one weight is 1 but for the rounding of scale * score - maximum in one operation.
        ASSERT_NEAR(y[(t * 4 + h) * 5 + d], x[t * shape.head.row() + (6 + h / 2) * 5 + d], 1e-15);
}

template <class T>
void compare_cached(double allowed) {
  for (const auto& s : kShapes) {
    if (s.sequences != 1 || s.mean_document != 0) continue;
    SCOPED_TRACE(label(s));
    const AttentionShape shape = attention_shape(s);
    const HeadShape& h = shape.head;
    AttentionCase<T> whole(shape, documents(s));
    Draw draw(29);
    const ElementType type = ElementTraits<T>::kType;
    const int64_t cached = h.kv_heads * h.head_dim, width = h.heads * h.head_dim;
    Array in(type, whole.inputs()[0].size), out(type, whole.outputs()[0].size);
    in.fill(draw.normals(in.size(), 2.0));
    whole.forward({out}, {in});
    const auto qkv = in.read(), expected = out.read();
    Array keys(type, s.length * cached), values(type, s.length * cached);
    std::vector<double> k, v;
    for (int64_t t = 0; t < s.length; ++t) {
      const auto row = qkv.begin() + t * h.row() + width;
      k.insert(k.end(), row, row + cached);
      v.insert(v.end(), row + cached, row + 2 * cached);
    }
    keys.fill(k);
    values.fill(v);
    // All tokens at once, and the last few after the others.
    for (const int64_t start : {int64_t{0}, s.length - 1, s.length * 2 / 3}) {
      const int64_t count = s.length - start;
      Array some(type, count * width);
      attention_cached<T>(some.matrix<T>(count, width),
                          Mat<const T>(in.as<T>() + start * h.row(), count, h.row()),
                          keys.matrix<T>(s.length, cached), values.matrix<T>(s.length, cached),
                          start, h, shape.scale);
      EXPECT_TRUE(some.guards_are_intact());
      EXPECT_LT(relative_distance(some.read(), {expected.begin() + start * width, expected.end()}),
                allowed);
    }
  }
}
// Both sum at most 300 terms in their own orders.
TEST(AttentionCached, AgreesWithAttention) {
  compare_cached<double>(1e-13);
  compare_cached<float>(300 * 0x1.0p-23 / 4);
}

// fp32: scores of size s are rounded to s * epsilon, an absolute error of the exponent, and a
// gradient is the difference (d_o . v) - D of terms larger than itself: about ten epsilons. 16-bit:
// everything between the rounded input and the rounded output is fp32, except that backward reads
// the rounded outputs for D = d_o . o, whose error the gradient of the scores inherits.
template <class T>
void compare_attention() {
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.insert(shapes.end(), std::begin(kTensorCoreShapes), std::end(kTensorCoreShapes));
  for (const auto& s : shapes) {
    SCOPED_TRACE(label(s));
    AttentionCase<T> low(attention_shape(s), documents(s));
    AttentionCase<double> exact(attention_shape(s), documents(s));
    const bool wide = std::is_same_v<T, float>;
    EXPECT_EQ(compare_types(low, exact, {wide ? 8.0 : 1.0, wide ? 12.0 : 2.0}), "");
  }
}
TEST(Attention, LowPrecision) {
  compare_attention<float>();
  compare_attention<bf16>();
  compare_attention<fp16>();
}

}  // namespace
}  // namespace espalier::check
