// SPDX-License-Identifier: Apache-2.0
// espalier debug: what developers and oracles look at.
#include <memory>

#include "checkpoint/gradient_dump.hpp"
#include "commands/overrides.hpp"
#include "commands/run_device.hpp"
#include "commands/spmd_context.hpp"
#include "commands/training_session.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace espalier {
namespace {

struct DebugRequest {
  std::string deck, out;
  std::vector<std::string> overrides;
  int64_t step = 0;
};

// The whole global batch as one array, as every rank can make it.
struct GlobalBatch {
  std::vector<int32_t> inputs, targets, positions, document_start;
  void append(const MicroBatch& b) {
    inputs.insert(inputs.end(), b.inputs.begin(), b.inputs.end());
    targets.insert(targets.end(), b.targets.begin(), b.targets.end());
    positions.insert(positions.end(), b.positions.begin(), b.positions.end());
    document_start.insert(document_start.end(), b.document_start.begin(), b.document_start.end());
  }
};

int dump_gradients(const DebugRequest& request) {
  const Launch started = launch(request.deck, request.overrides);
  const Config& config = started.blueprint.config;
  const BatchSource data(config, Stream::train);
  const MicroBatchRange own = own_micro_batches(started.blueprint);
  GlobalBatch whole;
  std::vector<MicroBatch> batches;
  MicroBatch batch;
  for (int64_t i = 0; i < data.micro_batches(); ++i) {
    data.fill(request.step, i, batch);
    whole.append(batch);
    if (static_cast<int64_t>(batches.size()) < own.count &&
        i == own.index(static_cast<int64_t>(batches.size())))
      batches.push_back(batch);
  }
  RunDevice(started).settle_and_require_room();
  const auto session = make_training_session(started.blueprint, started.grid);
  const LossSum loss = session->gradients(batches);
  const DumpTokens tokens{
      config.batch.global_batch_size, config.batch.seq_length, whole.inputs.data(),
      whole.targets.data(),           whole.positions.data(),  whole.document_start.data()};
  const DumpInfo about{build_description(), effective_deck(started.deck), loss.mean()};
  const auto rows = tensor_rows(make_parameter_table(config));
  const Comm* world = &started.grid.world();
  const TensorSlabs parameters = session->parameters(), gradients = session->last_gradients();
  write_gradient_dump(request.out, world, rows, session->state_types(), parameters, gradients,
                      tokens, config, about);
  info("loss {:.9g} over {} tokens; wrote {}", loss.mean(), loss.batch.valid_tokens, request.out);
  return 0;
}

}  // namespace

void add_debug(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("debug", "Dumps for developers and oracles");
  verb->require_subcommand(1);
  add_compare(*verb, action);
  const auto r = std::make_shared<DebugRequest>();
  CLI::App* gradients =
      verb->add_subcommand("gradients", "Tokens, parameters, loss and every gradient of one step");
  gradients->add_option("DECK", r->deck, "The deck (TOML)")->required();
  gradients->add_option("--out", r->out, "HDF5 file to write")->required();
  add_overrides(*gradients, r->overrides);
  gradients->add_option("--step", r->step, "Step whose tokens are taken, from 0 (default 0)")
      ->check(CLI::NonNegativeNumber);
  gradients->callback([r, &action] { action = [r] { return dump_gradients(*r); }; });
}

}  // namespace espalier
