// SPDX-License-Identifier: Apache-2.0
#include "harness.hpp"

#include <algorithm>
#include <cmath>

#include "derivative.hpp"
#include "draw.hpp"

namespace espalier::check {
namespace {

using Values = std::vector<std::vector<double>>;

Arrays make_arrays(const std::vector<Port>& ports) {
  Arrays arrays;
  for (const auto& p : ports) arrays.emplace_back(p.type, p.size);
  return arrays;
}

Values read_all(const Arrays& arrays) {
  Values values;
  for (const auto& a : arrays) values.push_back(a.read());
  return values;
}

bool all_finite(const std::vector<double>& x) {
  return std::all_of(x.begin(), x.end(), [](double v) { return std::isfinite(v); });
}

/// One evaluation of an operator at one point, with all that is watched besides the numbers.
class Evaluation {
 public:
  Evaluation(OperatorCase& c, uint64_t seed)
      : case_(c), draw_(seed), inputs_(make_arrays(c.inputs())) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Port& p = c.inputs()[i];
      inputs_[i].fill(draw_.normals(p.size, p.spread, p.centre));
    }
    point_ = read_all(inputs_);
  }

  void move_to(const Values& point) {
    point_ = point;
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].fill(point_[i]);
  }

  Values forward() {
    Arrays outputs = make_arrays(case_.outputs());
    for (auto& a : case_.saved()) a.poison();
    case_.forward(outputs, inputs_);
    watch("forward", outputs, case_.outputs());
    return read_all(outputs);
  }

  /// Gradients of the inputs for `output_gradients`; those that are added to start at `before`.
  Values backward(const Values& output_gradients, const Values& before) {
    Arrays given = make_arrays(case_.outputs());
    for (size_t i = 0; i < given.size(); ++i) given[i].fill(output_gradients[i]);
    const Values given_values = read_all(given);
    Arrays gradients;
    for (size_t i = 0; i < case_.inputs().size(); ++i) {
      const Port& p = case_.inputs()[i];
      gradients.emplace_back(p.gradient_type, p.size);
      if (p.gradient == Write::add) gradients.back().fill(before[i]);
    }
    const Values start = read_all(gradients);
    case_.backward(gradients, given, inputs_);
    watch("backward", gradients, case_.inputs());
    if (read_all(given) != given_values) complain("backward changed an output's gradient");
    Values result = read_all(gradients);
    for (size_t i = 0; i < result.size(); ++i)
      if (case_.inputs()[i].gradient == Write::add)
        for (size_t j = 0; j < result[i].size(); ++j) result[i][j] -= start[i][j];
    return result;
  }

  /// Random output gradients as the operator allows them.
  Values draw_output_gradients() {
    Values values;
    for (const auto& p : case_.outputs()) values.push_back(draw_.normals(p.size));
    case_.restrict_output_gradients(values);
    return values;
  }
  Values draw_like_inputs() {
    Values values;
    for (const auto& p : case_.inputs()) values.push_back(draw_.normals(p.size));
    return values;
  }

  const Values& point() const { return point_; }
  std::string& complaints() { return complaints_; }
  void complain(const std::string& text) { complaints_ += text + "\n"; }

 private:
  void watch(const char* pass, const Arrays& written, const std::vector<Port>& ports) {
    for (size_t i = 0; i < written.size(); ++i) {
      if (!all_finite(written[i].read()))
        complain(fmt::format("{} left part of {} unwritten or not finite", pass, ports[i].name));
      if (!written[i].guards_are_intact())
        complain(fmt::format("{} wrote outside {}", pass, ports[i].name));
    }
    for (const auto& a : case_.saved())
      if (!a.guards_are_intact()) complain(fmt::format("{} wrote outside what it keeps", pass));
    if (read_all(inputs_) != point_) complain(fmt::format("{} changed an input", pass));
  }

  OperatorCase& case_;
  Draw draw_;
  Arrays inputs_;
  Values point_;
  std::string complaints_;
};

double dot_all(const Values& a, const Values& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += dot(a[i], b[i]);
  return sum;
}

Values keep_only(const Values& v, size_t which) {
  Values only = v;
  for (size_t i = 0; i < v.size(); ++i)
    if (i != which) std::fill(only[i].begin(), only[i].end(), 0.0);
  return only;
}

/// <u, df/dh> along v by differences; summed as differences, so that large outputs cost no digits.
double measured_slope(Evaluation& at, const Values& origin, const Values& v, const Values& u,
                      double first_step) {
  const auto moved = [&](double h) {
    Values point = origin;
    for (size_t i = 0; i < point.size(); ++i)
      for (size_t j = 0; j < point[i].size(); ++j) point[i][j] += h * v[i][j];
    at.move_to(point);
    return at.forward();
  };
  const auto central = [&](double h) {
    const Values up = moved(h), down = moved(-h);
    double sum = 0.0;
    for (size_t i = 0; i < u.size(); ++i)
      for (size_t j = 0; j < u[i].size(); ++j) sum += u[i][j] * (up[i][j] - down[i][j]);
    return sum / (2 * h);
  };
  const double slope = extrapolated_to_zero(central, first_step);
  at.move_to(origin);
  return slope;
}

