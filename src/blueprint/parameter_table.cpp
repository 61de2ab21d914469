// SPDX-License-Identifier: Apache-2.0
#include "blueprint/parameter_table.hpp"

#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "blueprint/model_widths.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

/// A run of a tensor's split dimension with its own rule: queries, keys and values of qkv, say.
struct Section {
  int64_t count = 0;  // global
  Range local;        // within the section
  int64_t cell = 0;   // of one shard
  bool counts = true;
};

class TableBuilder {
 public:
  TableBuilder(const Config& config, const ModelPlace& place)
      : config_(config), model_(config.model), place_(place), split_(place.split) {}

  ParameterTable build() {
    std::vector<StageRange> stages = place_.stages;
    if (stages.empty()) stages.push_back({0, model_.num_layers});
    const auto last = static_cast<int64_t>(stages.size()) - 1;
    for (int64_t stage = place_.pipeline_rank; stage <= last; stage += place_.pipeline_ranks) {
      chunk_ = stage / place_.pipeline_ranks;
      if (stage == 0) add_embedding();
      const StageRange range = stages[static_cast<size_t>(stage)];
      for (int64_t layer = range.first; layer < range.last; ++layer) add_layer(layer);
      if (stage == last) add_head();
    }
    return std::move(table_);
  }

 private:
  void add_embedding() {
    open("embedding", BlockKind::token);
    add("embedding.token.weight", {model_.vocab_size, model_.hidden_size}, Split::rows,
        {shards(model_.vocab_size)}, ParameterRole::embedding);
    close();
    if (model_.position != PositionKind::learned) return;
    open("embedding.position", BlockKind::position);
    add("embedding.position.weight", {config_.batch.seq_length, model_.hidden_size}, Split::none,
        {}, ParameterRole::embedding);
    close();
  }

  void add_head() {
    open("final_norm", BlockKind::final_norm);
    add_norm("final_norm", model_.hidden_size);
    close();
    const bool copy = has_tied_copy(config_);
    if (model_.tie_embeddings && !copy) return;
    open("output", BlockKind::output);
    ParameterSpec& p = add(copy ? "embedding.token.weight" : "output.weight",
                           {model_.vocab_size, model_.hidden_size}, Split::rows,
                           {shards(model_.vocab_size)}, ParameterRole::embedding);
    p.is_copy = copy;
    if (copy)
      for (ShardPiece& piece : p.pieces) piece.counts = false;
    close();
  }

  void add_layer(int64_t layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    const int64_t hidden = model_.hidden_size, inner = model_.intermediate_size;
    open(prefix, BlockKind::layer, layer);
    add_norm(prefix + ".attention.norm", hidden);
    const Section keys = key_heads();
    add_linear(prefix + ".attention.qkv", hidden, {shards(query_width(model_)), keys, keys}, 1.0);
    if (model_.qk_norm) {
      add_norm(prefix + ".attention.q_norm", model_.head_dim);
      add_norm(prefix + ".attention.k_norm", model_.head_dim);
    }
    // GPT-2's rule: the projections that write to the residual stream start smaller, by the
    // square root of their number (Radford et al. 2019, section 2.3).
    const double residual_scale =
        model_.init_scale_residual ? 1.0 / std::sqrt(2.0 * model_.num_layers) : 1.0;
    add_row_parallel(prefix + ".attention.output", query_width(model_), residual_scale);
    if (model_.residual == Residual::sequential) add_norm(prefix + ".mlp.norm", hidden);
    const bool gated = model_.activation == Activation::swiglu;
    std::vector<Section> up(gated ? 2 : 1, shards(inner));
    add_linear(prefix + (gated ? ".mlp.gate_up" : ".mlp.up"), hidden, up, 1.0);
    add_row_parallel(prefix + ".mlp.down", inner, residual_scale);
    close();
  }

  Section shards(int64_t count) const {
    return {count, split_.local(count), cut_evenly(count, split_.shards, 0).count, true};
  }

  Section key_heads() const {
    const KeyValueSplit split(model_.num_kv_heads, split_.shards);
    const int64_t dim = model_.head_dim;
    const Range heads = split.local(split_);
    Section s;
    s.count = model_.num_kv_heads * dim;
    s.local = {heads.first * dim, heads.count * dim};
    s.cell = split.per_shard * dim;
    s.counts = split_.first_shard() % split.sharers == 0 || split_.local_shards() >= split.sharers;
    return s;
  }

  void add_norm(const std::string& name, int64_t size) {
    add(name + ".weight", {size}, Split::none, {}, ParameterRole::norm);
    if (model_.norm == NormKind::layernorm && model_.norm_bias)
      add(name + ".bias", {size}, Split::none, {}, ParameterRole::norm).initializer =
          Initializer::zeros;
  }

