// SPDX-License-Identifier: Apache-2.0
// A small whole model with random tokens: what the tests of the stage work on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../device_list.hpp"
#include "draw.hpp"
#include "engine/block_access.hpp"
#include "engine/stage.hpp"

namespace espalier::check {

/// Tokens of one micro-batch; `batch()` points into it.
struct Tokens {
  std::vector<int32_t> inputs, targets, positions, document_start;
  std::vector<int64_t> first_token;  // of each sequence; empty where nothing is dropped
  int64_t sequences = 0, length = 0;
  TokenBatch batch() const {
    return {inputs.data(),
            targets.data(),
            positions.data(),
            document_start.data(),
            first_token.empty() ? nullptr : first_token.data(),
            sequences,
            length};
  }
};

/// Random tokens for a configuration; about one target in eight is -1. Documents of about
/// `mean_document` tokens (0: one a sequence) if data.document_mask; positions restart with them if
/// data.reset_positions. With dropout, sequences come one behind the other from a random place on.
Tokens draw_tokens(const Config& config, int64_t mean_document, Draw& draw);

bool has_dropout(const ModelConfig& model);
/// Sets all three probabilities.
void set_dropout(ModelConfig& model, double probability);

/// A configuration that is valid and small; what a test does not set stays as here.
Config small_config();

/// Values for every parameter of the table, in flat order with padding 0: wide enough that no part
/// of the model is close to linear or saturated.
std::vector<double> draw_parameters(const ParameterTable& table, Draw& draw);

/// A whole model of element type T, as one chunk on one rank, with its parameters. Its chunk has as
/// many slots as the blueprint says.
template <class T>
class ModelProblem {
 public:
  ModelProblem(Blueprint blueprint, const std::vector<double>& parameters)
      : blueprint_(std::move(blueprint)), store_(blueprint_.parameters), blocks_(store_) {
    blueprint_.config.numerics.compute_type = ElementTraits<T>::kType;
    set_parameters(parameters);
    stage_ = std::make_unique<Stage<T>>(blueprint_, blocks_, nullptr);
    stage_->reserve_losses(1);
  }

  void set_parameters(const std::vector<double>& values) {
    write_to(store_.master(), values);
    store_.refresh_compute_copy();
  }

  double loss(const Tokens& tokens) {
    stage_->forward(0, 0, tokens.batch(), nullptr, Mode::evaluate);
    stage_->loss(0, 0);
    return stage_->loss_sums(1).front();
  }

  /// The loss that gradient() differentiates: with dropout.
  double train_loss(const Tokens& tokens) {
    stage_->forward(0, 0, tokens.batch(), nullptr, Mode::train);
    stage_->loss(0, 0);
    return stage_->loss_sums(1).front();
  }

  /// Gradient of scale times the loss, added to `before`; all flat_size elements.
  std::vector<double> gradient(const Tokens& tokens, double scale,
                               const std::vector<double>& before) {
    const Buffer<Acc<T>> flat("gradient", blueprint_.parameters.flat_size, Contents::undefined);
    write_to(flat.data(), before);
    blocks_.set_gradients(flat.data());
    stage_->forward(0, 0, tokens.batch(), nullptr, Mode::train);
    stage_->backward(0, 0, nullptr, nullptr, scale, BackwardPart::together, 0);
    last_loss_ = stage_->loss_sums(1).front();
    return read_from(flat.data(), flat.size());
  }
  std::vector<double> gradient(const Tokens& tokens, double scale) {
    return gradient(tokens, scale, std::vector<double>(blueprint_.parameters.flat_size, 0.0));
  }

  double last_loss() const { return last_loss_; }  ///< what the last gradient() returned as loss
  const ParameterTable& table() const { return blueprint_.parameters; }

 private:
  Blueprint blueprint_;
  ParameterStore<T> store_;
  ResidentBlocks<T> blocks_;
  std::unique_ptr<Stage<T>> stage_;
  double last_loss_ = 0.0;
};

}  // namespace espalier::check
