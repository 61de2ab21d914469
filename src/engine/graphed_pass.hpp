// SPDX-License-Identifier: Apache-2.0
// Forward and backward pass of a micro-batch as one piece of work for the device.
#pragma once

#include "engine/stage.hpp"

namespace espalier {

/// For a stage that is the whole model, whose passes exchange nothing and always use the same
/// memory: the rules of numerics.graphs see to that. The first micro-batch of a step overwrites the
/// gradients to which the others add: each kind has its recording. The first time a kind runs as it
/// is, so that every library has chosen and allocated what it needs; the second time it is
/// recorded; then the recording is started again and again. Another gradient scale makes another
/// recording.
template <class T>
class GraphedPass {
 public:
  /// The stage must outlive it.
  explicit GraphedPass(Stage<T>& stage) : stage_(stage) {}

  /// Both passes of the micro-batch whose tokens the stage has taken, in slot 0 of chunk 0, its
  /// losses not yet kept.
  void run(double gradient_scale);

 private:
  struct Recording {
    device::Graph graph;
    double scale = 0.0;
    bool is_warm = false;
  };
  void passes(double gradient_scale);

  Stage<T>& stage_;
  Recording first_, later_;  // of a step
};

}  // namespace espalier
