// SPDX-License-Identifier: Apache-2.0
// Negative controls: operators that do one thing wrong, which the harness has to notice.
#include <algorithm>
#include <cmath>
#include <limits>

#include "harness.hpp"

namespace espalier::check {
namespace {

/// Passes everything through to another operator and breaks one thing.
class Sabotaged : public OperatorCase {
 public:
  Sabotaged(OperatorCase& inner, Sabotage what) : inner_(inner), what_(what) {
    inputs_ = inner.inputs();
    outputs_ = inner.outputs();
    saved_ = inner.saved();  // shares the memory
  }

  void forward(const Arrays& outputs, const Arrays& inputs) override {
    inner_.forward(outputs, inputs);
    Array output = outputs.back();
    if (what_ == Sabotage::stray_output_write) output.write_past_the_end();
    if (what_ == Sabotage::unwritten_output) {
      auto values = output.read();
      values.back() = std::numeric_limits<double>::quiet_NaN();
      output.fill(values);
    }
    if (what_ == Sabotage::changed_input) {
      Array input = inputs.front();
      auto values = input.read();
      values.back() += 1.0;
      input.fill(values);
    }
  }

  void backward(const Arrays& input_gradients, const Arrays& output_gradients,
                const Arrays& inputs) override {
    std::vector<std::vector<double>> before;
    for (const auto& g : input_gradients) before.push_back(g.read());
    inner_.backward(input_gradients, output_gradients, inputs);
    for (size_t i = 0; i < input_gradients.size(); ++i) {
      Array gradient = input_gradients[i];
      if (what_ == Sabotage::stray_gradient_write) gradient.write_past_the_end();
      gradient.fill(spoilt(gradient.read(), before[i], inputs_[i].gradient));
    }
  }

  void restrict_output_gradients(std::vector<std::vector<double>>& values) const override {
    inner_.restrict_output_gradients(values);
  }

 private:
  std::vector<double> spoilt(std::vector<double> after, const std::vector<double>& before,
                             Write write) const {
    // Where gradients are added to, only what was added is spoilt.
    const auto base = [&](size_t j) { return write == Write::add ? before[j] : 0.0; };
    const auto scale = [&](double factor) {
      for (size_t j = 0; j < after.size(); ++j) after[j] = base(j) + factor * (after[j] - base(j));
    };
    switch (what_) {
      case Sabotage::doubled_gradient: scale(2.0); break;
      case Sabotage::gradient_off_by_a_millionth: scale(1.0 + 1e-6); break;
      case Sabotage::dropped_term: {
        size_t largest = 0;
        for (size_t j = 0; j < after.size(); ++j)
          if (std::abs(after[j] - base(j)) > std::abs(after[largest] - base(largest))) largest = j;
        after[largest] = base(largest);
        break;
      }
      case Sabotage::unwritten_gradient: after.back() = before.back(); break;
      case Sabotage::added_where_overwritten:
        if (write == Write::overwrite)
          for (size_t j = 0; j < after.size(); ++j) after[j] += before[j];
        break;
      case Sabotage::overwritten_where_added:
        for (size_t j = 0; j < after.size(); ++j) after[j] -= base(j);
        break;
      default: break;
    }
    return after;
  }

  OperatorCase& inner_;
  Sabotage what_;
};

struct Named {
  Sabotage what;
  const char* name;
};
constexpr Named kAll[] = {
    {Sabotage::doubled_gradient, "doubled_gradient"},
    {Sabotage::gradient_off_by_a_millionth, "gradient_off_by_a_millionth"},
    {Sabotage::dropped_term, "dropped_term"},
    {Sabotage::unwritten_gradient, "unwritten_gradient"},
    {Sabotage::added_where_overwritten, "added_where_overwritten"},
    {Sabotage::overwritten_where_added, "overwritten_where_added"},
    {Sabotage::stray_gradient_write, "stray_gradient_write"},
    {Sabotage::stray_output_write, "stray_output_write"},
    {Sabotage::unwritten_output, "unwritten_output"},
    {Sabotage::changed_input, "changed_input"},
};

bool applies(Sabotage what, const OperatorCase& c) {
  const auto any = [&](Write w) {
    return std::any_of(c.inputs().begin(), c.inputs().end(),
                       [&](const Port& p) { return p.gradient == w; });
  };
  if (what == Sabotage::added_where_overwritten) return any(Write::overwrite);
  if (what == Sabotage::overwritten_where_added) return any(Write::add);
  return true;
}

}  // namespace

std::string unnoticed_sabotage(OperatorCase& c, const CheckOptions& options) {
  std::string unnoticed = check_gradients(c, options);  // must be in order without sabotage
  for (const auto& s : kAll) {
    if (!applies(s.what, c)) continue;
    Sabotaged broken(c, s.what);
    if (check_gradients(broken, options).empty()) unnoticed += std::string(s.name) + "\n";
  }
  return unnoticed;
}

}  // namespace espalier::check
