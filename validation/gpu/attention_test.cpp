// SPDX-License-Identifier: Apache-2.0
// Tuned attention against attention in double.
#include "cuda/attention.hpp"

#include "core/error.hpp"
#include "gpu/attention_reference.hpp"

namespace espalier {
namespace {

using namespace gpu_test;

/// Inputs and results of one case on the host.
template <class T>
struct Attention {
  AttentionCase c;
  HostRows<T> q, k, v, d_out, out, dq, dk, dv;
  HostRows<float> log_sum;
  std::vector<int32_t> starts;

  Attention(const AttentionCase& shape, uint64_t seed)
      : c(shape),
        q(c.tokens(), c.heads * c.dim, c.gap),
        k(c.tokens(), c.kv_heads * c.dim, 2 * c.gap),
        v(c.tokens(), c.kv_heads * c.dim, 3 * c.gap),
        d_out(c.tokens(), c.heads * c.dim, 2 * c.gap),
        out(c.tokens(), c.heads * c.dim, 3 * c.gap),
        dq(c.tokens(), c.heads * c.dim, 4 * c.gap),
        dk(c.tokens(), c.kv_heads * c.dim, c.gap),
        dv(c.tokens(), c.kv_heads * c.dim, 5 * c.gap),
        log_sum(c.tokens(), c.heads, c.gap) {
    Random random(seed);
    for (HostRows<T>* rows : {&q, &k, &v, &d_out}) rows->randomise(random, 1.5);
    for (int64_t token = 0; token < c.tokens(); ++token) {
      const auto t = static_cast<int32_t>(token % c.length);
      int32_t start = t == 0 ? 0 : starts.back();
      if (c.document > 0 && random.below(c.document) == 0) start = t;
      if (c.is_ragged) start = static_cast<int32_t>(random.below(t + 1));
      starts.push_back(start);
    }
  }

  void run_forward() {
    DeviceArray<T> q_(q.values), k_(k.values), v_(v.values), out_(out.values);
    DeviceArray<float> log_sum_(log_sum.values);
    DeviceArray<int32_t> starts_(starts);
    cuda::AttentionForward<T> call;
    call.out = {out_.data(), out.stride};
    call.log_sum = {log_sum_.data(), log_sum.stride};
    call.q = {q_.data(), q.stride};
    call.k = {k_.data(), k.stride};
    call.v = {v_.data(), v.stride};
    fill(call, starts_);
    ASSERT_TRUE(cuda::can_run(call)) << c.name();
    cuda::attention_forward(call, stream());
    out.values = out_.values();
    log_sum.values = log_sum_.values();
  }

  void run_backward() {
    DeviceArray<T> q_(q.values), k_(k.values), v_(v.values), out_(out.values);
    DeviceArray<T> d_out_(d_out.values), dq_(dq.values), dk_(dk.values), dv_(dv.values);
    DeviceArray<float> log_sum_(log_sum.values);
    DeviceArray<int32_t> starts_(starts);
    const int64_t size = cuda::attention_scratch(c.sequences, c.length, c.heads);
    DeviceArray<float> scratch(poisoned<float>(size));
    cuda::AttentionBackward<T> call;
    call.dq = {dq_.data(), dq.stride};
    call.dk = {dk_.data(), dk.stride};
    call.dv = {dv_.data(), dv.stride};
    call.d_out = {d_out_.data(), d_out.stride};
    call.out = {out_.data(), out.stride};
    call.log_sum = {log_sum_.data(), log_sum.stride};
    call.q = {q_.data(), q.stride};
    call.k = {k_.data(), k.stride};
    call.v = {v_.data(), v.stride};
    call.scratch = scratch.data();
    fill(call, starts_);
    ASSERT_TRUE(cuda::can_run(call)) << c.name();
    cuda::attention_backward(call, stream());
    dq.values = dq_.values();
    dk.values = dk_.values();
    dv.values = dv_.values();
  }

  template <class Call>
  void fill(Call& call, const DeviceArray<int32_t>& starts_) const {
    call.document_start = starts_.data();
    call.sequences = c.sequences;
    call.length = c.length;
    call.heads = c.heads;
    call.kv_heads = c.kv_heads;
    call.head_dim = c.dim;
    call.scale = static_cast<float>(c.scale);
  }

