// SPDX-License-Identifier: Apache-2.0
// Attention of some heads of a model gives the bits of the same heads computed with all others,
// wherever queries, keys and values lie.
#include <gtest/gtest.h>

#include "cases_attention.hpp"
#include "derivative.hpp"
#include "draw.hpp"
#include "shards.hpp"

namespace espalier::check {
namespace {

template <class T>
class Heads : public testing::Test {};
using AllTypes = testing::Types<float, double, bf16, fp16>;
TYPED_TEST_SUITE(Heads, AllTypes, );

/// Heads [first, first + count) of a model, with the key heads that belong to them.
struct HeadRange {
  int64_t first, count, first_kv, kv;
};

/// Attention on random data of 4 query heads in 2 groups, two sequences, with documents.
template <class T>
class HeadProblem {
 public:
  static constexpr int64_t kHeads = 4, kKv = 2, kDim = 5, kLength = 130, kTokens = 2 * kLength;
  static constexpr HeadRange kAll = {0, kHeads, 0, kKv};

  explicit HeadProblem(double dropout) : mask_{dropout, 3, 5} {
    Draw draw(31);
    std::vector<int32_t> start;
    for (int64_t b = 0; b < 2; ++b) {
      const auto one = draw_documents(draw, kLength, 50);
      start.insert(start.end(), one.begin(), one.end());
    }
    start_ = start;
    q_ = draw.normals(kTokens * kHeads * kDim);
    k_ = draw.normals(kTokens * kKv * kDim);
    v_ = draw.normals(kTokens * kKv * kDim);
    d_out_ = draw.normals(kTokens * kHeads * kDim);
  }

  struct Result {
    Values heads, log_sum, dq, dk, dv;
  };

  /// The range computed by one call on matrices of its own.
  Result separate(const HeadRange& r) const {
    const Array q = filled<T>(queries(q_, r)), k = filled<T>(keys(k_, r)),
                v = filled<T>(keys(v_, r)), d_out = filled<T>(queries(d_out_, r));
    const Array heads(q.type(), q.size()), dq(q.type(), q.size()), dk(q.type(), k.size()),
        dv(q.type(), k.size()), log_sum(sum_type(q.type()), kTokens * r.count);
    const int64_t query = r.count * kDim, key = r.kv * kDim;
    call(r, {{q.as<T>(), query}, {k.as<T>(), key}, {v.as<T>(), key}},
         {{dq.as<T>(), query}, {dk.as<T>(), key}, {dv.as<T>(), key}}, {heads.as<T>(), query},
         {d_out.as<T>(), query}, {log_sum.as<Acc<T>>(), r.count});
    return {heads.read(), log_sum.read(), dq.read(), dk.read(), dv.read()};
  }

  /// The range computed by one call in place within the matrices of all heads, qkv packed.
  Result within_the_whole(const HeadRange& r) const {
    const HeadShape all{kHeads, kKv, kDim};
    Values packed;
    for (int64_t t = 0; t < kTokens; ++t)
      for (const auto* x : {&q_, &k_, &v_}) {
        const int64_t width = static_cast<int64_t>(x->size()) / kTokens;
        packed.insert(packed.end(), x->begin() + t * width, x->begin() + (t + 1) * width);
      }
    const Array qkv = filled<T>(packed), d_qkv(qkv.type(), qkv.size()), d_out = filled<T>(d_out_);
    const Array heads(qkv.type(), d_out.size()), log_sum(sum_type(qkv.type()), kTokens * kHeads);
    const auto part = [&](const Array& a) {
      auto x = query_key_value(a.matrix<T>(kTokens, all.row()), all);
      x.q.data += r.first * kDim;
      x.k.data += r.first_kv * kDim;
      x.v.data += r.first_kv * kDim;
      return x;
    };
    const int64_t query = kHeads * kDim, from = r.first * kDim;
    call(r, part(qkv), part(d_qkv), {heads.as<T>() + from, query}, {d_out.as<T>() + from, query},
         {log_sum.as<Acc<T>>() + r.first, kHeads});
    const auto d = d_qkv.read();
    const int64_t row = all.row(), key = r.kv * kDim, k_at = query + r.first_kv * kDim;
    Result result{columns(heads.read(), query, from, r.count * kDim),
                  columns(log_sum.read(), kHeads, r.first, r.count),
                  columns(d, row, from, r.count * kDim), columns(d, row, k_at, key),
                  columns(d, row, k_at + kKv * kDim, key)};
    // All else was poisoned and still is.
    int64_t written = 0;
    for (const double x : d) written += x == x;
    EXPECT_EQ(written, kTokens * (r.count + 2 * r.kv) * kDim);
    return result;
  }

