// SPDX-License-Identifier: Apache-2.0
#include "engine/parameter_store.hpp"

#include "core/random.hpp"
#include "tensor/rows.hpp"

namespace espalier {
namespace {

Slot find_slot(const ParameterTable& table, const std::string& name) {
  if (!table.contains(name)) return {};
  const ParameterSpec& p = table.find(name);
  const bool is_matrix = p.shape.size() == 2;
  return {p.offset, is_matrix ? p.shape[0] : 1, is_matrix ? p.shape[1] : p.shape[0]};
}

template <class Pair>
Pair find_pair(const ParameterTable& table, const std::string& name) {
  return {find_slot(table, name + ".weight"), find_slot(table, name + ".bias")};
}

template <class Real>
void fill_parameter(Real* values, const ParameterSpec& p, uint64_t seed) {
  const uint64_t purpose = hash_name(p.name);
  const double deviation = p.init_std;
  const Initializer kind = p.initializer;
  Kokkos::parallel_for(
      "initialise", Kokkos::RangePolicy<Exec, Kokkos::IndexType<int64_t>>(0, p.size()),
      KOKKOS_LAMBDA(const int64_t i) {
        double x = kind == Initializer::ones ? 1.0 : 0.0;
        if (kind == Initializer::normal)
          x = deviation * random_normal(seed, purpose, static_cast<uint64_t>(i));
        values[i] = static_cast<Real>(x);
      });
}

}  // namespace

ModelSlots make_slots(const Blueprint& blueprint) {
  const ParameterTable& table = blueprint.parameters;
  const ModelConfig& model = blueprint.config.model;
  ModelSlots slots;
  slots.token = find_slot(table, "embedding.token.weight");
  slots.position = find_slot(table, "embedding.position.weight");
  slots.output = model.tie_embeddings ? slots.token : find_slot(table, "output.weight");
  slots.final_norm = find_pair<NormSlots>(table, "final_norm");
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    const char* up = model.activation == Activation::swiglu ? ".mlp.gate_up" : ".mlp.up";
    LayerSlots l;
    l.attention_norm = find_pair<NormSlots>(table, prefix + ".attention.norm");
    l.q_norm = find_pair<NormSlots>(table, prefix + ".attention.q_norm");
    l.k_norm = find_pair<NormSlots>(table, prefix + ".attention.k_norm");
    l.mlp_norm = find_pair<NormSlots>(table, prefix + ".mlp.norm");
    l.qkv = find_pair<LinearSlots>(table, prefix + ".attention.qkv");
    l.output = find_pair<LinearSlots>(table, prefix + ".attention.output");
    l.up = find_pair<LinearSlots>(table, prefix + up);
    l.down = find_pair<LinearSlots>(table, prefix + ".mlp.down");
    slots.layers.push_back(l);
  }
  return slots;
}

template <class T>
ParameterStore<T>::ParameterStore(const ParameterTable& table)
    : table_(table), master_("parameters.master", table.flat_size) {
  if constexpr (!std::is_same_v<T, Acc<T>>) compute_ = Buffer<T>("parameters", table.flat_size);
}

template <class T>
void ParameterStore<T>::initialise(uint64_t seed) {
  for (const auto& p : table_.parameters) fill_parameter(master_.data() + p.offset, p, seed);
  Kokkos::fence();
  refresh_compute_copy();
}

template <class T>
void ParameterStore<T>::refresh_compute_copy() {
  if constexpr (!std::is_same_v<T, Acc<T>>) {
    const Acc<T>* from = master_.data();
    T* to = compute_.data();
    Kokkos::parallel_for(
        "parameters.round",
        Kokkos::RangePolicy<Exec, Kokkos::IndexType<int64_t>>(0, table_.flat_size),
        KOKKOS_LAMBDA(const int64_t i) { to[i] = T(from[i]); });
    Kokkos::fence();
  }
}

template <class T>
const T* ParameterStore<T>::values() const {
  if constexpr (std::is_same_v<T, Acc<T>>)
    return master_.data();
  else
    return compute_.data();
}

template <class T>
Vec<const T> ParameterStore<T>::vector(const Slot& s) const {
  return s.present() ? Vec<const T>(values() + s.offset, s.columns) : Vec<const T>(nullptr, 0);
}

template class ParameterStore<float>;
template class ParameterStore<double>;
template class ParameterStore<bf16>;
template class ParameterStore<fp16>;

}  // namespace espalier
