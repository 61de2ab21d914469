// SPDX-License-Identifier: Apache-2.0
// AdamW of bf16 weights without a master: each rounding, its mean, small updates, and the same bits
// on every layout.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "../../device_list.hpp"
#include "core/error.hpp"
#include "optim/adamw.hpp"
#include "optim/stochastic_rounding.hpp"
#include "small_table.hpp"

namespace espalier {
namespace {

using check::DeviceList;

constexpr uint64_t kSeed = 77;

OptimizerConfig config() {
  OptimizerConfig c;
  c.weight_decay = 0.1;
  return c;
}

float widened(uint32_t bits16) {
  return bits_float(bits16 << 16);
}

// x between bf16 values `low` and `low + 1` (numbers of their bits), with u of 65536.
uint32_t round_by_hand(double x, uint32_t u) {
  const double magnitude = std::abs(x);
  uint32_t low = float_bits(static_cast<float>(magnitude)) >> 16;
  const double below = widened(low);
  // The step above the largest finite one is as wide as the one below.
  const double width = low == 0x7f7f ? below - widened(low - 1) : widened(low + 1) - below;
  const double dropped = (magnitude - below) / width * 65536.0;
  if (dropped + u >= 65536.0) ++low;
  return low | (std::signbit(x) ? 0x8000u : 0u);
}

const std::vector<float>& interesting_values() {
  static const std::vector<float> values = [] {
    std::vector<float> v = {
        0.0f,      1.0f,        1.0f + 0x1p-8f, 1.0f + 0x1p-23f, 2.0f - 0x1p-23f,
        0x1p-126f, 0x1.8p-130f, 0x1p-149f,      0x1.fffffep127f, 0x1.fe8p127f};
    for (int i = 0; i < 30; ++i)
      v.push_back(static_cast<float>(random_normal(3, 1, static_cast<uint64_t>(i)) *
                                     std::pow(10.0, i - 15)));
    for (size_t i = v.size(); i-- > 0;) v.push_back(-v[i]);
    return v;
  }();
  return values;
}

TEST(StochasticRounding, IsTheRuleOfItsDefinition) {
  for (const float x : interesting_values())
    for (uint32_t u = 0; u < 65536; u += 13)
      ASSERT_EQ(round_stochastically(x, u).bits, round_by_hand(x, u)) << x << " " << u;
}

// Over all 65,536 numbers, in exact arithmetic.
TEST(StochasticRounding, HasTheValueAsItsMean) {
  for (const float x : interesting_values()) {
    if (std::abs(x) > 0x1.fep127f) continue;  // some of these are infinite
    long double sum = 0;
    for (uint32_t u = 0; u < 65536; ++u)
      sum += static_cast<long double>(static_cast<float>(round_stochastically(x, u)));
    EXPECT_EQ(sum, 65536.0L * static_cast<long double>(x)) << x;
  }
}

TEST(StochasticRounding, LeavesWhatIsExactOrNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const uint32_t u : {0u, 1u, 0x8000u, 0xffffu}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const float x = widened(bits);
      if (std::isnan(x)) continue;
      ASSERT_EQ(round_stochastically(x, u).bits, bits);
    }
    for (const uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x7fc00000u})
      EXPECT_TRUE(std::isnan(static_cast<float>(round_stochastically(bits_float(nan), u))));
  }
  // A value beyond the largest bf16 becomes infinite as often as it lies there.
  const float beyond = 0x1.fe8p127f;  // the quarter of a step
  EXPECT_EQ(static_cast<float>(round_stochastically(beyond, 0xbfff)), 0x1.fep127f);
  EXPECT_EQ(static_cast<float>(round_stochastically(beyond, 0xc000)), infinity);
  EXPECT_EQ(static_cast<float>(round_stochastically(-beyond, 0xc000)), -infinity);
}

// The bits in memory order, which is the order of the halves on a little-endian machine.
uint32_t bits_by_hand(uint64_t seed, int64_t update, int64_t number) {
  const Philox4 r = philox(seed, hash_name("stochastic_rounding." + std::to_string(update)),
                           static_cast<uint64_t>(number) / 8);
  uint16_t halves[8];
  std::memcpy(halves, r.v, sizeof(halves));
  return halves[number % 8];
}

