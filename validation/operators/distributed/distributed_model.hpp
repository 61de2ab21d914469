// SPDX-License-Identifier: Apache-2.0
// A model spread over the ranks of the job, seen as a function of the parameters of the whole.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../model_problem.hpp"
#include "engine/data_parallel_blocks.hpp"
#include "engine/pipeline.hpp"
#include "grid/grid.hpp"

namespace espalier::check {

/// Parameters, or gradients, of the whole model: flat, by make_parameter_table(config).
using Global = std::vector<double>;

/// One global batch, the same on every rank: the tokens of each micro-batch, one behind the other.
std::vector<Tokens> draw_batch(const Config& config, int64_t mean_document, Draw& draw);

/// Its part of this rank, with the engine around it, in double.
class DistributedModel {
 public:
  /// Collective  over all ranks, as all that follows; config.grid fits their number
  explicit DistributedModel(const Config& config);

  /// Every rank takes what it holds.
  void set_parameters(const Global& values);
  /// Sum of all losses of the global batch, with dropout. Leaves gradients of `scale` times that.
  double train(const std::vector<Tokens>& batch, double scale);
  /// The same without dropout and gradients.
  double evaluate(const std::vector<Tokens>& batch);

  /// Of the last train(). Elements that several ranks hold must be the same bits on all of them,
  /// and each must be held by one at least.
  struct Gathered {
    Global values;
    int64_t different = 0, missing = 0;  // elements
  };
  Gathered gradient();

  const Blueprint& blueprint() const { return blueprint_; }

 private:
  std::vector<TokenBatch> own(const std::vector<Tokens>& batch) const;
  double total(const std::vector<double>& losses) const;
  /// f(index in the buffer, index in a Global) for what `owned` says.
  void for_each(const std::vector<OwnedRange>& owned, Indexing indexing,
                const std::function<void(int64_t, int64_t)>& f) const;

  Grid grid_;
  Blueprint blueprint_;
  ParameterTable whole_;
  ParameterStore<double> store_;
  DataParallelBlocks<double> blocks_;
  Stage<double> stage_;
  Pipeline<double> pipeline_;
  Buffer<double> tied_room_;
};

/// A way to spread a model.
struct Layout {
  int64_t tp = 1, pp = 1, dp = 1;
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int64_t chunks = 1;
  bool sequence = false;
  int64_t zero = 0;
  int64_t shards = 0;  // virtual ones of the reproducible mode; 0: the fast mode
  Recompute recompute = Recompute::none;
  int64_t ranks() const { return tp * pp * dp; }
  std::string text() const;
};
Config with_layout(Config config, const Layout& layout);

/// gpt2 (learned positions, biases, tied), llama (grouped queries, rope, gated, untied) and cohere
/// (parallel branches, norms of queries and keys, tied): two layers, 23 words, 4 micro-batches of 7
/// tokens.
std::vector<std::pair<std::string, Config>> families();
Config family(const std::string& name);

}  // namespace espalier::check
