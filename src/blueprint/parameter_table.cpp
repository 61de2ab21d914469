// SPDX-License-Identifier: Apache-2.0
#include "blueprint/parameter_table.hpp"

#include <cmath>
#include <functional>
#include <numeric>

#include "blueprint/model_widths.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

class TableBuilder {
 public:
  explicit TableBuilder(const Config& config) : config_(config), model_(config.model) {}

  ParameterTable build() {
    const int64_t hidden = model_.hidden_size;
    open("embedding");
    add("embedding.token.weight", {model_.vocab_size, hidden}, ParameterRole::embedding);
    if (model_.position == PositionKind::learned)
      add("embedding.position.weight", {config_.batch.seq_length, hidden},
          ParameterRole::embedding);
    close();
    for (int64_t layer = 0; layer < model_.num_layers; ++layer) add_layer(layer);
    open("head");
    add_norm("final_norm", hidden);
    if (!model_.tie_embeddings)
      add("output.weight", {model_.vocab_size, hidden}, ParameterRole::embedding);
    close();
    return std::move(table_);
  }

 private:
  void add_layer(int64_t layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    const int64_t hidden = model_.hidden_size;
    open(prefix);
    add_norm(prefix + ".attention.norm", hidden);
    add_linear(prefix + ".attention.qkv", qkv_width(model_), hidden, 1.0);
    if (model_.qk_norm) {
      add_norm(prefix + ".attention.q_norm", model_.head_dim);
      add_norm(prefix + ".attention.k_norm", model_.head_dim);
    }
    // GPT-2's rule: the projections that write to the residual stream start smaller, by the
    // square root of their number (Radford et al. 2019, section 2.3).
    const double residual_scale =
        model_.init_scale_residual ? 1.0 / std::sqrt(2.0 * model_.num_layers) : 1.0;
    add_linear(prefix + ".attention.output", hidden, query_width(model_), residual_scale);
    if (model_.residual == Residual::sequential) add_norm(prefix + ".mlp.norm", hidden);
    const char* up = model_.activation == Activation::swiglu ? ".mlp.gate_up" : ".mlp.up";
    add_linear(prefix + up, up_width(model_), hidden, 1.0);
    add_linear(prefix + ".mlp.down", hidden, model_.intermediate_size, residual_scale);
    close();
  }

  void add_norm(const std::string& name, int64_t size) {
    add(name + ".weight", {size}, ParameterRole::norm);
    if (model_.norm == NormKind::layernorm && model_.norm_bias)
      add(name + ".bias", {size}, ParameterRole::norm).initializer = Initializer::zeros;
  }

  void add_linear(const std::string& name, int64_t out, int64_t in, double scale) {
    add(name + ".weight", {out, in}, ParameterRole::weight).init_std = model_.init_std * scale;
    if (model_.bias) add(name + ".bias", {out}, ParameterRole::bias);
  }

  ParameterSpec& add(const std::string& name, std::vector<int64_t> shape, ParameterRole role) {
    ParameterSpec spec;
    spec.name = name;
    spec.shape = std::move(shape);
    spec.role = role;
    switch (role) {
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
    spec.offset = table_.flat_size;
    table_.parameter_count += spec.size();
    table_.flat_size +=
        (spec.size() + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
    table_.parameters.push_back(std::move(spec));
    return table_.parameters.back();
  }

  void open(const std::string& name) { table_.blocks.push_back({name, table_.flat_size, 0}); }
  void close() { table_.blocks.back().size = table_.flat_size - table_.blocks.back().offset; }

  const Config& config_;
  const ModelConfig& model_;
  ParameterTable table_;
};

}  // namespace

int64_t ParameterSpec::size() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
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

ParameterTable make_parameter_table(const Config& config) {
  return TableBuilder(config).build();
}

}  // namespace espalier
