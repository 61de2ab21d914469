// SPDX-License-Identifier: Apache-2.0
// The values that a deck may leave to the program. grid.data_parallel is filled with the ranks
// (rules_grid.cpp), if they are known.
#include <algorithm>
#include <filesystem>

#include "deck/draft.hpp"

namespace espalier {
namespace {

// The gated form has three matrices for two, so 8/3 keeps the count of parameters of 4.
// Source  Shazeer 2020, "GLU variants improve transformer", arXiv:2002.05202, section 3
int64_t default_intermediate(const ModelConfig& model) {
  if (model.activation != Activation::swiglu) return 4 * model.hidden_size;
  constexpr int64_t kMultiple = 64;
  const int64_t size = (8 * model.hidden_size + 2) / 3;
  return (size + kMultiple - 1) / kMultiple * kMultiple;
}

void fill_model(Draft& draft) {
  const ModelConfig& model = draft.config.model;
  if (model.intermediate_size == 0 && draft.are_sound({"model.intermediate_size"}))
    draft.set_automatic("model.intermediate_size", default_intermediate(model),
                        {"model.hidden_size", "model.activation"});
  if (model.num_kv_heads == 0 && draft.are_sound({"model.num_kv_heads"}))
    draft.set_automatic("model.num_kv_heads", model.num_heads, {"model.num_heads"});
  if (model.head_dim == 0 && draft.are_sound({"model.head_dim"})) {
    const bool divides = model.num_heads > 0 && model.hidden_size % model.num_heads == 0;
    draft.set_automatic("model.head_dim", divides ? model.hidden_size / model.num_heads : 0,
                        {"model.hidden_size", "model.num_heads"});
  }
}

// Follows from the model alone: the deck fixes the arithmetic, whatever the grid.
int64_t default_virtual_shards(const ModelConfig& model) {
  int64_t shards = 1;
  while (shards < 8 && model.num_heads % (2 * shards) == 0 &&
         model.intermediate_size % (2 * shards) == 0 &&
         (model.num_kv_heads % (2 * shards) == 0 || (2 * shards) % model.num_kv_heads == 0))
    shards *= 2;
  return shards;
}

void fill_grid(Draft& draft) {
  const GridConfig& grid = draft.config.grid;
  const bool is_interleaved = grid.pipeline_schedule == PipelineSchedule::interleaved;
  if (grid.virtual_stages == 0 && draft.are_sound({"grid.virtual_stages"}))
    draft.set_automatic("grid.virtual_stages", int64_t{is_interleaved ? 2 : 1},
                        {"grid.pipeline_schedule"});
}

void fill_numerics(Draft& draft) {
  const Config& config = draft.config;
  if (config.numerics.virtual_tensor_parallel == 0 &&
      draft.are_sound({"numerics.virtual_tensor_parallel", "numerics.reproducible"}))
    draft.set_automatic("numerics.virtual_tensor_parallel",
                        config.numerics.reproducible && config.model.num_kv_heads > 0
                            ? default_virtual_shards(config.model)
                            : int64_t{1},
                        {"model.num_heads", "model.num_kv_heads", "model.intermediate_size"});
}

void fill_directory(Draft& draft) {
  if (!draft.config.run.directory.empty() || !draft.are_sound({"run.directory"})) return;
  const std::string stem = std::filesystem::path(draft.file()).stem().string();
  const std::string directory = "runs/" + (stem.empty() ? "deck" : stem);
  if (is_utf8(directory) && !has_control_characters(directory)) {
    draft.set_automatic("run.directory", directory, {});
  } else {
    draft.missing("run.directory",
                  "the name of the deck file, which it is made of, is not plain text",
                  "give it in [run]");
    draft.state("run.directory").is_sound = false;
  }
}

}  // namespace

void fill_automatic_values(Draft& draft) {
  fill_model(draft);
  fill_grid(draft);
  fill_numerics(draft);
  fill_directory(draft);
  const Config& config = draft.config;
  if (config.schedule.decay == DecayKind::wsd && config.schedule.decay_steps == 0 &&
      draft.are_sound({"schedule.decay_steps", "schedule.decay"}))
    draft.set_automatic("schedule.decay_steps", std::max<int64_t>(1, config.run.steps / 10),
                        {"run.steps"});
  if (config.numerics.compute_type == ElementType::fp64)
    for (const char* key : {"numerics.gradient_reduce_type", "numerics.master_type"})
      if (draft.state(key).origin == Origin::fallback)
        draft.set_automatic(key, std::string("fp64"), {"numerics.compute_type", key});
}

}  // namespace espalier
