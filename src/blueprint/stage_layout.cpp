// SPDX-License-Identifier: Apache-2.0
#include "blueprint/stage_layout.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "blueprint/model_widths.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::vector<StageRange> from_counts(const std::vector<int64_t>& counts) {
  std::vector<StageRange> ranges;
  int64_t first = 0;
  for (const int64_t count : counts) {
    ranges.push_back({first, first + count});
    first += count;
  }
  return ranges;
}

// The longer ones first: the last stage has the head already.
std::vector<int64_t> even_counts(int64_t layers, int64_t stages) {
  std::vector<int64_t> counts;
  for (int64_t g = 0; g < stages; ++g)
    counts.push_back(layers / stages + (g < layers % stages ? 1 : 0));
  return counts;
}

double extra_of(const ModelCosts& costs, int64_t stage, int64_t stages) {
  return (stage == 0 ? costs.embedding : 0) + (stage == stages - 1 ? costs.head : 0);
}

/// Cuts the layers in contiguous stages, one a rank.
class LayerCut {
 public:
  LayerCut(const ModelCosts& costs, int64_t stages)
      : costs_(costs), stages_(stages), layers_(static_cast<int64_t>(costs.layers.size())) {
    sums_.push_back(0);
    for (const double cost : costs.layers) sums_.push_back(sums_.back() + cost);
  }

  std::vector<int64_t> counts() {
    const double least =
        solve([](double before, double cost) { return std::max(before, cost); }, kInfinite);
    // The sums of the two passes are the same numbers, so a hair is enough.
    const double limit = least * (1 + 1e-12);
    solve([](double before, double cost) { return before + cost * cost; }, limit);
    std::vector<int64_t> counts;
    for (int64_t g = stages_, end = layers_; g > 0; --g) {
      const int64_t first = from_[cell(g, end)];
      counts.push_back(end - first);
      end = first;
    }
    std::reverse(counts.begin(), counts.end());
    return counts;
  }

 private:
  size_t cell(int64_t stages, int64_t layers) const {
    return static_cast<size_t>(stages * (layers_ + 1) + layers);
  }

  // best[g, n]: the first n layers on the first g stages, no stage above `limit`.
  template <class Add>
  double solve(Add add, double limit) {
    std::vector<double> best(cell(stages_, layers_) + 1, kInfinite);
    from_.assign(best.size(), 0);
    best[cell(0, 0)] = 0;
    for (int64_t g = 1; g <= stages_; ++g)
      for (int64_t n = g; n <= layers_ - (stages_ - g); ++n)
        for (int64_t first = g - 1; first < n; ++first) {
          const double cost = sums_[static_cast<size_t>(n)] - sums_[static_cast<size_t>(first)] +
                              extra_of(costs_, g - 1, stages_);
          const double before = best[cell(g - 1, first)];
          if (cost > limit || before == kInfinite) continue;
          const double total = add(before, cost);
          if (total < best[cell(g, n)]) {
            best[cell(g, n)] = total;
            from_[cell(g, n)] = first;
          }
        }
    return best[cell(stages_, layers_)];
  }

  const ModelCosts& costs_;
  int64_t stages_, layers_;
  std::vector<double> sums_;   // of the first n layers
  std::vector<int64_t> from_;  // where the last stage of a cell begins
};

/// How good a layout is: less is better, first the slowest rank, then the spread.
struct Score {
  double slowest = 0, spread = 0;
  bool is_better_than(const Score& other) const {
    const double hair = 1e-12 * other.slowest;
    if (std::abs(slowest - other.slowest) > hair) return slowest < other.slowest;
    return spread < other.spread * (1 - 1e-12);
  }
};

