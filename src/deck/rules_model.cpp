// SPDX-License-Identifier: Apache-2.0
// Rules across the keys of [model].
#include <fmt/format.h>

#include <algorithm>

#include "deck/draft.hpp"
#include "deck/guess.hpp"
#include "deck/presets.hpp"

namespace espalier {
namespace {

int64_t upper_bound(const char* name) {
  return static_cast<int64_t>(key_table()[key_index(name)].range.upper);
}

void check_kv_heads(Draft& draft) {
  if (!draft.are_sound({"model.num_heads", "model.num_kv_heads"})) return;
  const int64_t heads = draft.config.model.num_heads;
  const int64_t kv_heads = draft.config.model.num_kv_heads;
  if (heads % kv_heads == 0) return;
  if (draft.is_explicit("model.num_kv_heads") || !draft.is_explicit("model.num_heads")) {
    draft.fault("model.num_kv_heads",
                fmt::format("num_heads = {} is not a multiple of {}", heads, kv_heads),
                try_nearest(kv_heads, 1, heads, [=](int64_t v) { return heads % v == 0; }));
    draft.state("model.num_kv_heads").is_sound = false;
  } else {
    draft.fault("model.num_heads", fmt::format("not a multiple of num_kv_heads = {}", kv_heads),
                try_multiples(heads, 1, upper_bound("model.num_heads"), kv_heads));
    draft.state("model.num_heads").is_sound = false;
  }
}

// Names the number of heads at fault; head_dim follows from it.
void check_automatic_head_dim(Draft& draft) {
  const int64_t hidden = draft.config.model.hidden_size;
  const int64_t heads = draft.config.model.num_heads;
  const bool must_be_even =
      draft.are_sound({"model.position"}) && draft.config.model.position == PositionKind::rope;
  const auto is_legal = [=](int64_t v) {
    return hidden % v == 0 && (!must_be_even || hidden / v % 2 == 0);
  };
  if (is_legal(heads)) return;
  const std::string rule =
      hidden % heads != 0
          ? fmt::format("hidden_size = {} is not a multiple of {} and head_dim is automatic",
                        hidden, heads)
          : fmt::format("head_dim = hidden_size / num_heads = {} is odd, but rope turns pairs",
                        hidden / heads);
  std::string suggestion =
      try_nearest(heads, 1, std::min(hidden, upper_bound("model.num_heads")), is_legal);
  suggestion += (suggestion.empty() ? "" : ", or ") + std::string("give head_dim");
  draft.fault("model.num_heads", rule, suggestion, {"model.hidden_size", "model.position"});
  for (const char* name : {"model.num_heads", "model.num_kv_heads", "model.head_dim"})
    if (std::string(name) == "model.num_heads" || draft.state(name).origin == Origin::automatic)
      draft.state(name).is_sound = false;
}

void check_head_dim(Draft& draft) {
  if (!draft.are_sound({"model.hidden_size", "model.num_heads", "model.head_dim"})) return;
  if (draft.state("model.head_dim").origin == Origin::automatic) check_automatic_head_dim(draft);
  if (!draft.are_sound({"model.head_dim", "model.position"})) return;
  const int64_t head_dim = draft.config.model.head_dim;
  if (draft.config.model.position == PositionKind::rope && head_dim % 2 != 0)
    draft.fault("model.head_dim", "rope turns pairs of channels, so it must be even",
                try_nearest(head_dim, 2, upper_bound("model.head_dim"),
                            [](int64_t v) { return v % 2 == 0; }),
                {"model.position"});
  if (head_dim > upper_bound("model.head_dim"))
    draft.fault("model.num_heads",
                fmt::format("head_dim = hidden_size / num_heads = {} is above {}", head_dim,
                            upper_bound("model.head_dim")),
                "use more heads", {"model.hidden_size"});
}

void check_rope_scaling(Draft& draft) {
  if (!draft.are_sound({"model.position", "model.rope_scaling", "model.rope_low_freq_factor",
                        "model.rope_high_freq_factor"}))
    return;
  const ModelConfig& model = draft.config.model;
  if (model.position != PositionKind::rope || model.rope_scaling != RopeScaling::llama3) return;
  if (model.rope_low_freq_factor >= model.rope_high_freq_factor)
    draft.fault("model.rope_low_freq_factor",
                fmt::format("must be below {}", draft.equation("model.rope_high_freq_factor")),
                "Llama 3 has 1 and 4", {"model.rope_high_freq_factor", "model.rope_scaling"});
}

void check_positions(Draft& draft) {
  if (!draft.are_sound({"model.preset", "model.position", "batch.seq_length"})) return;
  const Preset* preset = find_preset(draft.config.model.preset);
  if (preset == nullptr || draft.config.model.position != PositionKind::learned) return;
  if (preset->published_positions > 0 &&
      draft.config.batch.seq_length > preset->published_positions)
    draft.warn("batch.seq_length",
               fmt::format("the published {} has {} learned positions; this run learns more",
                           preset->name, preset->published_positions),
               fmt::format("{} keeps the published shape", preset->published_positions));
}

}  // namespace

void check_model(Draft& draft) {
  check_kv_heads(draft);
  check_head_dim(draft);
  check_rope_scaling(draft);
  check_positions(draft);
}

}  // namespace espalier
