// SPDX-License-Identifier: Apache-2.0
// AdamW against numbers in 60 digits, against a plain loop, and the same bits wherever a value
// lies.
#include "optim/adamw.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "../../device_list.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace espalier {
namespace {

using check::DeviceList;

OptimizerConfig config() {
  OptimizerConfig c;
  c.beta1 = 0.9;
  c.beta2 = 0.95;
  c.eps = 1e-8;
  c.weight_decay = 0.1;
  return c;
}

// Segments whose rows are single elements, so that ranges may begin anywhere.
OptimizerSegment segment(int64_t offset, int64_t size, WeightDecay decay = WeightDecay::apply) {
  OptimizerSegment s;
  s.offset = offset;
  s.size = size;
  s.decay = decay;
  return s;
}

template <class T>
AdamW<T> whole(int64_t size, const std::vector<OptimizerSegment>& segments) {
  return AdamW<T>(segments, own_everything(size), AdamWIndexing{}, config());
}

double draw(uint64_t purpose, int64_t i) {
  return random_normal(7, purpose, static_cast<uint64_t>(i));
}

// torch.optim.AdamW(lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1) step by step: its
// formulas (p *= 1 - lr wd; m, v; p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)) in
// decimal arithmetic of 60 digits.
TEST(AdamW, FollowsPyTorchsFormula) {
  const DeviceList<double> gradients[4] = {
      {0.5, -0.25, 2.0}, {-1.0, 0.125, 1e-3}, {0.0625, 3.0, -0.75}, {0.0, 1e-9, 0.5}};
  const double expected[4][3] = {{0.98900000020000000, -0.48950000039999998, 0.23975000005000000},
                                 {0.99164473965895929, -0.48632680605560377, 0.23272000325867757},
                                 {0.99313494140649028, -0.49186195517281976, 0.22983014837461793},
                                 {0.99420129580132716, -0.49636684283215237, 0.22609758274247359}};
  const DeviceList<double> weights = {1.0, -0.5, 0.25};
  auto optimizer = whole<double>(3, {segment(0, 3)});
  for (int step = 0; step < 4; ++step) {
    optimizer.update(weights.data(), gradients[step].data(), nullptr, 0.01, 1.0);
    const auto w = weights.host();
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(w[i], expected[step][i], 4e-16) << step << " " << i;
  }
  EXPECT_EQ(optimizer.state().updates, 4);
}

// One step on one element in long double, straight from the definition in the header.
struct Plain {
  long double w, m = 0, v = 0;
  void update(long double g, const OptimizerConfig& c, long double lr, bool decays, int t) {
    m = c.beta1 * m + (1 - static_cast<long double>(c.beta1)) * g;
    v = c.beta2 * v + (1 - static_cast<long double>(c.beta2)) * g * g;
    const long double mhat = m / (1 - std::pow(static_cast<long double>(c.beta1), t));
    const long double vhat = v / (1 - std::pow(static_cast<long double>(c.beta2), t));
    if (decays) w *= 1 - lr * static_cast<long double>(c.weight_decay);
    w -= lr * mhat / (std::sqrt(vhat) + static_cast<long double>(c.eps));
  }
};

template <class T>
void expect_plain_loop(double tolerance) {
  using Real = Acc<T>;
  constexpr int64_t kSize = 40000;
  const std::vector<OptimizerSegment> segments = {segment(3, 35000),
                                                  segment(35010, 4001, WeightDecay::none)};
  const bool separate = !std::is_same_v<T, Real>;
  std::vector<Real> start(kSize), g(kSize);
  std::vector<Plain> plain(kSize);
  for (int64_t i = 0; i < kSize; ++i) plain[i].w = start[i] = static_cast<Real>(draw(1, i));
  const DeviceList<Real> weights(start);
  const DeviceList<T> copy(std::vector<T>(separate ? kSize : 0, T(7.0f)));
  auto optimizer = whole<T>(kSize, segments);
  for (int t = 1; t <= 5; ++t) {
    for (int64_t i = 0; i < kSize; ++i)
      g[i] = static_cast<Real>(draw(10 + static_cast<uint64_t>(t), i));
    const DeviceList<Real> gradient(g);
    optimizer.update(weights.data(), gradient.data(), separate ? copy.data() : nullptr, 1e-2,
                     0.125);
    for (size_t s = 0; s < segments.size(); ++s)
      for (int64_t i = segments[s].offset; i < segments[s].offset + segments[s].size; ++i)
        plain[i].update(0.125L * g[i], config(), 1e-2L, s == 0, t);
  }
  const auto w = weights.host();
  const auto compute = copy.host();
  const auto first_moment = host_copy(optimizer.first_moment(), kSize);
  for (int64_t i = 0; i < kSize; ++i) {
    const bool is_inside = (i >= 3 && i < 35003) || (i >= 35010 && i < 39011);
    ASSERT_NEAR(w[i], static_cast<double>(plain[i].w), tolerance) << i;
    if (!is_inside) {
      ASSERT_EQ(w[i], start[i]) << i;
      ASSERT_EQ(first_moment[i], 0.0) << i;
    }
    if (separate) {
      ASSERT_EQ(static_cast<float>(compute[i]), is_inside ? static_cast<float>(T(w[i])) : 7.0f)
          << i;
    }
  }
}

// Weights reach about 5; five updates of about six roundings each, half an ulp apiece.
TEST(AdamW, IsThePlainLoopInFloat) {
  expect_plain_loop<float>(15 * 5 * 6e-8);
}
TEST(AdamW, IsThePlainLoopInDouble) {
  expect_plain_loop<double>(15 * 5 * 1.2e-16);
}
TEST(AdamW, WritesTheCopyInBf16) {
  expect_plain_loop<bf16>(15 * 5 * 6e-8);
}
TEST(AdamW, WritesTheCopyInFp16) {
  expect_plain_loop<fp16>(15 * 5 * 6e-8);
}

// The same values at many places and in segments of many lengths: every bit equal.
template <class Real>
void expect_same_bits_everywhere() {
  constexpr int64_t kLength = 77;
  std::vector<Real> expected;
  for (int64_t offset = 0; offset < 40; ++offset)
    for (const int64_t length : {int64_t{1}, int64_t{5}, int64_t{31}, int64_t{32}, kLength}) {
      // Cut so that a value is now in a whole block of its segment and now in the rest of it.
      std::vector<OptimizerSegment> segments;
      for (int64_t first = 0; first < kLength; first += length)
        segments.push_back(segment(offset + first, std::min(length, kLength - first)));
      std::vector<Real> start(kLength + offset), g(kLength + offset);
      for (int64_t i = 0; i < kLength; ++i) start[offset + i] = static_cast<Real>(draw(1, i));
      const DeviceList<Real> weights(start);
      auto optimizer = whole<Real>(kLength + offset, segments);
      for (int t = 0; t < 3; ++t) {
        for (int64_t i = 0; i < kLength; ++i)
          g[offset + i] = static_cast<Real>(draw(20 + static_cast<uint64_t>(t), i));
        const DeviceList<Real> gradient(g);
        optimizer.update(weights.data(), gradient.data(), nullptr, 1e-3, 0.3);
      }
      std::vector<Real> got;
      for (const Real* from :
           {weights.data(), optimizer.first_moment(), optimizer.second_moment()}) {
        const auto part = host_copy(from + offset, kLength);
        got.insert(got.end(), part.begin(), part.end());
      }
      if (expected.empty()) expected = got;
      ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(Real)), 0)
          << "offset " << offset << ", segments of " << length;
    }
}

