// SPDX-License-Identifier: Apache-2.0
// The gradient of the whole model against central differences, in double: along random directions
// over all parameters, and along every tensor of the table on its own.
#include <gtest/gtest.h>

#include <cmath>

#include "derivative.hpp"
#include "model_cases.hpp"
#include "model_problem.hpp"

namespace espalier::check {
namespace {

constexpr double kTolerance = 1e-7;
constexpr double kGradientScale = 0.37;

/// Holds one model, its tokens and its analytic gradient.
class GradientCheck {
 public:
  explicit GradientCheck(const ModelCase& c, uint64_t seed = 7)
      : draw_(seed),
        blueprint_(make_blueprint(c.config, 1)),
        parameters_(draw_parameters(blueprint_.parameters, draw_)),
        problem_(blueprint_, parameters_),
        tokens_(draw_tokens(c.config, c.mean_document, draw_)) {
    if (*std::max_element(tokens_.targets.begin(), tokens_.targets.end()) < 0)
      tokens_.targets[0] = 1;
    gradient_ = problem_.gradient(tokens_, kGradientScale);
  }

  /// Relative error along a random unit direction over elements [first, first + size) of the flat
  /// buffer, against `gradient`.
  double error(int64_t first, int64_t size, const std::vector<double>& gradient) {
    std::vector<double> v;
    double slope = 0.0;
    const double expected_size =
        length({gradient.begin() + first, gradient.begin() + first + size}) /
        std::sqrt(static_cast<double>(size));
    // A direction nearly orthogonal to the gradient says nothing relative to it: draw another one.
    for (int attempt = 0; attempt < 20; ++attempt) {
      v = direction(first, size);
      slope = dot(v, gradient);
      if (std::abs(slope) >= 0.2 * expected_size) break;
    }
    const double measured =
        kGradientScale * derivative([&](double h) { return loss_at(v, h); }, 0.05);
    problem_.set_parameters(parameters_);
    return relative_difference(measured, slope);
  }

  /// |derivative| along a tensor, measured and analytic, relative to the whole gradient's length.
  double size_along(const ParameterSpec& p) {
    const auto v = direction(p.offset, p.size());
    const double measured =
        kGradientScale * derivative([&](double h) { return loss_at(v, h); }, 0.05);
    problem_.set_parameters(parameters_);
    return std::max(std::abs(measured), std::abs(dot(v, gradient_))) / length(gradient_);
  }

  const std::vector<double>& gradient() const { return gradient_; }
  const ParameterTable& table() const { return blueprint_.parameters; }
  ModelProblem<double>& problem() { return problem_; }
  const Tokens& tokens() const { return tokens_; }
  Draw& draw() { return draw_; }

 private:
  std::vector<double> direction(int64_t first, int64_t size) {
    std::vector<double> v(table().flat_size, 0.0);
    const auto values = draw_.normals(size);
    const double scale = 1.0 / length(values);
    for (int64_t i = 0; i < size; ++i) v[first + i] = scale * values[i];
    return v;
  }
  double loss_at(const std::vector<double>& v, double h) {
    std::vector<double> moved = parameters_;
    for (size_t i = 0; i < v.size(); ++i) moved[i] += h * v[i];
    problem_.set_parameters(moved);
    return problem_.train_loss(tokens_);
  }

  Draw draw_;
  Blueprint blueprint_;
  std::vector<double> parameters_;
  ModelProblem<double> problem_;
  Tokens tokens_;
  std::vector<double> gradient_;
};

/// A constant added to every key changes every score of a query alike, which softmax ignores; and
/// with a single visible key nothing in the scores matters.
bool has_no_effect(const ModelCase& c, const std::string& name) {
  const bool scores_matter =
      c.config.batch.seq_length > 1 && !(c.config.data.document_mask && c.mean_document == 1);
  if (name.find("_norm.") != std::string::npos && name.find("attention.") != std::string::npos &&
      !scores_matter)
    return true;
  return name.find("k_norm.bias") != std::string::npos &&
         c.config.model.position != PositionKind::rope;
}

class ModelGradient : public testing::TestWithParam<ModelCase> {};

TEST_P(ModelGradient, AgreesAlongAllParameters) {
  GradientCheck check(GetParam());
  for (int i = 0; i < 3; ++i)
    EXPECT_LT(check.error(0, check.table().flat_size, check.gradient()), kTolerance);
}

TEST_P(ModelGradient, AgreesAlongEveryTensor) {
  GradientCheck check(GetParam());
  for (const auto& p : check.table().parameters) {
    if (has_no_effect(GetParam(), p.name))
      EXPECT_LT(check.size_along(p), 1e-11) << p.name;
    else
      EXPECT_LT(check.error(p.offset, p.size(), check.gradient()), kTolerance) << p.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelGradient, testing::ValuesIn(all_cases()),
                         [](const auto& one) { return one.param.name; });

// A gradient that is wrong in one tensor only, by a thousandth or in sign, is found along that
// tensor; one that is wrong everywhere, along all parameters.
TEST(ModelGradientControl, AWrongTensorIsFound) {
  for (const size_t which : {size_t{0}, size_t{2}, size_t{4}}) {
    const ModelCase c = named_cases()[which];
    GradientCheck check(c);
    for (const auto& p : check.table().parameters) {
      if (has_no_effect(c, p.name)) continue;
      for (const double factor : {1.001, 0.0, -1.0, 2.0}) {
        auto wrong = check.gradient();
        for (int64_t i = 0; i < p.size(); ++i) wrong[p.offset + i] *= factor;
        EXPECT_GT(check.error(p.offset, p.size(), wrong), kTolerance) << p.name << " " << factor;
      }
    }
    auto doubled = check.gradient();
    for (auto& g : doubled) g *= 2.0;
    EXPECT_GT(check.error(0, check.table().flat_size, doubled), kTolerance);
  }
}

}  // namespace
}  // namespace espalier::check
