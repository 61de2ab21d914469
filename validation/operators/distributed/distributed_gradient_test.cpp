// SPDX-License-Identifier: Apache-2.0
// The gradient of a model that is spread over ranks: against central differences of its own loss,
// in double, and against the same model on one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "../../mpi_main.hpp"
#include "../derivative.hpp"
#include "core/error.hpp"
#include "distributed_model.hpp"

namespace espalier::check {
namespace {

constexpr double kScale = 0.37;
constexpr double kTolerance = 1e-7;
constexpr int64_t kMeanDocument = 4;
using Schedule = PipelineSchedule;

/// elements: also one element of each tensor on its own.
enum class Detail { tensors, elements };

/// Central differences along directions over the global parameters. All ranks draw and compute the
/// same numbers.
class GradientCheck {
 public:
  explicit GradientCheck(const Config& config)
      : whole_(make_parameter_table(config)),
        parameters_(draw_parameters(whole_, draw_)),
        batch_(draw_batch(config, kMeanDocument, draw_)),
        model_(config) {
    model_.set_parameters(parameters_);
    model_.train(batch_, kScale);
    gradient_ = model_.gradient();
  }

  /// What does not agree, a line each: all parameters together, and each tensor on its own.
  std::string complaints(Detail detail) {
    std::string text;
    if (gradient_.missing > 0) text += fmt::format("{} elements nowhere\n", gradient_.missing);
    if (gradient_.different > 0)
      text += fmt::format("{} elements differ between ranks\n", gradient_.different);
    judge("all parameters", 0, whole_.flat_size, text);
    for (const ParameterSpec& p : whole_.parameters) {
      judge(p.name, p.offset, p.size(), text);
      if (detail == Detail::tensors) continue;
      const int64_t element = draw_.integer(0, p.size() - 1);
      judge(fmt::format("{}[{}]", p.name, element), p.offset + element, 1, text, length_of(p));
    }
    return text;
  }

 private:
  double length_of(const ParameterSpec& p) const {
    const auto first = gradient_.values.begin() + p.offset;
    return length({first, first + p.size()}) / std::sqrt(static_cast<double>(p.size()));
  }

  // Along a random unit direction over `size` elements; errors are relative to the slope that such
  // a direction has in the mean.
  void judge(const std::string& what, int64_t first, int64_t size, std::string& text,
             double typical = 0.0) {
    std::vector<double> v = draw_.normals(size);
    const double norm = length(v);
    double slope = 0.0, square = 0.0;
    for (int64_t i = 0; i < size; ++i) {
      v[i] /= norm;
      const double g = gradient_.values[first + i];
      slope += v[i] * g;
      square += g * g;
    }
    typical = std::max(typical, std::sqrt(square / static_cast<double>(size)));
    const double measured = kScale * derivative_along(v, first);
    const double error =
        std::abs(measured - slope) / std::max({typical, std::abs(slope), std::abs(measured)});
    if (!(error <= kTolerance))
      text +=
          fmt::format("{}: {} by differences, {} by the backward pass\n", what, measured, slope);
  }

  // Six values of the loss: the error is of sixth order in the step, so that the step can be large
  // beside rounding.
  double derivative_along(const std::vector<double>& v, int64_t first) {
    constexpr double kStep = 0.002;
    const auto odd = [&](int n) {
      return loss_at(v, first, n * kStep) - loss_at(v, first, -n * kStep);
    };
    const double sum = 45.0 * odd(1) - 9.0 * odd(2) + odd(3);
    model_.set_parameters(parameters_);
    return sum / (60.0 * kStep);
  }
  double loss_at(const std::vector<double>& v, int64_t first, double h) {
    Global moved = parameters_;
    for (size_t i = 0; i < v.size(); ++i) moved[first + i] += h * v[i];
    model_.set_parameters(moved);
    // Without dropout the passes alone say the same and cost less.
    return has_dropout(model_.blueprint().config.model) ? model_.train(batch_, kScale)
                                                        : model_.evaluate(batch_);
  }

