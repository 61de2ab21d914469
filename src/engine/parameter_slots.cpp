// SPDX-License-Identifier: Apache-2.0
// Where each layer's tensors stand in the blocks of a rank.
#include "engine/parameter_store.hpp"

namespace espalier {
namespace {

class Finder {
 public:
  explicit Finder(const ParameterTable& table) : table_(table) {}

  int64_t block(BlockKind kind, int64_t layer = -1) const {
    for (size_t i = 0; i < table_.blocks.size(); ++i)
      if (table_.blocks[i].kind == kind && table_.blocks[i].layer == layer)
        return static_cast<int64_t>(i);
    return -1;
  }

  Slot slot(int64_t block, const std::string& name) const {
    if (block < 0) return {};
    const BlockSpan& span = table_.blocks[static_cast<size_t>(block)];
    for (const ParameterSpec& p : table_.parameters)
      if (p.name == name && p.offset >= span.offset && p.offset < span.offset + span.size)
        return {block, p.offset - span.offset, p.rows(), p.columns()};
    return {};
  }

  template <class Pair>
  Pair pair(int64_t block, const std::string& name) const {
    return {slot(block, name + ".weight"), slot(block, name + ".bias")};
  }

 private:
  const ParameterTable& table_;
};

LayerSlots layer_slots(const Finder& find, const ModelConfig& model, int64_t layer) {
  LayerSlots l;
  l.block = find.block(BlockKind::layer, layer);
  if (l.block < 0) return l;
  const std::string prefix = "layers." + std::to_string(layer);
  const char* up = model.activation == Activation::swiglu ? ".mlp.gate_up" : ".mlp.up";
  l.attention_norm = find.pair<NormSlots>(l.block, prefix + ".attention.norm");
  l.q_norm = find.pair<NormSlots>(l.block, prefix + ".attention.q_norm");
  l.k_norm = find.pair<NormSlots>(l.block, prefix + ".attention.k_norm");
  l.mlp_norm = find.pair<NormSlots>(l.block, prefix + ".mlp.norm");
  l.qkv = find.pair<LinearSlots>(l.block, prefix + ".attention.qkv");
  l.output = find.pair<LinearSlots>(l.block, prefix + ".attention.output");
  l.up = find.pair<LinearSlots>(l.block, prefix + up);
  l.down = find.pair<LinearSlots>(l.block, prefix + ".mlp.down");
  return l;
}

}  // namespace

ModelSlots make_slots(const ParameterTable& table, const ModelConfig& model) {
  const Finder find(table);
  ModelSlots slots;
  slots.token = find.slot(find.block(BlockKind::token), "embedding.token.weight");
  slots.position = find.slot(find.block(BlockKind::position), "embedding.position.weight");
  const int64_t output = find.block(BlockKind::output);
  if (output >= 0)
    slots.output =
        find.slot(output, model.tie_embeddings ? "embedding.token.weight" : "output.weight");
  else if (model.tie_embeddings)
    slots.output = slots.token;
  slots.final_norm = find.pair<NormSlots>(find.block(BlockKind::final_norm), "final_norm");
  for (int64_t layer = 0; layer < model.num_layers; ++layer)
    slots.layers.push_back(layer_slots(find, model, layer));
  return slots;
}

std::vector<std::vector<FlatRange>> ranges_beside_matrices(const ParameterTable& table) {
  std::vector<std::vector<FlatRange>> ranges;
  for (const BlockSpan& span : table.blocks) {
    ranges.emplace_back();
    int64_t at = span.offset;
    const auto add_until = [&](int64_t last) {
      if (last > at) ranges.back().push_back({at - span.offset, last - at});
    };
    for (const ParameterSpec& p : table.parameters) {
      if (p.shape.size() < 2 || p.offset < at || p.offset >= span.offset + span.size) continue;
      add_until(p.offset);
      at = p.offset + p.size();
    }
    add_until(span.offset + span.size);
  }
  return ranges;
}

}  // namespace espalier
