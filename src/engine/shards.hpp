// SPDX-License-Identifier: Apache-2.0
// Products by virtual shards: which runs of a matrix's rows or columns belong to which shard, and
// the sums over shards.
#pragma once

#include <vector>

#include "blueprint/blueprint.hpp"
#include "layers/linear.hpp"
#include "parallel/tensor_parallel.hpp"
#include "tensor/arena.hpp"
#include "tensor/sums.hpp"
#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// Runs of a matrix's cut dimension, local numbers.
struct ShardRuns : std::vector<Range> {
  int64_t granule = 0;  // as gemm() has it; 0 in the fast mode
};

/// The runs of a matrix by local shard. A product is formed for each run on its own, so that its
/// shape does not depend on how many shards a rank holds.
struct ShardUnits {
  std::vector<ShardRuns> compute;
  /// Of these, the runs whose share of the input's gradient counts here: a key head that several
  /// shards repeat counts with the first.
  std::vector<ShardRuns> input;
};

/// The units of every linear layer of a rank. In the fast mode a rank has one shard, and its runs
/// are one.
struct LayerUnits {
  ShardUnits qkv, output, up, down, vocabulary;
};
LayerUnits make_units(const Blueprint& blueprint);

/// y[:, run] = x W[run]^T for all runs: column-parallel. Shapes  y [tokens, local]; x [tokens, in];
/// w [local, in]
template <class T>
void column_forward(const Mat<T>& y, const Mat<const T>& x, const Mat<const T>& w,
                    const ShardUnits& units);
/// out (+)= sum over the shard's runs of dy[:, run] W[run]; `write` says what the first one does.
template <class T, class C>
void column_backward_input(C* out, const Mat<const T>& dy, const Mat<const T>& w,
                           const ShardRuns& runs, Write write);
/// dw[run] (+)= dy[:, run]^T x.
template <class T>
void column_backward_weight(const Mat<Acc<T>>& dw, const Mat<const T>& dy, const Mat<const T>& x,
                            const ShardUnits& units, Write write = Write::add);

/// out (+)= sum over the shard's runs of x[:, run] W[:, run]^T: row-parallel. Shapes  out [tokens,
/// out]; x [tokens, local]; w [out, local]
template <class T, class C>
void row_forward(C* out, const Mat<const T>& x, const Mat<const T>& w, const ShardRuns& runs,
                 Write write);
/// dx[:, run] = dy W[:, run].
template <class T>
void row_backward_input(const Mat<T>& dx, const Mat<const T>& dy, const Mat<const T>& w,
                        const ShardUnits& units);
/// dw[:, run] (+)= dy^T x[:, run].
template <class T>
void row_backward_weight(const Mat<Acc<T>>& dw, const Mat<const T>& dy, const Mat<const T>& x,
                         const ShardUnits& units, Write write = Write::add);

/// Sums over all shards, in a binary tree that begins on a rank and ends across ranks.
///
/// fast mode      a rank's shard goes where the sum goes, or travels in the compute type
/// reproducible   shards are added in the sum type, and the sum is rounded once
template <class T>
class ShardSum {
 public:
  using Real = Acc<T>;
  ShardSum(TensorParallel<T>& ranks, const TensorSet& work, const Blueprint& blueprint);

  /// out = sum over shards of what add(shard, rows' first element) writes; out as of
  /// TensorParallel::reduce, `tokens` rows.
  template <class F>
  void run(T* out, int64_t tokens, const F& add) {
    local(out, 0, tokens, add);
    finish(out, tokens);
  }
  /// The same in portions of rows: local() for each, then finish() once.
  template <class F>
  void local(T* out, int64_t first_row, int64_t rows, const F& add) {
    const int64_t at = first_row * width_;
    if (split_.shards == 1)
      add(int64_t{0}, out + at);
    else if (exact_)
      tree(exact_ + at, exact_ + level_, rows * width_, add);
    else
      add(int64_t{0}, plain_ + at);
  }
  void finish(T* out, int64_t tokens);

 private:
  // Sums of 2^k shards wait in level k until their neighbour is done.
  template <class F>
  void tree(Real* first, Real* levels, int64_t size, const F& add) {
    int64_t depth = 0;
    const auto level = [&](int64_t d) { return d == 0 ? first : levels + (d - 1) * level_; };
    for (int64_t shard = 0; shard < split_.local_shards(); ++shard) {
      add(shard, level(depth++));
      for (int64_t done = shard + 1; done % 2 == 0; done /= 2, --depth)
        add_to(level(depth - 2), level(depth - 1), size);
    }
  }

  TensorParallel<T>& ranks_;
  TensorSplit split_;
  int64_t width_ = 0, level_ = 0;  // elements of a row, of one level
  Real* exact_ = nullptr;
  T* plain_ = nullptr;
  std::byte* received_ = nullptr;
};

}  // namespace espalier