TEST(StochasticRounding, DrawsEvenlyAndIndependently) {
  constexpr int64_t kCount = 1 << 20;
  const RoundingStream stream = rounding_stream(kSeed, 3), next = rounding_stream(kSeed, 4);
  double sum = 0, product = 0, across = 0;
  const auto uniform = [](const RoundingStream& s, int64_t i) {
    return rounding_bits(s, i) / 65536.0 - 0.5 + 0x1p-17;
  };
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(rounding_bits(stream, i), bits_by_hand(kSeed, 3, i));
    const double x = uniform(stream, i);
    sum += x;
    product += x * uniform(stream, i + 1);
    across += x * uniform(next, i);
  }
  const double root = std::sqrt(static_cast<double>(kCount));
  EXPECT_LT(std::abs(sum), 4 * root * std::sqrt(1.0 / 12.0));
  EXPECT_LT(std::abs(product), 4 * root / 12.0);
  EXPECT_LT(std::abs(across), 4 * root / 12.0);
}

/// Weights in bf16, and the moments.
struct State {
  std::vector<bf16> weights;
  std::vector<float> first, second;
};

std::vector<bf16> start_weights(const ParameterTable& table) {
  std::vector<bf16> weights;
  for (const float x : flat_values<float>(table, 1, 0.0f)) weights.push_back(bf16(x));
  return weights;
}

constexpr int kUpdates = 3;
std::vector<float> gradients(const ParameterTable& table, int update) {
  return flat_values<float>(table, 100 + 2 * static_cast<uint64_t>(update), 0.0f);
}

void update(AdamW<bf16>& optimizer, std::vector<bf16>& weights, const std::vector<float>& gradient,
            double rate, double scale) {
  const DeviceList<bf16> w(weights);
  const DeviceList<float> g(gradient);
  optimizer.update_rounded(w.data(), g.data(), rate, scale, kSeed);
  weights = w.host();
}
void update(AdamW<float>& optimizer, std::vector<float>& master, const std::vector<float>& gradient,
            double rate, double scale) {
  const DeviceList<float> w(master), g(gradient);
  optimizer.update(w.data(), g.data(), nullptr, rate, scale);
  master = w.host();
}

AdamW<bf16> rounding(const std::vector<OptimizerSegment>& segments,
                     const std::vector<OwnedRange>& owned, const AdamWIndexing& indexing = {}) {
  return AdamW<bf16>(segments, owned, indexing, config(), MasterWeights::rounded);
}

State whole_updates(const ParameterTable& table) {
  State s;
  s.weights = start_weights(table);
  auto optimizer = rounding(make_segments(table), own_everything(table.flat_size));
  for (int t = 1; t <= kUpdates; ++t) update(optimizer, s.weights, gradients(table, t), 1e-2, 0.3);
  s.first = host_copy(optimizer.first_moment(), table.flat_size);
  s.second = host_copy(optimizer.second_moment(), table.flat_size);
  return s;
}

// Element by element: the fp32 update of the widened weight, by the optimizer with a master, then
// rounded by the definition with the bits of the element's place in the whole model.
TEST(RoundedAdamW, IsThePlainLoop) {
  const ParameterTable table = small_table();
  const State got = whole_updates(table);
  std::vector<bf16> expected = start_weights(table);
  std::vector<float> master(expected.size());
  AdamW<float> exact(make_segments(table), own_everything(table.flat_size), {}, config());
  int64_t ups = 0, downs = 0;
  for (int t = 1; t <= kUpdates; ++t) {
    for (size_t i = 0; i < expected.size(); ++i) master[i] = expected[i];
    update(exact, master, gradients(table, t), 1e-2, 0.3);
    for (const ParameterSpec& p : table.parameters)
      for (int64_t i = 0; i < p.size(); ++i) {
        const auto at = static_cast<size_t>(p.offset + i);
        const uint32_t bits = round_by_hand(master[at], bits_by_hand(kSeed, t, p.number + i));
        (bits == (float_bits(master[at]) >> 16) ? downs : ups) += 1;
        expected[at].bits = static_cast<uint16_t>(bits);
      }
  }
  const auto first = host_copy(exact.first_moment(), table.flat_size);
  const auto second = host_copy(exact.second_moment(), table.flat_size);
  for (const ParameterSpec& p : table.parameters)
    for (int64_t i = p.offset; i < p.offset + p.size(); ++i) {
      const auto at = static_cast<size_t>(i);
      ASSERT_EQ(got.weights[at].bits, expected[at].bits) << p.name << " " << i - p.offset;
      ASSERT_EQ(got.first[at], first[at]);
      ASSERT_EQ(got.second[at], second[at]);
    }
  EXPECT_GT(ups, (ups + downs) / 4);  // both happen
  EXPECT_GT(downs, (ups + downs) / 4);
}

