// SPDX-License-Identifier: Apache-2.0
// Loss and every gradient of the small models in validation/references/oracle, which PyTorch
// computed in double (validation/oracle/oracle.py), against this program's stage.
#include <gtest/gtest.h>

#include <cmath>

#include "../device_list.hpp"
#include "engine/block_access.hpp"
#include "engine/stage.hpp"
#include "golden_case.hpp"

namespace espalier {
namespace {

struct Outcome {
  double loss = 0;
  std::vector<double> gradients;  // flat
};

template <class T>
Outcome run_stage(const GoldenCase& c) {
  using Real = Acc<T>;
  Blueprint blueprint = c.blueprint;
  blueprint.config.numerics.compute_type = ElementTraits<T>::kType;
  const int64_t size = blueprint.parameters.flat_size;
  ParameterStore<T> store(blueprint.parameters);
  std::vector<Real> master(c.parameters.begin(), c.parameters.end());
  check::write_to(store.master(), master);
  store.refresh_compute_copy();
  ResidentBlocks<T> blocks(store);
  Stage<T> stage(blueprint, blocks, nullptr);
  stage.reserve_losses(1);
  const TokenBatch tokens{
      c.inputs.data(), c.targets.data(), c.positions.data(), c.document_start.data(), nullptr,
      c.sequences,     c.length};
  const Buffer<Real> flat("gradients", size);
  const double count = static_cast<double>(c.valid_tokens);
  Outcome outcome;
  blocks.set_gradients(flat.data());
  stage.forward(0, 0, tokens, nullptr, Mode::train);
  stage.backward(0, 0, nullptr, nullptr, 1.0 / count, BackwardPart::together, 0);
  outcome.loss = stage.loss_sums(1).front() / count;
  outcome.gradients = check::read_from(flat.data(), size);
  return outcome;
}

/// ||found - reference|| / ||reference||
double relative_error(const GoldenCase& c, const ParameterSpec& tensor, const Outcome& outcome) {
  const std::vector<double> reference = c.values(c.gradients, tensor);
  double difference = 0, size = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double d = outcome.gradients[static_cast<size_t>(tensor.offset) + i] - reference[i];
    difference += d * d;
    size += reference[i] * reference[i];
  }
  return std::sqrt(difference / size);
}

/// Number of tensors, the loss among them, outside the tolerances.
int count_failures(const GoldenCase& c, const Outcome& outcome, double loss_tolerance,
                   double gradient_tolerance) {
  int failures = 0;
  const auto judge = [&](const std::string& name, double error, double tolerance) {
    if (error <= tolerance) return;  // a NaN is not
    ++failures;
    printf("%-40s relative error %.2e, allowed %.0e\n", name.c_str(), error, tolerance);
  };
  judge("loss", std::abs(outcome.loss - c.loss) / c.loss, loss_tolerance);
  for (const ParameterSpec& tensor : c.blueprint.parameters.parameters)
    judge(tensor.name, relative_error(c, tensor, outcome), gradient_tolerance);
  return failures;
}

class Golden : public testing::TestWithParam<const char*> {
 protected:
  GoldenCase load() const {
    return load_golden_case(std::string(ESPALIER_REFERENCES) + "/" + GetParam() + ".h5");
  }
};

TEST_P(Golden, SinglePrecisionAgrees) {
  const GoldenCase c = load();
  EXPECT_EQ(count_failures(c, run_stage<float>(c), 1e-6, 1e-5), 0);
}

// The stored gradients are rounded to fp32 (6e-8 an element); the loss is not.
TEST_P(Golden, DoublePrecisionAgrees) {
  const GoldenCase c = load();
  EXPECT_EQ(count_failures(c, run_stage<double>(c), 1e-12, 1e-7), 0);
}

// Negative control: other positions, another scale or mask must show in the loss and every tensor.
TEST_P(Golden, NoticesFaults) {
  const GoldenCase c = load();
  const int tensors = static_cast<int>(c.blueprint.parameters.parameters.size()) + 1;
  GoldenCase turned = c;  // a shift would not do: rope sees differences alone
  for (int32_t& p : turned.positions) p = static_cast<int32_t>(c.length) - 1 - p;
  EXPECT_EQ(count_failures(c, run_stage<double>(turned), 1e-6, 1e-5), tensors) << "positions";
  GoldenCase scaled = c;
  scaled.blueprint.config.model.logit_scale *= 1.001;
  EXPECT_EQ(count_failures(c, run_stage<double>(scaled), 1e-6, 1e-5), tensors) << "logit_scale";
  GoldenCase masked = c;
  for (int32_t& start : masked.document_start) start = start > 0 ? start - 1 : 0;
  if (masked.document_start == c.document_start) return;  // a case without documents
  EXPECT_EQ(count_failures(c, run_stage<double>(masked), 1e-6, 1e-5), tensors) << "documents";
}

INSTANTIATE_TEST_SUITE_P(Oracle, Golden, testing::Values("gpt2", "llama", "cohere", "exact"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace espalier
