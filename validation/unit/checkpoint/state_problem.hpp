// SPDX-License-Identifier: Apache-2.0
// A small state of a run for tests: two tensors with their moments, five steps of history.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/state_file.hpp"

namespace espalier {

struct StateProblem {
  StateLayout layout;
  std::vector<float> values;  // of all six datasets, one behind the other
  TensorSlabs slabs;
  TrainingProgress progress;
  RunHistory history;

  StateProblem() : values(3 * (12 + 5)) {
    layout.tensors = {{"norm.weight", {5}, 0}, {"linear.weight", {4, 3}, 16}};
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25f * static_cast<float>(i) - 3.0f;
    const float* at = values.data();
    for (const char* group : {kParameterGroup, kFirstMomentGroup, kSecondMomentGroup})
      for (const TensorRow& row : layout.tensors) {
        slabs.push_back(
            {std::string(group) + "/" + row.name, Shape(row.shape.size(), 0), row.shape, at});
        at += shape_bytes(row.shape, 1);
      }
    progress.step = 5;
    progress.consumed_tokens = 1234;
    progress.next_sequence = 40;
    progress.seed = -7;
    progress.optimizer_updates = 4;
    progress.loss_scale = 512.0;
    progress.loss_scale_skipped = 1;
    for (int i = 0; i < 5; ++i) {
      history.loss.push_back(3.0 - 0.1 * i);
      history.gradient_norm.push_back(1.0 + i);
      history.learning_rate.push_back(0.001 * i);
      history.loss_scale.push_back(512.0);
      history.skipped.push_back(i == 2 ? 1 : 0);
      history.tokens.push_back(250);
      history.token_hash.push_back(-1 - i);
    }
    history.validation_step = {2, 4};
    history.validation_loss = {3.5, 3.25};
    history.validation_tokens = {100, 100};
  }
};

}  // namespace espalier