// What lies between the tensors is not touched.
TEST(RoundedAdamW, LeavesThePaddingAlone) {
  const ParameterTable table = small_table();
  std::vector<bf16> weights(static_cast<size_t>(table.flat_size), bf16(7.0f));
  const std::vector<float> g(weights.size(), 1.0f);
  auto optimizer = rounding(make_segments(table), own_everything(table.flat_size));
  update(optimizer, weights, g, 0.5, 1.0);
  std::vector<bool> inside(weights.size(), false);
  for (const ParameterSpec& p : table.parameters)
    for (int64_t i = p.offset; i < p.offset + p.size(); ++i) inside[static_cast<size_t>(i)] = true;
  for (size_t i = 0; i < weights.size(); ++i)
    ASSERT_EQ(static_cast<float>(weights[i]) != 7.0f, inside[i]) << i;
}

// An update of a twentieth of the distance to the next bf16: rounding to nearest never makes it.
TEST(RoundedAdamW, MakesUpdatesThatRoundingToNearestLoses) {
  constexpr int64_t kSize = 4096;
  constexpr int kSteps = 100;
  constexpr double kRate = 0x1p-8 / 20;  // bf16 below 1 are 2^-8 apart
  OptimizerSegment s;
  s.size = s.row = kSize;
  s.row_step = kSize;
  OptimizerConfig c = config();
  c.weight_decay = 0.0;
  AdamW<bf16> optimizer({s}, own_everything(kSize), {}, c, MasterWeights::rounded);
  AdamW<float> plain({s}, own_everything(kSize), {}, c);
  std::vector<bf16> weights(kSize, bf16(1.0f)), nearest(kSize, bf16(1.0f));
  std::vector<float> master(kSize);
  const std::vector<float> g(kSize, 0.5f);  // constant: mhat / sqrt(vhat) is 1
  for (int t = 0; t < kSteps; ++t) {
    update(optimizer, weights, g, kRate, 1.0);
    for (size_t i = 0; i < kSize; ++i) master[i] = nearest[i];
    update(plain, master, g, kRate, 1.0);
    for (size_t i = 0; i < kSize; ++i) nearest[i] = bf16(master[i]);
  }
  double mean = 0;
  for (size_t i = 0; i < kSize; ++i) {
    mean += static_cast<float>(weights[i]) / static_cast<double>(kSize);
    ASSERT_EQ(static_cast<float>(nearest[i]), 1.0f);
  }
  // Each step moves by 2^-8 with probability 1/20.
  const double sigma = 0x1p-8 * std::sqrt(kSteps * 0.05 * 0.95 / kSize);
  EXPECT_NEAR(mean, 1.0 - kSteps * kRate, 4 * sigma);
}

/// Values of the whole model by name and place, from the flat buffer of one rank alone.
template <class U>
using Whole = std::map<std::string, std::vector<U>>;
template <class U>
Whole<U> by_name(const ParameterTable& table, const std::vector<U>& flat) {
  Whole<U> all;
  for (const ParameterSpec& p : table.parameters)
    all[p.name].assign(flat.begin() + p.offset, flat.begin() + p.offset + p.size());
  return all;
}

// Elements of a rank's part that are not those of the whole.
template <class U>
int64_t count_wrong(const ParameterTable& table, const std::vector<U>& flat,
                    const std::vector<OwnedRange>& owned, const Whole<U>& whole) {
  int64_t wrong = 0;
  for (const ParameterSpec& p : table.parameters) {
    const bool is_vector = p.shape.size() == 1, by_column = p.split == Split::columns;
    for (const ShardPiece& piece : p.pieces)
      for (int64_t i = 0; i < piece.count; ++i)
        for (int64_t j = 0; j < (is_vector ? 1 : by_column ? p.rows() : p.columns()); ++j) {
          const int64_t local = piece.local_first + i, global = piece.global_first + i;
          int64_t at = local, from = global;
          if (!is_vector) {
            at = by_column ? j * p.columns() + local : local * p.columns() + j;
            from = by_column ? j * p.shape[1] + global : global * p.columns() + j;
          }
          const int64_t place = p.offset + at;
          for (const OwnedRange& r : owned)
            if (place >= r.flat && place < r.flat + r.size)
              wrong += std::memcmp(&flat[static_cast<size_t>(place)],
                                   &whole.at(p.name)[static_cast<size_t>(from)], sizeof(U)) != 0;
        }
  }
  return wrong;
}