  static Values queries(const Values& x, const HeadRange& r) {
    return columns(x, kHeads * kDim, r.first * kDim, r.count * kDim);
  }
  static Values keys(const Values& x, const HeadRange& r) {
    return columns(x, kKv * kDim, r.first_kv * kDim, r.kv * kDim);
  }

 private:
  void call(const HeadRange& r, const QueryKeyValue<T>& in, const QueryKeyValue<T>& d_in,
            const HeadRows<T>& heads, const HeadRows<T>& d_out,
            const HeadRows<Acc<T>>& log_sum) const {
    const AttentionShape shape = attention_shape(r.count, r.kv, kDim, 2, kLength);
    const DeviceList<int64_t> first_token = {260, 650};
    const AttentionDropout dropout{mask_, first_token.data(), r.first, kHeads};
    Array scratch = scratch_of<T>(shape);
    attention_forward<T>(heads, log_sum, in, start_.data(), shape, dropout, scratch.as<Acc<T>>());
    scratch.poison();
    attention_backward<T>(d_in, d_out, heads, log_sum, in, start_.data(), shape, dropout,
                          scratch.as<Acc<T>>());
    EXPECT_TRUE(scratch.guards_are_intact());
  }

  DropoutMask mask_;
  DeviceList<int32_t> start_;
  Values q_, k_, v_, d_out_;
};

TYPED_TEST(Heads, InTwoCallsGiveTheBitsOfOne) {
  using Problem = HeadProblem<TypeParam>;
  for (const double dropout : {0.0, 0.3}) {
    const Problem problem(dropout);
    const auto whole = problem.separate(Problem::kAll);
    const auto expect_part = [&](const typename Problem::Result& part, const HeadRange& r) {
      EXPECT_TRUE(same_bits(part.heads, Problem::queries(whole.heads, r)));
      EXPECT_TRUE(
          same_bits(part.log_sum, columns(whole.log_sum, Problem::kHeads, r.first, r.count)));
      EXPECT_TRUE(same_bits(part.dq, Problem::queries(whole.dq, r)));
      if (r.count != r.kv * Problem::kHeads / Problem::kKv) return;  // only part of a group
      EXPECT_TRUE(same_bits(part.dk, Problem::keys(whole.dk, r)));
      EXPECT_TRUE(same_bits(part.dv, Problem::keys(whole.dv, r)));
    };
    expect_part(problem.within_the_whole(Problem::kAll), Problem::kAll);
    for (const HeadRange r : {HeadRange{0, 2, 0, 1}, {2, 2, 1, 1}, {0, 1, 0, 1}, {3, 1, 1, 1}}) {
      expect_part(problem.separate(r), r);
      expect_part(problem.within_the_whole(r), r);
    }
  }
}

// Where a group is cut, the gradients of its key head are partial sums.
TEST(HeadsOfAGroup, KeyGradientsAddUp) {
  const HeadProblem<double> problem(0.3);
  const auto whole = problem.separate({2, 2, 1, 1});
  const auto a = problem.separate({2, 1, 1, 1}), b = problem.separate({3, 1, 1, 1});
  for (const auto part : {&HeadProblem<double>::Result::dk, &HeadProblem<double>::Result::dv}) {
    Values sum = a.*part;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += (b.*part)[i];
    EXPECT_LT(relative_distance(sum, whole.*part), 1e-14);
    EXPECT_GT(relative_distance(a.*part, whole.*part), 1e-2);
  }
}

// The heads of another rank have other masks.
TEST(HeadsOfAGroup, MasksFollowTheGlobalHead) {
  AttentionDropout wrong{{0.3, 3, 5}, nullptr, 0, 4};
  const AttentionShape shape = attention_shape(2, 1, 4, 1, 8);
  Array x(ElementType::fp64, 1000);
  x.fill(Values(1000, 0.5));
  const DeviceList<int32_t> start(int64_t{8});
  const Array scratch = scratch_of<double>(shape);
  const auto run = [&](const AttentionDropout& d) {
    attention_forward<double>({x.as<double>() + 500, 8}, {x.as<double>() + 600, 2},
                              {{x.as<double>(), 8}, {x.as<double>(), 8}, {x.as<double>(), 8}},
                              start.data(), shape, d, scratch.as<double>());
    auto all = x.read();
    return Values(all.begin() + 500, all.begin() + 564);
  };
  EXPECT_THROW(run(wrong), InternalError);  // no token indices
  const DeviceList<int64_t> token = {17};
  wrong.first_token = token.data();
  const auto first = run(wrong);
  wrong.first_head = 2;
  EXPECT_NE(run(wrong), first);
  wrong.first_head = 3;
  EXPECT_THROW(run(wrong), InternalError);  // heads 3 and 4 of 4
}

}  // namespace
}  // namespace espalier::check
