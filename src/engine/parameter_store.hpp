// SPDX-License-Identifier: Apache-2.0
// The parameters of a stage in flat buffers, and the places of each layer's tensors in them.
#pragma once

#include <string>
#include <vector>

#include "blueprint/blueprint.hpp"
#include "blueprint/partition.hpp"
#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// Place of one local tensor in its block; absent where block < 0.
struct Slot {
  int64_t block = -1;  // in table.blocks
  int64_t offset = 0;  // elements from the block's first
  int64_t rows = 0, columns = 0;
  bool present() const { return block >= 0; }
};
struct NormSlots {
  Slot weight, bias;
};
struct LinearSlots {
  Slot weight, bias;
};
struct LayerSlots {
  int64_t block = -1;
  NormSlots attention_norm, q_norm, k_norm, mlp_norm;
  LinearSlots qkv, output, up, down;
};
struct ModelSlots {
  Slot token, position, output;    // output is the token table where it is tied without a copy
  std::vector<LayerSlots> layers;  // by layer of the whole model; absent those of other ranks
  NormSlots final_norm;
};

ModelSlots make_slots(const ParameterTable& table, const ModelConfig& model);

/// By block of the table, what of it is no matrix: vectors and padding. Offsets from the block's
/// first element; neighbours are one range.
std::vector<std::vector<FlatRange>> ranges_beside_matrices(const ParameterTable& table);

/// Views of one block's values or gradients, wherever the block lies.
template <class T>
struct BlockView {
  T* data = nullptr;
  Mat<T> matrix(const Slot& s) const { return Mat<T>(data + s.offset, s.rows, s.columns); }
  /// data() is null where the slot is absent.
  Vec<T> vector(const Slot& s) const {
    return s.present() ? Vec<T>(data + s.offset, s.columns) : Vec<T>(nullptr, 0);
  }
};

/// Writes initial values of elements [first, first + count) of the rank's tensor `p`: every element
/// from (seed, parameter name, global index), so that no layout can change it.
template <class Real>
void initialise_parameter(Real* values, const ParameterSpec& p, int64_t first, int64_t count,
                          uint64_t seed);

/// What a rank keeps of the parameters of its part of the model.
///
///   ZeRO  master (fp32, or fp64)         compute copy, where its type is another
///   0     all                            all
///   1, 2  own shard; all where it is     all
///         what is computed with
///   3     own shard                      own shard
///
/// Where the master's type is T it is what is computed with, and there is no copy: always where T
/// is fp32 or fp64, by choice where it is bf16.
template <class T>
class ParameterStore {
 public:
  /// Everything resident, as with ZeRO 0.
  explicit ParameterStore(const ParameterTable& table);
  ParameterStore(const ParameterTable& table, const std::vector<OwnedRange>& owned,
                 int64_t zero_stage, ElementType master_type = ElementTraits<Acc<T>>::kType);

  /// With a bf16 master rounded to nearest, as the copy of an fp32 one is.
  void initialise(uint64_t seed);
  /// Rounds the master weights to the compute copy; own ranges only where the master is sharded.
  void refresh_compute_copy();

  const ParameterTable& table() const { return table_; }
  const std::vector<OwnedRange>& owned() const { return owned_; }
  Indexing master_indexing() const { return master_indexing_; }
  Indexing compute_indexing() const { return compute_indexing_; }
  /// Null where values() are the master in bf16.
  Acc<T>* master() const { return master_.data(); }
  /// Null where T is the master type: then the master is computed with.
  T* separate_compute_copy() const { return is_single_ ? nullptr : compute_.data(); }
  /// Whether values() are the master.
  bool is_single() const { return is_single_; }
  /// What is computed with, by compute_indexing().
  T* values() const;
  /// Of a resident block. Internal error where the compute copy is sharded.
  BlockView<const T> block(int64_t index) const;

  Mat<const T> matrix(const Slot& s) const { return block(s.block).matrix(s); }
  Vec<const T> vector(const Slot& s) const {
    return s.present() ? block(s.block).vector(s) : Vec<const T>(nullptr, 0);
  }

 private:
  ParameterTable table_;
  std::vector<OwnedRange> owned_;
  bool is_single_ = false;
  Indexing master_indexing_ = Indexing::flat, compute_indexing_ = Indexing::flat;
  Buffer<Acc<T>> master_;
  Buffer<T> compute_;
};

}  // namespace espalier