void compare_slopes(Evaluation& at, const OperatorCase& c, const Values& gradients, const Values& u,
                    const CheckOptions& options) {
  const Values origin = at.point();
  const size_t count = gradients.size();
  for (size_t which = 0; which <= count; ++which) {
    if (which == count && count == 1) break;  // all inputs together are the only one
    Values v;
    double slope = 0.0;
    // A direction nearly orthogonal to the gradient says nothing relative to it: draw another one.
    for (int attempt = 0; attempt < 20; ++attempt) {
      v = at.draw_like_inputs();
      if (which < count) v = keep_only(v, which);
      slope = dot_all(v, gradients);
      const double expected =
          which < count ? length(gradients[which]) : std::sqrt(dot_all(gradients, gradients));
      if (std::abs(slope) >= 0.2 * expected) break;
    }
    const double measured = measured_slope(at, origin, v, u, options.first_step);
    const double error = relative_difference(measured, slope);
    if (!(error < options.tolerance))
      at.complain(fmt::format(
          "gradient of {}: measured {:.15g}, backward says {:.15g}, error {:.3g}",
          which < count ? c.inputs()[which].name : "all inputs", measured, slope, error));
  }
}

}  // namespace

std::string check_gradients(OperatorCase& c, const CheckOptions& options) {
  Evaluation at(c, options.seed);
  const Values u = at.draw_output_gradients();
  at.forward();
  const Values gradients = at.backward(u, at.draw_like_inputs());
  compare_slopes(at, c, gradients, u, options);
  return at.complaints();
}

std::string check_adjoint(OperatorCase& c, const CheckOptions& options) {
  Evaluation at(c, options.seed);
  const Values u = at.draw_output_gradients();
  const Values result = at.forward();
  const double image = dot_all(result, u);
  const Values zero = [&] {
    Values z = at.point();
    for (auto& x : z) std::fill(x.begin(), x.end(), 0.0);
    return z;
  }();
  const double preimage = dot_all(at.point(), at.backward(u, zero));
  // Relative to |Ax| |u|: the product itself may cancel.
  const double scale = std::sqrt(dot_all(result, result) * dot_all(u, u));
  if (!(std::abs(image - preimage) < 1e-14 * scale))
    at.complain(fmt::format("<Ax, u> = {:.17g}, <x, A'u> = {:.17g}", image, preimage));
  return at.complaints();
}

namespace {

void compare_tensor(const std::string& what, const std::vector<double>& low,
                    const std::vector<double>& exact, double allowed, std::string& complaints) {
  const double error = relative_distance(low, exact);
  double largest = 0.0, worst = 0.0;
  for (size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, std::abs(exact[i]));
    worst = std::max(worst, std::abs(low[i] - exact[i]));
  }
  if (!(error <= allowed))
    complaints += fmt::format("{}: relative error {:.3g}, allowed {:.3g}\n", what, error, allowed);
  if (!(worst <= kElementFactor * allowed * largest))
    complaints += fmt::format("{}: an element is off by {:.3g}, allowed {:.3g}\n", what, worst,
                              kElementFactor * allowed * largest);
}

}  // namespace

std::string compare_types(OperatorCase& low, OperatorCase& exact, const TypeTolerance& tolerance,
                          uint64_t seed) {
  Evaluation a(low, seed), b(exact, seed);
  b.move_to(a.point());
  Values u = a.draw_output_gradients();
  for (size_t i = 0; i < u.size(); ++i) {  // the same values, which both types can hold
    Array rounded(low.outputs()[i].type, static_cast<int64_t>(u[i].size()));
    rounded.fill(u[i]);
    u[i] = rounded.read();
  }
  low.restrict_output_gradients(u);
  const double epsilon = machine_epsilon(low.inputs().front().type);
  std::string complaints;
  const Values low_outputs = a.forward(), exact_outputs = b.forward();
  for (size_t i = 0; i < low_outputs.size(); ++i)
    compare_tensor("output " + low.outputs()[i].name, low_outputs[i], exact_outputs[i],
                   tolerance.forward * epsilon, complaints);
  Values zero = a.point();
  for (auto& x : zero) std::fill(x.begin(), x.end(), 0.0);
  const Values low_gradients = a.backward(u, zero), exact_gradients = b.backward(u, zero);
  for (size_t i = 0; i < low_gradients.size(); ++i)
    compare_tensor("gradient of " + low.inputs()[i].name, low_gradients[i], exact_gradients[i],
                   tolerance.backward * epsilon, complaints);
  return a.complaints() + b.complaints() + complaints;
}

}  // namespace espalier::check