  /// Elements outside their bounds, by result.
  struct Faults {
    int64_t out = 0, log_sum = 0, dq = 0, dk = 0, dv = 0;
    std::string text;
    int64_t all() const { return out + log_sum + dq + dk + dv; }
  };
  Faults compare(Defect defect) const {
    Faults faults;
    const auto count = [&](int64_t& to, const char* what, const auto& rows, const Bounded& want) {
      std::string first;
      to = count_faults(rows, want, first);
      if (to > 0) faults.text += fmt::format("{}: {} faults, {}\n", what, to, first);
    };
    Bounded o(c.tokens() * out.width), l(c.tokens() * c.heads);
    reference_forward(c, q, k, v, starts, defect, o, l);
    count(faults.out, "out", out, o);
    count(faults.log_sum, "log_sum", log_sum, l);
    Bounded gq(c.tokens() * dq.width), gk(c.tokens() * dk.width), gv(c.tokens() * dv.width);
    reference_backward(c, q, k, v, starts, out, log_sum, d_out, defect, gq, gk, gv);
    count(faults.dq, "dq", dq, gq);
    count(faults.dk, "dk", dk, gk);
    count(faults.dv, "dv", dv, gv);
    return faults;
  }
  bool gaps_hold() const {
    return gaps_are_whole(out) && gaps_are_whole(log_sum) && gaps_are_whole(dq) &&
           gaps_are_whole(dk) && gaps_are_whole(dv);
  }
};

template <class T>
void check(Attention<T>& a) {
  a.run_forward();
  a.run_backward();
  const auto faults = a.compare(Defect::none);
  EXPECT_EQ(faults.all(), 0) << a.c.name() << "\n" << faults.text;
  EXPECT_TRUE(a.gaps_hold()) << a.c.name() << ": wrote between the rows";
}
template <class T>
void check(const AttentionCase& c, uint64_t seed) {
  Attention<T> a(c, seed);
  check(a);
}

template <class T>
class TunedAttention : public testing::Test {};
using HalfTypes = testing::Types<bf16, fp16>;
TYPED_TEST_SUITE(TunedAttention, HalfTypes, );

double usual_scale(int64_t dim) {
  return 1 / std::sqrt(static_cast<double>(dim));
}

TYPED_TEST(TunedAttention, AgreesOnEveryHeadDimension) {
  uint64_t seed = 1;
  for (const int64_t dim : {64, 96, 128, 256}) {
    // Sequences of one tile and a bit, several tiles, and shorter than the smallest fragment.
    for (const int64_t length : {1, 7, 33, 130, 197})
      check<TypeParam>({length > 100 ? 1 : 2, length, 2, 1, dim, 8, 0, false, usual_scale(dim)},
                       seed++);
    check<TypeParam>({1, 150, 2, 2, dim, 0, 40, false, usual_scale(dim)}, seed++);
  }
}

TYPED_TEST(TunedAttention, AgreesOnGroupsOfQueries) {
  uint64_t seed = 101;
  for (const int64_t group : {1, 2, 4, 8})
    check<TypeParam>({1, 70, 2 * group, 2, 64, 16, 30, false, usual_scale(64)}, seed++);
}

TYPED_TEST(TunedAttention, AgreesOnManyDocuments) {
  uint64_t seed = 201;
  for (const int64_t document : {1, 3, 20, 90})
    check<TypeParam>({2, 281, 1, 1, 64, 8, document, false, usual_scale(64)}, seed++);
}

TYPED_TEST(TunedAttention, AgreesWhereDocumentStartsAreInNoOrder) {
  uint64_t seed = 301;
  for (const int64_t dim : {64, 128})
    check<TypeParam>({1, 260, 2, 1, dim, 8, 0, true, usual_scale(dim)}, seed++);
}

// A tile of keys of which the first alone is hidden.
TYPED_TEST(TunedAttention, AgreesOnADocumentThatBeginsOneAfterATile) {
  for (const int64_t dim : {64, 128}) {
    Attention<TypeParam> a({1, 300, 1, 1, dim, 0, 0, false, usual_scale(dim)}, 341);
    for (size_t t = 129; t < a.starts.size(); ++t) a.starts[t] = 129;
    check(a);
  }
}

// More tiles between a key and a query that sees it than one look over the tiles covers.
TYPED_TEST(TunedAttention, AgreesOnALateQueryOfAnEarlyKey) {
  Attention<TypeParam> a({1, 2300, 1, 1, 64, 0, 25, false, usual_scale(64)}, 351);
  a.starts[2290] = 3;
  check(a);
}

TYPED_TEST(TunedAttention, AgreesOnSharpSoftmax) {
  check<TypeParam>({1, 140, 2, 1, 128, 0, 50, false, 3.0}, 401);
}

TYPED_TEST(TunedAttention, AgreesOnRandomShapes) {
  Random random(7);
  for (int i = 0; i < 8; ++i) {
    AttentionCase c;
    c.dim = std::vector<int64_t>{64, 96, 128, 256}[static_cast<size_t>(random.below(4))];
    c.kv_heads = 1 + random.below(2);
    c.heads = c.kv_heads * (1 + random.below(3));
    c.sequences = 1 + random.below(2);
    c.length = 1 + random.below(180);
    c.gap = 8 * random.below(4);
    c.document = random.below(60);
    c.is_ragged = random.below(4) == 0;
    c.scale = random.uniform(0.02, 0.3);
    check<TypeParam>(c, 500 + static_cast<uint64_t>(i));
  }
}

TYPED_TEST(TunedAttention, ComparisonFindsWrongMasksAndScales) {
  Attention<TypeParam> a({1, 90, 2, 1, 64, 0, 30, false, usual_scale(64)}, 601);
  a.run_forward();
  a.run_backward();
  ASSERT_EQ(a.compare(Defect::none).all(), 0);
  for (const Defect defect : {Defect::sees_next_key, Defect::misses_own_key,
                              Defect::ignores_documents, Defect::wrong_scale}) {
    const auto faults = a.compare(defect);
    const auto which = static_cast<int>(defect);
    EXPECT_GT(faults.log_sum, 0) << which;
    EXPECT_GT(faults.out, 0) << which;
    EXPECT_GT(faults.dq, 0) << which;
    EXPECT_GT(faults.dk, 0) << which;
    EXPECT_GT(faults.dv, 0) << which;
  }
}

TYPED_TEST(TunedAttention, RepeatsItsBits) {
  Attention<TypeParam> a({1, 150, 4, 2, 64, 8, 60, false, usual_scale(64)}, 701), b = a;
  for (auto* each : {&a, &b}) {
    each->run_forward();
    each->run_backward();
  }
  expect_same_bits(a.out.values, b.out.values, "out");
  expect_same_bits(a.dq.values, b.dq.values, "dq");
  expect_same_bits(a.dk.values, b.dk.values, "dk");
  expect_same_bits(a.dv.values, b.dv.values, "dv");
}

// One head of one sequence of a larger call has the bits of a call with that head alone.
TYPED_TEST(TunedAttention, HeadsAndSequencesAreIndependent) {
  Attention<TypeParam> many({3, 140, 4, 2, 96, 8, 50, false, usual_scale(96)}, 801);
  Attention<TypeParam> one({1, 140, 2, 1, 96, 16, 0, false, usual_scale(96)}, 802);
  const int64_t sequence = 1, kv_head = 1, length = many.c.length;
  const auto cut = [&](const auto& from, auto& to) {
    for (int64_t t = 0; t < length; ++t)
      for (int64_t i = 0; i < to.width; ++i)
        to.values[static_cast<size_t>(t * to.stride + i)] = from.values[static_cast<size_t>(
            (sequence * length + t) * from.stride + kv_head * to.width + i)];
  };
  cut(many.q, one.q);
  cut(many.k, one.k);
  cut(many.v, one.v);
  cut(many.d_out, one.d_out);
  one.starts.assign(many.starts.begin() + sequence * length,
                    many.starts.begin() + (sequence + 1) * length);
  for (auto* each : {&many, &one}) {
    each->run_forward();
    each->run_backward();
  }
  const auto expect_same = [&](const auto& from, auto rows, const char* what) {
    auto part = rows;
    cut(from, part);
    expect_same_bits(rows.values, part.values, what);
  };
  expect_same(many.out, one.out, "out");
  expect_same(many.log_sum, one.log_sum, "log_sum");
  expect_same(many.dq, one.dq, "dq");
  expect_same(many.dk, one.dk, "dk");
  expect_same(many.dv, one.dv, "dv");
}

TYPED_TEST(TunedAttention, RefusesWhatItCannotRun) {
  alignas(16) static TypeParam row[512];
  float log_sum[1];
  cuda::AttentionForward<TypeParam> call;
  call.out = {row, 64};
  call.q = call.k = call.v = {row, 64};
  call.log_sum = {log_sum, 1};
  call.sequences = call.length = call.heads = call.kv_heads = 1;
  call.head_dim = 64;
  ASSERT_TRUE(cuda::can_run(call));
  const auto refuses = [&](auto change) {
    auto other = call;
    change(other);
    return !cuda::can_run(other);
  };
  EXPECT_TRUE(refuses([](auto& c) { c.head_dim = 80; }));
  EXPECT_TRUE(refuses([](auto& c) { c.scale = 0; }));
  EXPECT_TRUE(refuses([](auto& c) { c.k.stride = 68; }));
  EXPECT_TRUE(refuses([](auto& c) { c.out.data += 4; }));
  EXPECT_TRUE(refuses([](auto& c) { c.kv_heads = 2; }));
  call.head_dim = 80;
  EXPECT_THROW(cuda::attention_forward(call, stream()), InternalError);
}

}  // namespace
}  // namespace espalier
