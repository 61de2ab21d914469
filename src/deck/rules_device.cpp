// SPDX-License-Identifier: Apache-2.0
// Rules of what only a device does: a recorded graph repeats the same kernels on the same memory,
// and nothing in it may wait for another rank.
#include <fmt/format.h>

#include "deck/draft.hpp"

namespace espalier {
namespace {

constexpr const char* kGraphs = "numerics.graphs";

void refuse_graphs(Draft& draft, const char* cause, const std::string& why) {
  const std::string section = std::string(cause).substr(0, std::string(cause).find('.'));
  draft.fault(kGraphs,
              fmt::format("{}{} {}", section == "numerics" ? "" : section + ".",
                          draft.equation(cause), why),
              "try false", {cause});
}

void check_graph_ranks(Draft& draft) {
  for (const char* name :
       {"grid.tensor_parallel", "grid.pipeline_parallel", "grid.context_parallel"})
    if (draft.are_sound({name}) && std::get<int64_t>(draft.value(name)) > 1)
      refuse_graphs(draft, name, "exchanges with other ranks in the middle of a micro-batch");
  if (draft.are_sound({"grid.zero_stage"}) && draft.config.grid.zero_stage >= 2)
    refuse_graphs(draft, "grid.zero_stage",
                  draft.config.grid.zero_stage == 2
                      ? "sends gradients away in the middle of a micro-batch"
                      : "gathers parameters in the middle of a micro-batch");
}

// The mask is a function of the tokens' numbers, which a recorded launch would keep.
void check_graph_dropout(Draft& draft) {
  for (const char* name :
       {"model.embedding_dropout", "model.attention_dropout", "model.residual_dropout"})
    if (draft.are_sound({name}) && std::get<double>(draft.value(name)) > 0.0)
      refuse_graphs(draft, name, "draws another mask in every micro-batch");
}

void check_graph_tree(Draft& draft) {
  if (!draft.are_sound({"numerics.reproducible", "batch.global_batch_size",
                        "batch.micro_batch_size", "grid.data_parallel"}))
    return;
  const Config& c = draft.config;
  if (!c.numerics.reproducible || c.grid.data_parallel == 0) return;
  const int64_t unit = c.batch.micro_batch_size * c.grid.data_parallel;
  const int64_t own = c.batch.global_batch_size / unit;
  if (c.batch.global_batch_size % unit != 0 || own <= 1) return;
  draft.fault(kGraphs,
              fmt::format("reproducible = true adds the gradients of {} micro-batches a rank in a "
                          "tree, which takes other memory for each",
                          own),
              "try false, or one micro-batch a rank", {"numerics.reproducible"});
}

}  // namespace

void check_device(Draft& draft) {
  if (!draft.are_sound({kGraphs}) || !draft.config.numerics.graphs) return;
  check_graph_ranks(draft);
  check_graph_dropout(draft);
  check_graph_tree(draft);
}

}  // namespace espalier
