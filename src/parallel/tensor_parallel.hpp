// SPDX-License-Identifier: Apache-2.0
// Communication along the tensor-parallel axis as operators on activations. Backward is the
// transpose of forward: what is summed over ranks one way is gathered, or simply used, the other.
#pragma once

#include <cstdint>

#include "blueprint/tensor_split.hpp"
#include "device/buffer.hpp"
#include "grid/comm.hpp"
#include "tensor/types.hpp"

namespace espalier {

/// The operators of one rank. All of them are the identity, or a copy, on one rank.
///
/// Order       sums over ranks run in the binary tree of TreeSum, the lower ranks on the left, in
///             the sum type: together with the tree over a rank's shards it is one tree over all
///             shards, whatever the number of ranks
/// Collective  over the axis, in the same order on all its ranks
/// Memory      of the device in a build for one; all of it happens on the current stream
template <class T>
class TensorParallel {
 public:
  using Real = Acc<T>;
  /// `tp` null: one rank.
  TensorParallel(const Comm* tp, const TensorSplit& split) : tp_(tp), split_(split) {}

  int64_t ranks() const { return split_.ranks; }
  const TensorSplit& split() const { return split_; }

  /// Sum over ranks of partial [tokens, width]. Without sequence parallelism `out` is [tokens,
  /// width], the sum of all tokens on every rank; with it only this rank's tokens.
  /// `received`: room for (ranks - 1) * own tokens * width elements.
  template <class C>
  void reduce(const C* partial, T* out, int64_t tokens, int64_t width, C* received);

  /// All tokens' rows [tokens, width] from those of each rank [own tokens, width].
  void gather(const T* own, T* all, int64_t tokens, int64_t width);

  /// data [count] becomes its sum over ranks, on every rank.
  void sum(Real* data, int64_t count);

  /// all [shards, count]: this rank's shards are in place, the others' arrive. Between the ranks
  /// that share the runs of `sharers` neighbouring shards only; entry i belongs to shard
  /// (first of the run) + i.
  template <class E>
  void share(E* all, int64_t count, int64_t sharers);

 private:
  TensorSplit at(int64_t rank) const {
    TensorSplit s = split_;
    s.rank = rank;
    return s;
  }

  const Comm* tp_;
  TensorSplit split_;
  Buffer<Real> small_;
};

}  // namespace espalier
