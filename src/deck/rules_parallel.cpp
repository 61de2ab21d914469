// SPDX-License-Identifier: Apache-2.0
// Rules of [grid] beyond divisibility: key and value heads, ZeRO, the order of ranks, and what the
// reproducible mode asks of tensor parallelism and ZeRO.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "deck/draft.hpp"
#include "deck/guess.hpp"

namespace espalier {
namespace {

constexpr int64_t kMost = 65536;

bool is_power_of_two(int64_t v) {
  return v > 0 && (v & (v - 1)) == 0;
}

// Key and value heads are cut, or repeated evenly.
bool fits_kv_heads(int64_t shards, int64_t kv_heads) {
  return kv_heads % shards == 0 || shards % kv_heads == 0;
}

bool fits_model(const ModelConfig& m, int64_t shards) {
  return m.num_heads % shards == 0 && m.intermediate_size % shards == 0 &&
         fits_kv_heads(shards, m.num_kv_heads);
}

void check_kv_heads(Draft& draft, const char* name, int64_t shards) {
  if (!draft.are_sound({name, "model.num_kv_heads", "model.num_heads"})) return;
  const ModelConfig& m = draft.config.model;
  if (m.num_heads % shards != 0 || fits_kv_heads(shards, m.num_kv_heads)) return;
  draft.fault(name,
              fmt::format("{} is neither a multiple nor a divisor of it",
                          draft.equation("model.num_kv_heads")),
              try_nearest(shards, 1, kMost, [&](int64_t v) { return fits_model(m, v); }),
              {"model.num_kv_heads"});
}

void check_virtual_shards(Draft& draft) {
  const char* name = "numerics.virtual_tensor_parallel";
  if (!draft.are_sound({name, "numerics.reproducible", "grid.tensor_parallel", "model.num_heads",
                        "model.num_kv_heads", "model.intermediate_size"}))
    return;
  const Config& c = draft.config;
  if (!c.numerics.reproducible) return;
  const int64_t shards = c.numerics.virtual_tensor_parallel, ranks = c.grid.tensor_parallel;
  const auto is_legal = [&](int64_t v) { return is_power_of_two(v) && fits_model(c.model, v); };
  if (!is_legal(shards)) {
    draft.fault(name,
                "must be a power of two that divides num_heads and intermediate_size, and a "
                "multiple or a divisor of num_kv_heads",
                try_nearest(shards, 1, 64, is_legal), {"numerics.reproducible"});
    return;
  }
  if (shards % ranks == 0) return;
  draft.fault("grid.tensor_parallel",
              fmt::format("numerics.reproducible = true computes in virtual_tensor_parallel = {} "
                          "shards, which it does not divide",
                          shards),
              try_nearest(ranks, 1, shards, [&](int64_t v) { return shards % v == 0; }),
              {"numerics.virtual_tensor_parallel", "numerics.reproducible"});
}

// The shards are equal but the last ones, which may be short or empty; a rank of empty ones alone
// has neither embedding nor logits.
void check_vocabulary(Draft& draft) {
  if (!draft.are_sound({"grid.tensor_parallel", "model.vocab_size", "numerics.reproducible",
                        "numerics.virtual_tensor_parallel"}))
    return;
  const NumericsConfig& numerics = draft.config.numerics;
  const int64_t vocabulary = draft.config.model.vocab_size;
  const int64_t ranks = draft.config.grid.tensor_parallel;
  const auto all_have_rows = [&](int64_t v) {
    const int64_t shards = numerics.reproducible ? numerics.virtual_tensor_parallel : v;
    if (shards % v != 0) return false;
    return (vocabulary + shards - 1) / shards * (shards - shards / v) < vocabulary;
  };
  const bool is_other_fault =
      numerics.reproducible && numerics.virtual_tensor_parallel % ranks != 0;
  if (is_other_fault || all_have_rows(ranks)) return;
  draft.fault(
      "grid.tensor_parallel",
      fmt::format("{}{} leaves the last rank without a row of the vocabulary",
                  draft.equation("model.vocab_size"),
                  numerics.reproducible ? fmt::format(" in virtual_tensor_parallel = {} shards",
                                                      numerics.virtual_tensor_parallel)
                                        : ""),
      try_nearest(ranks, 1, kMost,
                  [&](int64_t v) { return fits_model(draft.config.model, v) && all_have_rows(v); }),
      {"model.vocab_size"});
}

void check_zero(Draft& draft) {
  if (!draft.are_sound({"grid.zero_shards", "grid.data_parallel", "grid.zero_stage"})) return;
  const GridConfig& g = draft.config.grid;
  if (g.data_parallel > 0 && g.zero_shards > 0 && g.data_parallel % g.zero_shards != 0)
    draft.fault("grid.zero_shards",
                fmt::format("{} is not a multiple of it", draft.equation("grid.data_parallel")),
                try_nearest(g.zero_shards, 1, g.data_parallel,
                            [&](int64_t v) { return g.data_parallel % v == 0; }),
                {"grid.data_parallel"});
}

// Stage 2 and 3 add over ranks first and over micro-batches then; the tree has the same order only
// where it is binary from its leaves on.
void check_reproducible_zero(Draft& draft) {
  if (!draft.are_sound({"numerics.reproducible", "grid.zero_stage", "grid.data_parallel",
                        "batch.global_batch_size", "batch.micro_batch_size"}))
    return;
  const Config& c = draft.config;
  if (!c.numerics.reproducible || c.grid.zero_stage < 2 || c.grid.data_parallel <= 1) return;
  const int64_t micro_batches = c.batch.global_batch_size / c.batch.micro_batch_size;
  if (c.batch.global_batch_size % c.batch.micro_batch_size != 0 || is_power_of_two(micro_batches))
    return;
  draft.fault("grid.zero_stage",
              fmt::format("numerics.reproducible = true with {} micro-batches a step, which is no "
                          "power of two: stage {} would add them in another order than one rank",
                          micro_batches, c.grid.zero_stage),
              "use 0 or 1, or a power of two for global_batch_size / micro_batch_size",
              {"numerics.reproducible", "batch.global_batch_size"});
}

void check_rank_order(Draft& draft) {
  if (!draft.are_sound({"grid.rank_order"})) return;
  std::istringstream words(draft.config.grid.rank_order);
  std::vector<std::string> axes;
  for (std::string word; std::getline(words, word, ',');) {
    word.erase(std::remove(word.begin(), word.end(), ' '), word.end());
    axes.push_back(word);
  }
  std::sort(axes.begin(), axes.end());
  if (axes == std::vector<std::string>{"cp", "dp", "pp", "tp"}) return;
  draft.fault("grid.rank_order", "must name pp, dp, cp and tp once each, slowest first",
              "the default is \"pp,dp,cp,tp\"");
}

}  // namespace

void check_parallel(Draft& draft) {
  if (draft.are_sound({"grid.tensor_parallel"}))
    check_kv_heads(draft, "grid.tensor_parallel", draft.config.grid.tensor_parallel);
  check_virtual_shards(draft);
  check_vocabulary(draft);
  check_zero(draft);
  check_reproducible_zero(draft);
  check_rank_order(draft);
}

}  // namespace espalier