Score score(const ModelCosts& costs, const std::vector<int64_t>& counts, int64_t ranks) {
  const std::vector<StageRange> ranges = from_counts(counts);
  Score s;
  for (const double cost : rank_costs(costs, ranges, ranks)) {
    s.slowest = std::max(s.slowest, cost);
    s.spread += cost * cost;
  }
  // A pipeline runs at the pace of its slowest stage, so the stages that work at the same time, one
  // a rank, should be alike as well; and then all of them. That only decides between equals.
  const std::vector<double> by_stage = stage_costs(costs, ranges);
  const auto width = static_cast<std::ptrdiff_t>(ranks);
  for (auto chunk = by_stage.begin(); chunk != by_stage.end(); chunk += width) {
    const double mean = std::accumulate(chunk, chunk + width, 0.0) / static_cast<double>(ranks);
    for (auto cost = chunk; cost != chunk + width; ++cost)
      s.spread += 1e-6 * (*cost - mean) * (*cost - mean) + 1e-9 * *cost * *cost;
  }
  return s;
}

// Moves single layers from stage to stage as long as that helps. For equal layers this finds the
// best there is: the costs of the ranks are then convex and separable in the counts.
std::vector<int64_t> descend(const ModelCosts& costs, std::vector<int64_t> counts, int64_t ranks) {
  Score best = score(costs, counts, ranks);
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    std::vector<int64_t> next = counts;
    for (size_t from = 0; from < counts.size(); ++from)
      for (size_t to = 0; to < counts.size(); ++to) {
        if (from == to || counts[from] == 1) continue;
        std::vector<int64_t> tried = counts;
        --tried[from];
        ++tried[to];
        const Score found = score(costs, tried, ranks);
        if (!found.is_better_than(best)) continue;
        best = found;
        next = std::move(tried);
        has_moved = true;
      }
    counts = std::move(next);
  }
  return counts;
}

double recomputed_flops(const Config& config, double layer, double attention) {
  const auto interval = static_cast<double>(std::max<int64_t>(1, config.grid.recompute_interval));
  switch (config.grid.recompute) {
    case Recompute::none: return 0;
    case Recompute::selective: return attention / interval;
    case Recompute::full: return layer / interval;
  }
  return 0;
}

bool is_layout_of(const MeasuredStages& measured, int64_t layers) {
  if (measured.seconds.empty() || measured.seconds.size() != measured.ranges.size()) return false;
  int64_t first = 0;
  for (const StageRange& range : measured.ranges) {
    if (range.first != first || range.last <= range.first) return false;
    first = range.last;
  }
  return first == layers && std::all_of(measured.seconds.begin(), measured.seconds.end(),
                                        [](double s) { return std::isfinite(s) && s > 0; });
}

}  // namespace

ModelCosts model_costs(const Config& config) {
  const ModelConfig& m = config.model;
  const auto hidden = static_cast<double>(m.hidden_size), vocab = static_cast<double>(m.vocab_size);
  const auto query = static_cast<double>(query_width(m));
  const double weights = static_cast<double>(qkv_width(m) + up_width(m)) * hidden +
                         (query + static_cast<double>(m.intermediate_size)) * hidden;
  const double attention = 2 * query * static_cast<double>(config.batch.seq_length + 1);
  const double layer = 2 * weights + attention;
  ModelCosts costs;
  costs.layers.assign(static_cast<size_t>(m.num_layers),
                      3 * layer + recomputed_flops(config, layer, attention));
  // The lookup reads and writes a row in both directions; norm and loss do a few flops an element.
  costs.embedding = 4 * hidden;
  costs.head = 6 * vocab * hidden + 6 * (hidden + vocab);
  return costs;
}

ModelCosts measured_costs(const Config& config, const MeasuredStages& measured) {
  if (!is_layout_of(measured, config.model.num_layers))
    throw DataError(fmt::format(
        "the measured times of {} stages are not those of a model with {} layers; name a run of "
        "this model by grid.stage_times",
        measured.seconds.size(), config.model.num_layers));
  const ModelCosts flops = model_costs(config);
  const std::vector<double> stage_flops = stage_costs(flops, measured.ranges);
  const size_t last = measured.ranges.size() - 1;
  const auto layers_of = [&](size_t g) {
    return static_cast<double>(measured.ranges[g].last - measured.ranges[g].first);
  };
  ModelCosts costs;
  double pace = 0;  // seconds of a layer, mean over the stages but the last
  for (size_t g = 0; g <= last; ++g) {
    double seconds = measured.seconds[g];
    if (g == last) {
      const double head_by_flops = seconds * flops.head / stage_flops[g];
      const double head = last == 0 ? head_by_flops : seconds - layers_of(g) * pace;
      costs.head = std::clamp(head, 0.0, seconds);
    }
    if (g == 0) costs.embedding = seconds * flops.embedding / stage_flops[0];
    seconds -= (g == 0 ? costs.embedding : 0) + (g == last ? costs.head : 0);
    const double each = seconds / layers_of(g);
    pace += each / static_cast<double>(std::max<size_t>(1, last));
    costs.layers.insert(costs.layers.end(), static_cast<size_t>(layers_of(g)), each);
  }
  return costs;
}

