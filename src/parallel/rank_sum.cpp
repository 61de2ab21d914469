// SPDX-License-Identifier: Apache-2.0
#include "parallel/rank_sum.hpp"

#include <vector>

#include "cuda/reduction.hpp"
#include "parallel/tree_sum.hpp"
#include "tensor/launch.hpp"
#include "tensor/streamed_tree.hpp"

namespace espalier {
namespace {

template <class Wire, class Out>
void sum_on_host(const RankPieces<Wire>& pieces, Out* out, int64_t size) {
  static thread_local TreeSum<Acc<Wire>, Wire> tree;  // keeps its partial sums
  std::vector<const Wire*> leaves;
  for (int r = 0; r < pieces.ranks; ++r) leaves.push_back(pieces.at(r));
  tree(leaves, out, size);
}

}  // namespace

template <class Wire, class Out>
void sum_on_device(const RankPieces<Wire>& pieces, Out* out, int64_t size) {
  for_each(
      "ranks.sum", size, KOKKOS_LAMBDA(const int64_t i) {
        StreamedTree<Acc<Wire>> tree;
        for (int r = 0; r < pieces.ranks; ++r) tree.add(static_cast<Acc<Wire>>(pieces.at(r)[i]));
        out[i] = static_cast<Out>(tree.sum());
      });
}

template <class Wire, class Out>
void sum_over_ranks(const RankPieces<Wire>& pieces, Out* out, int64_t size) {
  if (size <= 0) return;
  if constexpr (!device::kPresent) {
    sum_on_host(pieces, out, size);
  } else if (device::uses_tuned_kernels() && pieces.ranks <= cuda::kMostLeaves) {
    cuda::Leaves<Wire> leaves;
    leaves.count = pieces.ranks;
    for (int r = 0; r < pieces.ranks; ++r) leaves.at[r] = pieces.at(r);
    cuda::tree_sum(leaves, out, size, device::Stream::current().handle());
  } else {
    sum_on_device(pieces, out, size);
  }
}

#define ESPALIER_INSTANTIATE_SUM(Wire, Out) \
  template void sum_over_ranks<Wire, Out>(const RankPieces<Wire>&, Out*, int64_t);
ESPALIER_INSTANTIATE_SUM(float, float)
ESPALIER_INSTANTIATE_SUM(bf16, float)
ESPALIER_INSTANTIATE_SUM(bf16, bf16)
ESPALIER_INSTANTIATE_SUM(fp16, fp16)
ESPALIER_INSTANTIATE_SUM(float, bf16)
ESPALIER_INSTANTIATE_SUM(float, fp16)
ESPALIER_INSTANTIATE_SUM(double, double)

}  // namespace espalier