  Draw draw_{31};
  ParameterTable whole_;
  Global parameters_;
  std::vector<Tokens> batch_;
  DistributedModel model_;
  DistributedModel::Gathered gradient_;
};

Layout layout(int64_t tp, int64_t pp, bool sequence = false,
              Schedule schedule = Schedule::one_forward_one_backward) {
  Layout l;
  l.tp = tp;
  l.pp = pp;
  l.dp = test_session().size() / (tp * pp);
  l.sequence = sequence;
  l.schedule = schedule;
  return l;
}

void expect_right(const std::string& name, const Layout& l, double dropout, Detail detail) {
  Config c = with_layout(family(name), l);
  set_dropout(c.model, dropout);
  EXPECT_EQ(GradientCheck(c).complaints(detail), "") << name << " on " << l.text();
}

TEST(DistributedGradient, OfPipelinesAgreesWithCentralDifferences) {
  for (const auto& [name, config] : families()) {
    expect_right(name, layout(2, 2), 0.0, Detail::elements);
    expect_right(name, layout(2, 2, true, Schedule::zero_bubble), 0.0, Detail::elements);
  }
}

TEST(DistributedGradient, WithDropoutAgreesWithCentralDifferences) {
  for (const auto& [name, config] : families()) {
    expect_right(name, layout(2, 2, true), 0.3, Detail::tensors);
    expect_right(name, layout(2, 2, false, Schedule::zero_bubble), 0.3, Detail::tensors);
  }
}

// Two key heads on four ranks: rows that ranks repeat.
TEST(DistributedGradient, OfRepeatedKeyHeadsAgreesWithCentralDifferences) {
  const int64_t pp = test_session().size() / 4;
  expect_right("llama", layout(4, pp), 0.0, Detail::tensors);
  Layout l = layout(4, pp, true, Schedule::zero_bubble);
  l.shards = 4;
  if (pp == 1) l.schedule = Schedule::one_forward_one_backward;
  expect_right("cohere", l, 0.2, Detail::tensors);
}

/// Loss and gradient of the batch on one rank, and all complaints about those of a layout.
std::string compare_with_one_rank(const std::string& name, const Layout& l, double dropout) {
  Config c = with_layout(family(name), l);
  set_dropout(c.model, dropout);
  Config alone = c;
  alone.grid = GridConfig{};
  alone.grid.data_parallel = 1;
  alone.numerics.reproducible = false;
  alone.batch.global_batch_size = alone.batch.micro_batch_size;
  Draw draw(37);
  const Blueprint whole = make_blueprint(alone, 1);
  const Global parameters = draw_parameters(whole.parameters, draw);
  const std::vector<Tokens> batch = draw_batch(c, kMeanDocument, draw);
  ModelProblem<double> problem(whole, parameters);
  Global expected(whole.parameters.flat_size, 0.0);
  double loss = 0.0, evaluated = 0.0;
  for (const Tokens& tokens : batch) {
    expected = problem.gradient(tokens, kScale, expected);
    loss += problem.last_loss();
    evaluated += problem.loss(tokens);
  }
  DistributedModel model(c);
  model.set_parameters(parameters);
  std::string text;
  const auto judge = [&](const std::string& what, double error) {
    if (!(error <= 1e-11)) text += fmt::format("{}: error {}\n", what, error);
  };
  for (int step = 0; step < 2; ++step) {  // nothing may be left over from the first
    judge("loss", relative_difference(model.train(batch, kScale), loss));
    const auto found = model.gradient();
    if (found.missing > 0 || found.different > 0)
      text += fmt::format("{} elements nowhere, {} differ\n", found.missing, found.different);
    for (const ParameterSpec& p : whole.parameters.parameters) {
      const auto part = [&](const Global& g) {
        return std::vector<double>(g.begin() + p.offset, g.begin() + p.offset + p.size());
      };
      judge(p.name, relative_distance(part(found.values), part(expected)));
    }
    judge("evaluation", relative_difference(model.evaluate(batch), evaluated));
  }
  return text;
}

/// Every schedule, ZeRO stage, recomputation and cut, each in several companies; those that the
/// number of ranks allows.
std::vector<Layout> layouts() {
  const auto gpipe = Schedule::gpipe, plain = Schedule::one_forward_one_backward;
  const auto interleaved = Schedule::interleaved, zero_bubble = Schedule::zero_bubble;
  const auto none = Recompute::none, selective = Recompute::selective, full = Recompute::full;
  // tp, pp, dp, schedule, chunks, sequence, zero, shards, recompute
  const std::vector<Layout> all = {
      {2, 2, 1, gpipe, 1, false, 0, 0, none},
      {2, 2, 1, plain, 1, true, 0, 4, full},
      {2, 2, 1, interleaved, 2, true, 0, 0, none},
      {2, 2, 1, zero_bubble, 1, true, 0, 0, selective},
      {4, 1, 1, plain, 1, true, 0, 0, full},
      {4, 1, 1, plain, 1, false, 0, 4, none},
      {2, 1, 2, plain, 1, true, 1, 0, none},
      {2, 1, 2, plain, 1, false, 2, 4, selective},
      {2, 1, 2, plain, 1, true, 3, 0, full},
      {1, 2, 2, zero_bubble, 1, false, 1, 0, none},
      {1, 2, 2, interleaved, 2, false, 2, 4, full},
      {1, 2, 2, zero_bubble, 1, false, 3, 0, full},
      {1, 1, 4, plain, 1, false, 3, 4, none},
      {4, 2, 1, zero_bubble, 1, true, 0, 4, full},
      {4, 2, 1, interleaved, 2, false, 0, 0, none},
      {2, 2, 2, gpipe, 1, true, 1, 0, none},
      {2, 2, 2, zero_bubble, 1, false, 2, 4, none},
      {2, 2, 2, interleaved, 2, true, 3, 0, selective},
      {4, 1, 2, plain, 1, true, 3, 0, none},
      {2, 1, 4, plain, 1, true, 2, 0, full},
  };
  std::vector<Layout> some;
  for (const Layout& l : all)
    if (l.ranks() == test_session().size()) some.push_back(l);
  return some;
}

TEST(DistributedGradient, IsThatOfOneRank) {
  int64_t n = 0;
  for (const Layout& l : layouts())
    for (const auto& [name, config] : families()) {
      const double dropout = n++ % 2 == 0 ? 0.25 : 0.0;
      EXPECT_EQ(compare_with_one_rank(name, l, dropout), "") << name << " on " << l.text();
    }
  EXPECT_GT(n, 10);
}

struct Control {
  const char* broken;
  const char* family;
  int64_t tp, pp;
  bool sequence;
};
constexpr Control kControls[] = {
    {"tensor_sum", "gpt2", 2, 2, false},
    {"sequence_gather", "gpt2", 2, 2, true},
    {"key_sum", "llama", 4, 1, false},
    {"head_norm_sum", "cohere", 2, 2, false},
    {"token_norm_sum", "gpt2", 2, 2, true},
    {"pipeline_gradient", "llama", 2, 2, false},
    {"pipeline_activation", "llama", 2, 2, false},
    {"tied_gradients", "gpt2", 2, 2, false},
};

// Run with ESPALIER_TEST_BREAK: what it names is left out, and both checks have to see it.
TEST(DistributedControl, WhatIsLeftOutIsNoticed) {
  const char* const broken = std::getenv("ESPALIER_TEST_BREAK");
  int found = 0;
  for (const Control& c : kControls) {
    if (broken == nullptr || broken != std::string(c.broken)) continue;
    ++found;
    const Layout l = layout(c.tp, c.pp, c.sequence);
    EXPECT_NE(GradientCheck(with_layout(family(c.family), l)).complaints(Detail::tensors), "");
    EXPECT_NE(compare_with_one_rank(c.family, l, 0.0), "");
  }
  EXPECT_EQ(found, 1) << "ESPALIER_TEST_BREAK names nothing that is tested here";
}

}  // namespace
}  // namespace espalier::check