TEST(AdamW, GivesTheSameBitsWhereverAValueLiesInFloat) {
  expect_same_bits_everywhere<float>();
}
TEST(AdamW, GivesTheSameBitsWhereverAValueLiesInDouble) {
  expect_same_bits_everywhere<double>();
}

TEST(AdamW, GoesOnFromSavedMomentsAndCount) {
  constexpr int64_t kSize = 500;
  const std::vector<OptimizerSegment> segments = {segment(0, kSize)};
  std::vector<float> start(kSize);
  for (int64_t i = 0; i < kSize; ++i) start[i] = static_cast<float>(draw(1, i));
  const DeviceList<float> straight(start), w(start), g(kSize);
  const auto gradient = [&](int t) {
    std::vector<float> values(kSize);
    for (int64_t i = 0; i < kSize; ++i)
      values[i] = static_cast<float>(draw(30 + static_cast<uint64_t>(t), i));
    g.write(values);
    return g.data();
  };
  auto through = whole<float>(kSize, segments);
  for (int t = 0; t < 6; ++t) through.update(straight.data(), gradient(t), nullptr, 1e-3, 1.0);
  auto before = whole<float>(kSize, segments), after = whole<float>(kSize, segments);
  for (int t = 0; t < 3; ++t) before.update(w.data(), gradient(t), nullptr, 1e-3, 1.0);
  check::write_to(after.first_moment(), host_copy(before.first_moment(), kSize));
  check::write_to(after.second_moment(), host_copy(before.second_moment(), kSize));
  after.restore(before.state());
  for (int t = 3; t < 6; ++t) after.update(w.data(), gradient(t), nullptr, 1e-3, 1.0);
  EXPECT_EQ(w.host(), straight.host());
}

TEST(AdamW, RefusesAMissingCopy) {
  const DeviceList<float> w = {1.0f}, g = {1.0f};
  auto mixed = whole<bf16>(1, {segment(0, 1)});
  EXPECT_THROW(mixed.update(w.data(), g.data(), nullptr, 1e-3, 1.0), InternalError);
  auto plain = whole<float>(1, {segment(0, 1)});
  EXPECT_THROW(plain.update(w.data(), g.data(), w.data(), 1e-3, 1.0), InternalError);
}

}  // namespace
}  // namespace espalier