TEST(RoundedAdamW, HasTheSameBitsOnEveryLayout) {
  const ParameterTable whole = small_table();
  const State expected = whole_updates(whole);
  const Whole<bf16> weights = by_name(whole, expected.weights);
  constexpr Indexing kFlat = Indexing::flat, kCompact = Indexing::compact;
  for (const int64_t ranks : {1, 2, 4})
    for (const int64_t shards : {1, 3, 8})
      for (const AdamWIndexing& indexing :
           {AdamWIndexing{kFlat, kFlat, kFlat}, AdamWIndexing{kFlat, kCompact, kFlat},
            AdamWIndexing{kCompact, kCompact, kCompact}})
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const ParameterTable table = small_table(ranks, rank);
          const Partition partition = make_partition(table, shards, 300, BucketJoin::yes);
          for (int64_t shard = 0; shard < shards; ++shard) {
            const auto& owned = partition.owned_by(shard);
            const auto place = [&](Indexing how, const auto& flat) {
              return how == kFlat ? flat : compacted(flat, partition, shard);
            };
            const auto start = start_weights(table);
            auto w = place(indexing.compute, start);
            auto optimizer = rounding(make_segments(table), owned, indexing);
            for (int t = 1; t <= kUpdates; ++t)
              update(optimizer, w, place(indexing.gradient, gradients(table, t)), 1e-2, 0.3);
            std::vector<bf16> flat = start;
            for (const OwnedRange& r : owned)
              std::copy_n(w.begin() + (indexing.compute == kFlat ? r.flat : r.compact), r.size,
                          flat.begin() + r.flat);
            EXPECT_EQ(count_wrong(table, flat, owned, weights), 0)
                << ranks << " ranks, " << shards << " shards";
          }
        }
}

// Negative control: bits by the place in a rank's own buffers differ from layout to layout.
TEST(RoundedAdamW, BitsByTheLocalPlaceWouldBeSeen) {
  const ParameterTable whole = small_table(), table = small_table(2, 1);
  const Whole<bf16> weights = by_name(whole, whole_updates(whole).weights);
  auto segments = make_segments(table);
  for (OptimizerSegment& s : segments) {
    s.number = s.offset;
    s.row_step = s.row;
  }
  const auto owned = own_everything(table.flat_size);
  auto optimizer = rounding(segments, owned);
  std::vector<bf16> w = start_weights(table);
  for (int t = 1; t <= kUpdates; ++t) update(optimizer, w, gradients(table, t), 1e-2, 0.3);
  EXPECT_GT(count_wrong(table, w, owned, weights), 100);
}

TEST(RoundedAdamW, GoesOnFromSavedMomentsAndCount) {
  const ParameterTable table = small_table();
  const auto segments = make_segments(table);
  const auto owned = own_everything(table.flat_size);
  const State straight = whole_updates(table);
  auto before = rounding(segments, owned), after = rounding(segments, owned);
  std::vector<bf16> w = start_weights(table);
  update(before, w, gradients(table, 1), 1e-2, 0.3);
  check::write_to(after.first_moment(), host_copy(before.first_moment(), table.flat_size));
  check::write_to(after.second_moment(), host_copy(before.second_moment(), table.flat_size));
  after.restore(before.state());
  for (int t = 2; t <= kUpdates; ++t) update(after, w, gradients(table, t), 1e-2, 0.3);
  EXPECT_EQ(std::memcmp(w.data(), straight.weights.data(), w.size() * sizeof(bf16)), 0);
}

TEST(RoundedAdamW, IsForBf16Alone) {
  OptimizerSegment s;
  s.size = 1;
  const DeviceList<bf16> narrow = {bf16(1.0f)};
  const DeviceList<float> wide = {1.0f}, g = {1.0f};
  AdamW<float> single({s}, own_everything(1), {}, config(), MasterWeights::rounded);
  EXPECT_THROW(single.update_rounded(wide.data(), g.data(), 1e-3, 1.0, kSeed), InternalError);
  AdamW<bf16> with_master({s}, own_everything(1), {}, config());
  EXPECT_THROW(with_master.update_rounded(narrow.data(), g.data(), 1e-3, 1.0, kSeed),
               InternalError);
  auto without = rounding({s}, own_everything(1));
  EXPECT_THROW(without.update(wide.data(), g.data(), narrow.data(), 1e-3, 1.0), InternalError);
}

}  // namespace
}  // namespace espalier
