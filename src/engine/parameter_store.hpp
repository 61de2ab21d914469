// SPDX-License-Identifier: Apache-2.0
// The parameters of a stage in flat buffers, and the places of each layer's tensors in them.
#pragma once

#include <string>
#include <vector>

#include "blueprint/blueprint.hpp"
#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// Place of one tensor in the flat buffers; absent where offset < 0.
struct Slot {
  int64_t offset = -1, rows = 0, columns = 0;
  bool present() const { return offset >= 0; }
};
struct NormSlots {
  Slot weight, bias;
};
struct LinearSlots {
  Slot weight, bias;
};
struct LayerSlots {
  NormSlots attention_norm, q_norm, k_norm, mlp_norm;
  LinearSlots qkv, output, up, down;
};
struct ModelSlots {
  Slot token, position, output;  // output is the token table where the embeddings are tied
  std::vector<LayerSlots> layers;
  NormSlots final_norm;
};

ModelSlots make_slots(const Blueprint& blueprint);

/// Master weights (fp32, or fp64), the copy that is computed with (the same buffer where the types
/// are equal), and the table's initial values.
template <class T>
class ParameterStore {
 public:
  explicit ParameterStore(const ParameterTable& table);

  /// Every element from (seed, parameter name, global index): no layout can change it.
  void initialise(uint64_t seed);
  /// Copies the master weights, rounded, to the compute copy.
  void refresh_compute_copy();

  const ParameterTable& table() const { return table_; }
  Acc<T>* master() const { return master_.data(); }
  /// Null where T is the master type: then the master is computed with.
  T* separate_compute_copy() const { return compute_.data(); }
  const T* values() const;

  Mat<const T> matrix(const Slot& s) const {
    return Mat<const T>(values() + s.offset, s.rows, s.columns);
  }
  /// data() is null where the slot is absent.
  Vec<const T> vector(const Slot& s) const;

 private:
  ParameterTable table_;
  Buffer<Acc<T>> master_;
  Buffer<T> compute_;
};

/// Views of a flat gradient buffer.
template <class Real>
Mat<Real> gradient_matrix(Real* flat, const Slot& s) {
  return Mat<Real>(flat + s.offset, s.rows, s.columns);
}
template <class Real>
Vec<Real> gradient_vector(Real* flat, const Slot& s) {
  return s.present() ? Vec<Real>(flat + s.offset, s.columns) : Vec<Real>(nullptr, 0);
}

}  // namespace espalier
