// SPDX-License-Identifier: Apache-2.0
// Generation: cached inference gives the losses of the training model, whatever the feeding; the
// choice of tokens follows its options.
#include "engine/generator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/sampling.hpp"
#include "model_cases.hpp"
#include "model_problem.hpp"

namespace espalier::check {
namespace {

/// A model of one sequence without document mask, as the generator sees text.
struct OneSequence {
  Blueprint blueprint;
  Draw draw{19};
  std::vector<double> parameters;
  ParameterStore<double> store;
  Tokens tokens;

  explicit OneSequence(Config config)
      : blueprint(make_blueprint(with_one_sequence(std::move(config)), 1)),
        parameters(draw_parameters(blueprint.parameters, draw)),
        store(blueprint.parameters),
        tokens(draw_tokens(blueprint.config, 0, draw)) {
    write_to(store.master(), parameters);
  }

  static Config with_one_sequence(Config c) {
    c.batch.micro_batch_size = c.batch.global_batch_size = 1;
    c.data.document_mask = false;
    return c;
  }
};

double loss_of(const std::vector<float>& logits, int32_t target) {
  double sum = 0.0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z));
  return std::log(sum) - logits[target];
}

TEST(Generator, HasTheLossesOfTheTrainingModel) {
  for (const auto& c : all_cases()) {
    OneSequence s(c.config);
    Generator<double> generator(s.blueprint, s.store);
    EXPECT_EQ(generator.capacity(), s.tokens.length);
    double sum = 0.0;
    for (int64_t t = 0; t < s.tokens.length; ++t) {
      const auto logits = generator.feed({s.tokens.inputs[t]});
      EXPECT_EQ(generator.position(), t + 1);
      if (s.tokens.targets[t] >= 0) sum += loss_of(logits, s.tokens.targets[t]);
    }
    const double expected = ModelProblem<double>(s.blueprint, s.parameters).loss(s.tokens);
    // The logits are handed over in fp32.
    EXPECT_NEAR(sum, expected, 2e-6 * (1.0 + expected)) << c.name;
  }
}

TEST(Generator, FeedingInPiecesChangesNothing) {
  for (const auto& c : named_cases()) {
    OneSequence s(c.config);
    Generator<double> generator(s.blueprint, s.store);
    const auto& all = s.tokens.inputs;
    const auto at_once = generator.feed(all);  // longer than one chunk in one of the cases
    for (const int64_t piece : {1, 5, 100}) {
      generator.reset();
      EXPECT_EQ(generator.position(), 0);
      std::vector<float> last;
      for (size_t t = 0; t < all.size(); t += piece) {
        const size_t end = std::min(all.size(), t + piece);
        last = generator.feed({all.begin() + t, all.begin() + end});
      }
      ASSERT_EQ(last.size(), at_once.size());
      for (size_t v = 0; v < last.size(); ++v)
        ASSERT_NEAR(last[v], at_once[v], 1e-6 * (1.0 + std::abs(at_once[v]))) << c.name;
    }
  }
}

TEST(Generator, TheLastTokenMatters) {
  OneSequence s(small_config());
  Generator<double> generator(s.blueprint, s.store);
  const auto one = generator.feed({1, 2, 3});
  generator.reset();
  EXPECT_NE(generator.feed({1, 2, 4}), one);
  generator.reset();
  EXPECT_NE(generator.feed({2, 1, 3}), one);
}

TEST(Generator, RefusesMoreThanItHolds) {
  OneSequence s(small_config());
  Generator<double> generator(s.blueprint, s.store);
  EXPECT_THROW(generator.feed({}), InternalError);
  generator.feed(s.tokens.inputs);
  EXPECT_THROW(generator.feed({1}), InternalError);
}

const std::vector<float> kLogits = {0.0f, 3.0f, 1.0f, 3.0f, 2.0f};

std::map<int32_t, int> counts_of(const SamplingOptions& options, int samples) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < samples; ++i) ++counts[sample_token(kLogits, options, i)];
  return counts;
}

TEST(Sampling, TemperatureZeroTakesTheLikeliestAndTheLowerOfTwo) {
  EXPECT_EQ(counts_of({0.0, 0, 1.0, 1}, 50), (std::map<int32_t, int>{{1, 50}}));
}

TEST(Sampling, FrequenciesAreTheSoftmax) {
  constexpr int kSamples = 40'000;
  for (const double temperature : {0.5, 1.0, 3.0}) {
    auto counts = counts_of({temperature, 0, 1.0, 7}, kSamples);
    double sum = 0.0;
    for (const float z : kLogits) sum += std::exp(z / temperature);
    for (int32_t v = 0; v < 5; ++v) {
      const double p = std::exp(kLogits[v] / temperature) / sum;
      EXPECT_NEAR(counts[v] / double{kSamples}, p, 6 * std::sqrt(p * (1 - p) / kSamples));
    }
  }
}

TEST(Sampling, TopKAndTopPKeepOnlyTheLikeliest) {
  const auto only = [](const SamplingOptions& o, std::vector<int32_t> allowed) {
    const auto counts = counts_of(o, 5000);
    EXPECT_EQ(counts.size(), allowed.size());
    for (const int32_t v : allowed) EXPECT_EQ(counts.count(v), 1u) << v;
  };
  only({1.0, 1, 1.0, 1}, {1});
  only({1.0, 2, 1.0, 1}, {1, 3});
  only({1.0, 3, 1.0, 1}, {1, 3, 4});
  only({1.0, 99, 1.0, 1}, {0, 1, 2, 3, 4});
  // Probabilities 0.4, 0.4, 0.15, 0.05, 0.02 of tokens 1, 3, 4, 2, 0.
  only({1.0, 0, 1e-6, 1}, {1});  // one always remains
  only({1.0, 0, 0.5, 1}, {1, 3});
  only({1.0, 0, 0.85, 1}, {1, 3, 4});
  only({1.0, 2, 0.85, 1}, {1, 3});
}

TEST(Sampling, IsAPureFunctionOfSeedAndIndex) {
  const SamplingOptions a{1.0, 0, 1.0, 1}, b{1.0, 0, 1.0, 2};
  int differ = 0;
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(sample_token(kLogits, a, i), sample_token(kLogits, a, i));
    differ += sample_token(kLogits, a, i) != sample_token(kLogits, b, i);
  }
  EXPECT_GT(differ, 50);
}

}  // namespace
}  // namespace espalier::check
