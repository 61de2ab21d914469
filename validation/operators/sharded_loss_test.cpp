// SPDX-License-Identifier: Apache-2.0
// The vocabulary-sharded cross-entropy: against the whole one, derivatives, order of the sum.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cases_dense.hpp"
#include "derivative.hpp"
#include "draw.hpp"
#include "layers/sharded_cross_entropy.hpp"
#include "tensor/tuned.hpp"

namespace espalier::check {
namespace {

/// First columns of the shards and, at the end, the vocabulary.
using Cuts = std::vector<int64_t>;

/// What a negative control gets wrong.
enum class Fault { none, last_shard_missing, columns_off_by_one, greatest_of_one_shard };

/// Losses of logits cut into shards that lie side by side in one matrix.
template <class T>
class ShardedLossCase : public OperatorCase {
 public:
  ShardedLossCase(Cuts cuts, DeviceList<int32_t> targets, double logit_scale,
                  Fault fault = Fault::none)
      : cuts_(std::move(cuts)),
        targets_(std::move(targets)),
        logit_scale_(logit_scale),
        fault_(fault) {
    const ElementType type = ElementTraits<T>::kType, sums = sum_type(type);
    inputs_ = {activation_port<T>("logits", tokens() * vocab())};
    inputs_[0].spread = 2.0;
    outputs_ = {activation_port<T>("losses", tokens())};
    outputs_[0].type = sums;
    saved_ = {Array(type, tokens() * vocab()), Array(sums, tokens()),
              Array(sums, shards() * tokens() * kShardStatistics),
              Array(sums, tokens() * kLogTerms)};
  }

  void restrict_output_gradients(std::vector<std::vector<double>>& values) const override {
    std::fill(values[0].begin(), values[0].end(), values[0][0]);
  }
  void forward(const Arrays& o, const Arrays& i) override {
    copy_array<T>(saved_[0], i[0]);
    losses(saved_[0], Gradient::none, o[0]);
  }
  void backward(const Arrays& d, const Arrays& dy, const Arrays& i) override {
    copy_array<T>(d[0], i[0]);
    losses(d[0], Gradient::in_place, saved_[1]);
    for (int64_t s = 0; s < shards(); ++s)
      shard_gradient<T>(d[0].as<T>() + cuts_[s], vocab(), tokens(), columns(s), targets_.data(),
                        first_column(s), logit_scale_, dy[0].read()[0], statistics(s), log_terms());
  }
  Acc<T>* statistics(int64_t shard) const {
    return saved_[2].as<Acc<T>>() + shard * tokens() * kShardStatistics;
  }
  int64_t shards() const { return static_cast<int64_t>(cuts_.size()) - 1; }

 private:
  int64_t tokens() const { return targets_.size(); }
  int64_t vocab() const { return cuts_.back(); }
  int64_t columns(int64_t shard) const { return cuts_[shard + 1] - cuts_[shard]; }
  int64_t first_column(int64_t shard) const {
    return cuts_[shard] + (fault_ == Fault::columns_off_by_one ? 1 : 0);
  }
  Acc<T>* log_terms() const { return saved_[3].as<Acc<T>>(); }
  void losses(const Array& logits, Gradient gradient, const Array& to) const {
    for (int64_t s = 0; s < shards(); ++s)
      shard_statistics<T>(logits.as<T>() + cuts_[s], vocab(), tokens(), columns(s), targets_.data(),
                          first_column(s), logit_scale_, gradient, statistics(s));
    if (fault_ == Fault::greatest_of_one_shard)
      for (int64_t s = 1; s < shards(); ++s)
        for (int64_t t = 0; t < tokens(); ++t)
          device::copy(statistics(s) + t * kShardStatistics, statistics(0) + t * kShardStatistics,
                       sizeof(Acc<T>));
    combine_shards<T>(to.as<Acc<T>>(), log_terms(), statistics(0),
                      shards() - (fault_ == Fault::last_shard_missing ? 1 : 0), tokens(),
                      targets_.data());
  }