std::vector<StageRange> stage_ranges(const Config& config, const std::vector<double>& layer_seconds,
                                     double embedding_seconds, double head_seconds) {
  const GridConfig& grid = config.grid;
  const int64_t chunks = std::max<int64_t>(1, grid.virtual_stages);
  const int64_t stages = grid.pipeline_parallel * chunks, layers = config.model.num_layers;
  if (stages == 1) return {{0, layers}};
  ESPALIER_REQUIRE(stages <= layers, "{} stages for {} layers", stages, layers);
  if (!grid.stage_blocks.empty()) {
    const int64_t sum =
        std::accumulate(grid.stage_blocks.begin(), grid.stage_blocks.end(), int64_t{0});
    ESPALIER_REQUIRE(static_cast<int64_t>(grid.stage_blocks.size()) == stages && sum == layers,
                     "stage_blocks with {} entries and the sum {} for {} stages and {} layers",
                     grid.stage_blocks.size(), sum, stages, layers);
    return from_counts(grid.stage_blocks);
  }
  switch (grid.stage_balance) {
    case StageBalance::even: return from_counts(even_counts(layers, stages));
    case StageBalance::cost:
      return balanced_ranges(model_costs(config), grid.pipeline_parallel, chunks);
    case StageBalance::measured:
      ESPALIER_REQUIRE(static_cast<int64_t>(layer_seconds.size()) == layers,
                       "seconds of {} layers for a model of {}", layer_seconds.size(), layers);
      return balanced_ranges({layer_seconds, embedding_seconds, head_seconds},
                             grid.pipeline_parallel, chunks);
  }
  throw InternalError("there is no such stage_balance");
}

std::vector<StageRange> balanced_ranges(const ModelCosts& costs, int64_t ranks, int64_t chunks) {
  const int64_t stages = ranks * chunks, layers = static_cast<int64_t>(costs.layers.size());
  ESPALIER_REQUIRE(ranks >= 1 && chunks >= 1 && stages <= layers, "{} stages for {} layers", stages,
                   layers);
  if (chunks == 1) return from_counts(LayerCut(costs, stages).counts());
  // Two starts: evenly, and as if each stage were a rank.
  const std::vector<int64_t> even = descend(costs, even_counts(layers, stages), ranks);
  const std::vector<int64_t> cut = descend(costs, LayerCut(costs, stages).counts(), ranks);
  const bool is_cut_better = score(costs, cut, ranks).is_better_than(score(costs, even, ranks));
  return from_counts(is_cut_better ? cut : even);
}

std::vector<double> stage_costs(const ModelCosts& costs, const std::vector<StageRange>& ranges) {
  std::vector<double> sums;
  const auto stages = static_cast<int64_t>(ranges.size());
  for (int64_t g = 0; g < stages; ++g) {
    const StageRange& range = ranges[static_cast<size_t>(g)];
    sums.push_back(std::accumulate(costs.layers.begin() + range.first,
                                   costs.layers.begin() + range.last, extra_of(costs, g, stages)));
  }
  return sums;
}

std::vector<double> rank_costs(const ModelCosts& costs, const std::vector<StageRange>& ranges,
                               int64_t ranks) {
  std::vector<double> sums(static_cast<size_t>(ranks), 0.0);
  const std::vector<double> by_stage = stage_costs(costs, ranges);
  for (size_t g = 0; g < by_stage.size(); ++g) sums[g % static_cast<size_t>(ranks)] += by_stage[g];
  return sums;
}

}  // namespace espalier
