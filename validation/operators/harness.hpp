// SPDX-License-Identifier: Apache-2.0
// The harness of the operators: describe an operator once, as a struct, and have its derivative,
// its writes and its low-precision instances checked. Every check returns the complaints as text,
// empty where there are none, so that negative controls can demand some.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "array.hpp"
#include "layers/linear.hpp"

namespace espalier::check {

/// One tensor that an operator reads or writes.
struct Port {
  std::string name;
  int64_t size = 0;
  ElementType type = ElementType::fp64;
  Write gradient = Write::overwrite;  // inputs: what backward does to this one's gradient
  ElementType gradient_type = ElementType::fp64;
  double spread = 1.0, centre = 0.0;  // inputs: normal values of this kind
};

/// An activation of T: its gradient is a T and overwritten.
template <class T>
Port activation_port(const std::string& name, int64_t size) {
  const ElementType type = ElementTraits<T>::kType;
  return {name, size, type, Write::overwrite, type};
}
/// A parameter of T: its gradient is in the sum type and added to.
template <class T>
Port parameter_port(const std::string& name, int64_t size, double spread = 1.0,
                    double centre = 0.0) {
  const ElementType type = ElementTraits<T>::kType;
  return {name, size, type, Write::add, sum_type(type), spread, centre};
}

/// One operator at one shape in one element type.
class OperatorCase {
 public:
  virtual ~OperatorCase() = default;

  /// Writes all outputs. What backward needs is kept in `saved`.
  virtual void forward(const Arrays& outputs, const Arrays& inputs) = 0;
  /// Gradients of all inputs from those of the outputs, after a forward of the same inputs.
  virtual void backward(const Arrays& input_gradients, const Arrays& output_gradients,
                        const Arrays& inputs) = 0;
  /// For operators whose output gradients are not free (the loss: one number for all tokens).
  virtual void restrict_output_gradients(std::vector<std::vector<double>>& /*values*/) const {}

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  Arrays& saved() { return saved_; }  // statistics and scratch; poisoned before forward

 protected:
  std::vector<Port> inputs_, outputs_;
  Arrays saved_;
};

struct CheckOptions {
  uint64_t seed = 1;
  double tolerance = 1e-7;  // of the derivative, relative
  double first_step = 0.02;
};

/// Directional derivatives of a double operator by central differences against backward, for each
/// input and for all together; outputs and gradients all written, nothing outside them, added to
/// where parameters and overwritten where activations; inputs left as they were.
std::string check_gradients(OperatorCase& c, const CheckOptions& options = {});

/// <A x, u> = <x, A^T u> of a linear operator to 1e-14 |A x| |u|, without differences.
std::string check_adjoint(OperatorCase& c, const CheckOptions& options = {});

/// Relative errors allowed of a low-precision instance against double, in units of the machine
/// epsilon of its element type. Compared in the norm of the whole tensor, and the largest deviation
/// with the largest element times kElementFactor.
struct TypeTolerance {
  double forward = 1.0, backward = 1.0;
};
constexpr double kElementFactor = 4.0;

/// `low` against `exact`, the same operator at the same shape in double, on the same values.
std::string compare_types(OperatorCase& low, OperatorCase& exact, const TypeTolerance& tolerance,
                          uint64_t seed = 1);

/// What a negative control breaks.
enum class Sabotage {
  doubled_gradient,
  gradient_off_by_a_millionth,
  dropped_term,
  unwritten_gradient,
  added_where_overwritten,
  overwritten_where_added,
  stray_gradient_write,
  stray_output_write,
  unwritten_output,
  changed_input,
};

/// Runs check_gradients with every sabotage that applies to the operator and returns those that it
/// did not notice.
std::string unnoticed_sabotage(OperatorCase& c, const CheckOptions& options = {});

}  // namespace espalier::check