  Cuts cuts_;
  DeviceList<int32_t> targets_;
  double logit_scale_;
  Fault fault_;
};

/// 1, 2, 3 and 8 shards, even and uneven, some without columns.
const std::vector<Cuts>& all_cuts() {
  static const std::vector<Cuts> cuts = {{0, 53},
                                         {0, 27, 53},
                                         {0, 1, 53},
                                         {0, 53, 53},
                                         {0, 20, 40, 53},
                                         {0, 0, 17, 53},
                                         {0, 7, 14, 21, 28, 35, 42, 49, 53},
                                         {0, 16, 32, 48, 53, 53, 53, 53, 53},
                                         {0, 0, 1, 1, 30, 50, 51, 53, 53}};
  return cuts;
}

std::vector<int32_t> draw_targets(int64_t count, int64_t vocab) {
  Draw draw(count);
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < count; ++i)
    targets.push_back(i % 5 == 3 ? -1 : static_cast<int32_t>(draw.integer(0, vocab - 1)));
  targets[0] = static_cast<int32_t>(vocab - 1);
  if (count > 1) targets[1] = 0;
  return targets;
}

TEST(ShardedLoss, Gradients) {
  for (const auto& cuts : all_cuts())
    for (const int64_t count : {1, 9})
      for (const double scale : {1.0, 0.0625, 2.5}) {
        SCOPED_TRACE(fmt::format("{} shards, {} tokens at {}", cuts.size() - 1, count, scale));
        ShardedLossCase<double> c(cuts, draw_targets(count, 53), scale);
        EXPECT_EQ(check_gradients(c), "");
      }
}

TEST(ShardedLoss, NegativeControls) {
  const Cuts cuts = {0, 5, 9, 13};
  ShardedLossCase<double> c(cuts, draw_targets(9, 13), 0.5);
  EXPECT_EQ(unnoticed_sabotage(c), "");
  // Each of these still gives some loss, but gradients that are not its own, or another loss.
  ShardedLossCase<double> mixed(cuts, draw_targets(9, 13), 0.5, Fault::greatest_of_one_shard);
  EXPECT_NE(check_gradients(mixed), "");
  for (const Fault fault : {Fault::last_shard_missing, Fault::columns_off_by_one}) {
    ShardedLossCase<double> broken(cuts, draw_targets(9, 13), 0.5, fault);
    CrossEntropyCase<double> whole(13, draw_targets(9, 13), 0.5);
    EXPECT_NE(compare_types(broken, whole, {100.0, 100.0}), "");
  }
}

// Against the loss of the whole vocabulary in the same type; another order of 53 additions and, for
// 8 shards, an exponential and a product more.
template <class T>
void compare_with_the_whole() {
  const auto targets = draw_targets(19, 53);
  for (const auto& cuts : all_cuts()) {
    ShardedLossCase<T> sharded(cuts, targets, 0.75);
    CrossEntropyCase<T> whole(53, targets, 0.75);
    EXPECT_EQ(compare_types(sharded, whole, {8.0, 4.0}), "");
  }
}
TEST(ShardedLoss, AgreesWithTheWhole) {
  compare_with_the_whole<double>();
  compare_with_the_whole<float>();
  compare_with_the_whole<bf16>();
  compare_with_the_whole<fp16>();
}

// As for the whole loss: 16-bit logits are exact inputs, and only the final rounding counts.
template <class T>
void compare_with_double() {
  const auto targets = draw_targets(19, 53);
  for (const auto& cuts : all_cuts()) {
    ShardedLossCase<T> low(cuts, targets, 0.75);
    ShardedLossCase<double> exact(cuts, targets, 0.75);
    EXPECT_EQ(compare_types(low, exact, {4.0, std::is_same_v<T, float> ? 8.0 : 1.0}), "");
  }
}
TEST(ShardedLoss, LowPrecision) {
  compare_with_double<float>();
  compare_with_double<bf16>();
  compare_with_double<fp16>();
}

// Logits far apart over shards: no exponential overflows, and p - 1 keeps its digits.
template <class T>
void far_apart(double magnitude) {
  const Cuts cuts = {0, 3, 3, 6};
  std::vector<double> logits(2 * 6, -magnitude);
  logits[4] = magnitude;
  logits[6] = magnitude;
  ShardedLossCase<T> c(cuts, {4, 5}, 1.0);
  Array z(ElementTraits<T>::kType, 12), d(z.type(), 12), losses(sum_type(z.type()), 2), one(losses);
  one = Array(losses.type(), 2);
  z.fill(logits);
  one.fill({1.0, 1.0});
  c.forward({losses}, {z});
  const double step = z.read()[4] - z.read()[0];
  EXPECT_EQ(losses.read()[0], 0.0);
  EXPECT_NEAR(losses.read()[1], step, 1e-6 * step);
  c.backward({d}, {one}, {z});
  EXPECT_EQ(d.read(), (std::vector<double>{0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, -1}));
}
TEST(ShardedLoss, LargeLogits) {
  far_apart<double>(1e4);
  far_apart<float>(1e4);
  far_apart<bf16>(1e4);
  far_apart<fp16>(1e4);
}

// A token whose probability is nearly 1 has a gradient p - 1 of about 1e-6; formed from a rounded p
// it would be 0 in bf16.
TEST(ShardedLoss, GradientOfANearlyCertainToken) {
  ShardedLossCase<bf16> c({0, 2, 4}, {2}, 1.0);
  Array z(ElementType::bf16, 4), d(ElementType::bf16, 4), loss(ElementType::fp32, 1),
      one(ElementType::fp32, 1);
  z.fill({0.0, -1.0, 14.0, 1.0});
  one.fill({1.0});
  c.forward({loss}, {z});
  c.backward({d}, {one}, {z});
  const double rest = (1.0 + std::exp(-1.0) + std::exp(1.0)) * std::exp(-14.0);
  EXPECT_NEAR(d.read()[2], -rest / (1 + rest), 0.05 * rest);
}

TEST(ShardedLoss, StatisticsDoNotDependOnTheGradientBeingWanted) {
  Draw draw(3);
  const int64_t rows = 7, columns = 45;
  const auto values = draw.normals(rows * columns);
  const DeviceList<int32_t> targets = draw_targets(rows, columns);
  const auto statistics = [&](Gradient gradient) {
    Array z(ElementType::fp32, rows * columns), s(ElementType::fp32, rows * kShardStatistics);
    z.fill(values);
    const auto before = z.read();
    shard_statistics<float>(z.as<float>(), columns, rows, columns, targets.data(), 0, 1.5, gradient,
                            s.as<float>());
    // The kernels of cuda/ leave the logits alone in both cases.
    EXPECT_EQ(z.read() == before, gradient == Gradient::none || takes_tuned<float>());
    return s.read();
  };
  EXPECT_EQ(statistics(Gradient::none), statistics(Gradient::in_place));
}

TEST(ShardedLoss, ANumberThatIsNoneIsSeen) {
  for (const int64_t at : {0, 3, 5}) {
    ShardedLossCase<float> c({0, 3, 6}, {1}, 1.0);
    Array z(ElementType::fp32, 6), loss(ElementType::fp32, 1);
    std::vector<double> logits(6, 0.5);
    logits[at] = std::numeric_limits<double>::quiet_NaN();
    z.fill(logits);
    c.forward({loss}, {z});
    EXPECT_TRUE(std::isnan(loss.read()[0]));
  }
}

/// The sum by the definition: the left part of n leaves is the greatest power of two below n.
float tree_sum(const float* leaves, int64_t count) {
  if (count == 1) return leaves[0];
  int64_t left = 1;
  while (2 * left < count) left *= 2;
  return tree_sum(leaves, left) + tree_sum(leaves + left, count - left);
}

TEST(ShardedLoss, ShardsAreSummedInTheTree) {
  Draw draw(5);
  int64_t other_order = 0;
  for (int64_t shards = 1; shards <= 40; ++shards) {
    Array statistics(ElementType::fp32, shards * kShardStatistics), loss(ElementType::fp32, 1),
        terms(ElementType::fp32, kLogTerms);
    std::vector<double> values;
    std::vector<float> sums;
    for (int64_t s = 0; s < shards; ++s) {
      sums.push_back(static_cast<float>(draw.real(0.5, 2.0)));
      values.insert(values.end(), {0.25, sums.back(), s == shards / 2 ? -0.5 : 0.0});
    }
    statistics.fill(values);
    const DeviceList<int32_t> target = {0};
    combine_shards<float>(loss.as<float>(), terms.as<float>(), statistics.as<float>(), shards, 1,
                          target.data());
    const float sum = tree_sum(sums.data(), shards);
    EXPECT_EQ(terms.read(), (std::vector<double>{0.25, sum})) << shards;
    EXPECT_NEAR(loss.read()[0], 0.25 + std::log(sum) + 0.5, 1e-6);
    float in_order = 0;
    for (const float x : sums) in_order += x;
    other_order += in_order != sum;
  }
  EXPECT_GT(other_order, 5);  // the order does show
}

}  // namespace
}  // namespace espalier::check