  // Cut by rows: each rank computes some of the outputs.
  void add_linear(const std::string& name, int64_t in, const std::vector<Section>& sections,
                  double scale) {
    int64_t out = 0;
    for (const Section& s : sections) out += s.count;
    add(name + ".weight", {out, in}, Split::rows, sections, ParameterRole::weight).init_std =
        model_.init_std * scale;
    if (model_.bias) add(name + ".bias", {out}, Split::rows, sections, ParameterRole::bias);
  }

  // Cut by columns: each rank computes a part of every output's sum.
  void add_row_parallel(const std::string& name, int64_t in, double scale) {
    const int64_t hidden = model_.hidden_size;
    add(name + ".weight", {hidden, in}, Split::columns, {shards(in)}, ParameterRole::weight)
        .init_std = model_.init_std * scale;
    if (model_.bias) add(name + ".bias", {hidden}, Split::none, {}, ParameterRole::bias);
  }

  ParameterSpec& add(const std::string& name, std::vector<int64_t> shape, Split split,
                     const std::vector<Section>& sections, ParameterRole role) {
    ParameterSpec spec;
    spec.name = name;
    spec.shape = std::move(shape);
    spec.split = split;
    spec.role = role;
    add_pieces(spec, sections);
    choose_rules(spec);
    spec.offset = table_.flat_size;
    table_.flat_size +=
        (spec.size() + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
    table_.parameters.push_back(std::move(spec));
    return table_.parameters.back();
  }

  void add_pieces(ParameterSpec& spec, const std::vector<Section>& sections) const {
    if (spec.split == Split::none) {
      spec.pieces = {{0, spec.shape[0], 0, spec.shape.back(), split_.rank == 0}};
      return;
    }
    int64_t global = 0, local = 0;
    const bool row_cells = spec.split == Split::rows && spec.shape.size() == 2;
    for (const Section& s : sections) {
      spec.pieces.push_back({global + s.local.first, s.local.count, local,
                             row_cells ? spec.shape[1] : s.cell, s.counts});
      global += s.count;
      local += s.local.count;
    }
  }

  void choose_rules(ParameterSpec& spec) const {
    switch (spec.role) {
      case ParameterRole::weight:
        spec.initializer = Initializer::normal;
        spec.decay = true;
        break;
      case ParameterRole::embedding:
        spec.initializer = Initializer::normal;
        spec.init_std = model_.init_std;
        spec.decay = config_.optimizer.decay_embeddings;
        break;
      case ParameterRole::norm:
        spec.initializer = Initializer::ones;
        spec.decay = config_.optimizer.decay_norms;
        break;
      case ParameterRole::bias:
        spec.initializer = Initializer::zeros;
        spec.decay = config_.optimizer.decay_biases;
        break;
    }
  }

  void open(const std::string& name, BlockKind kind, int64_t layer = -1) {
    table_.blocks.push_back({name, kind, layer, chunk_, table_.flat_size, 0});
  }
  void close() { table_.blocks.back().size = table_.flat_size - table_.blocks.back().offset; }

  const Config& config_;
  const ModelConfig& model_;
  const ModelPlace& place_;
  const TensorSplit& split_;
  int64_t chunk_ = 0;
  ParameterTable table_;
};

int64_t product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t total(const std::vector<ShardPiece>& pieces) {
  int64_t sum = 0;
  for (const ShardPiece& p : pieces) sum += p.count;
  return sum;
}

}  // namespace

int64_t ParameterSpec::rows() const {
  if (shape.size() == 1) return 1;
  return split == Split::columns ? shape[0] : total(pieces);
}

int64_t ParameterSpec::columns() const {
  if (shape.size() == 1) return total(pieces);
  return split == Split::columns ? total(pieces) : shape[1];
}

int64_t ParameterSpec::global_size() const {
  return product(shape);
}

bool ParameterTable::contains(const std::string& name) const {
  for (const auto& p : parameters)
    if (p.name == name) return true;
  return false;
}

const ParameterSpec& ParameterTable::find(const std::string& name) const {
  for (const auto& p : parameters)
    if (p.name == name) return p;
  throw InternalError(fmt::format("there is no parameter {} in the table", name));
}

bool has_tied_copy(const Config& config) {
  return config.model.tie_embeddings &&
         (config.grid.pipeline_parallel > 1 || config.numerics.reproducible);
}

ParameterTable make_parameter_table(const Config& config) {
  Config whole = config;
  whole.grid.pipeline_parallel = 1;
  whole.numerics.reproducible = false;
  ParameterTable table = TableBuilder(whole, ModelPlace{}).build();
  for (ParameterSpec& p : table.parameters) {
    table.parameter_count += p.global_size();
    p.number = p.offset;
  }
  return table;
}

ParameterTable make_parameter_table(const Config& config, const ModelPlace& place) {
  ParameterTable table = TableBuilder(config, place).build();
  const ParameterTable whole = make_parameter_table(config);
  table.parameter_count = whole.parameter_count;
  std::map<std::string, int64_t> numbers;
  for (const ParameterSpec& p : whole.parameters) numbers[p.name] = p.number;
  for (ParameterSpec& p : table.parameters) p.number = numbers.at(p.name);
  return table;
}

}  // namespace espalier
