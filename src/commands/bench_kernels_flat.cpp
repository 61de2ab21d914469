// SPDX-License-Identifier: Apache-2.0
// What runs over flat buffers, by espalier bench kernels: the optimizer, the gradient norm, and the
// sums of the communication.
#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "commands/bench_kernels.hpp"
#include "cuda/optimizer.hpp"
#include "optim/adamw.hpp"
#include "optim/gradient_norm.hpp"
#include "parallel/rank_sum.hpp"
#include "tensor/sums.hpp"
#include "tensor/tuned.hpp"

namespace espalier {
namespace {

constexpr const char* kGroup = "flat";
constexpr int64_t kRow = 1024;

// One tensor of `elements`, owned whole.
std::vector<OptimizerSegment> one_segment(int64_t elements) {
  OptimizerSegment s;
  s.size = elements;
  s.cell = s.row = s.row_step = kRow;
  return {s};
}
std::vector<OwnedRange> one_owner(int64_t elements) {
  return {{0, elements, 0}};
}

template <class T>
void optimizers(KernelTable& table) {
  const int64_t n = table.sizes().elements;
  const auto elements = static_cast<double>(n);
  const Buffer<Acc<T>> gradient = normal_numbers<Acc<T>>("bench.gradient", n, 1e-3),
                       master = normal_numbers<Acc<T>>("bench.master", n, 0.02);
  const Buffer<T> weights = normal_numbers<T>("bench.weights", n, 0.02);
  const double value = sizeof(Acc<T>), copy = sizeof(T);
  {
    AdamW<T> adamw(one_segment(n), one_owner(n), {}, {});
    table.measure(kGroup, fmt::format("adamw with fp32 masters, {} elements", n), RateKind::bytes,
                  elements * (7 * value + copy), 1, [&](int64_t) {
                    adamw.update(master.data(), gradient.data(), weights.data(), 1e-4, 1.0);
                  });
  }
  if constexpr (std::is_same_v<T, bf16>) {
    AdamW<T> adamw(one_segment(n), one_owner(n), {}, {}, MasterWeights::rounded);
    table.measure(kGroup, fmt::format("adamw rounded stochastically, {} elements", n),
                  RateKind::bytes, elements * (5 * value + 2 * copy), 1, [&](int64_t) {
                    adamw.update_rounded(weights.data(), gradient.data(), 1e-4, 1.0, 1);
                  });
  } else {
    table.absent(kGroup, "adamw rounded stochastically", "for bf16 alone");
  }
}

// The kernel by itself, and all of it: cells added exactly, and the host waits for their sum.
void gradient_norms(KernelTable& table) {
  const int64_t n = table.sizes().elements;
  const Buffer<float> gradient = normal_numbers<float>("bench.gradient", n, 1e-3);
  const auto bytes = static_cast<double>(gradient.bytes());
  if constexpr (device::kPresent) {
    std::vector<NormChunk> chunks;
    for (int64_t at = 0; at < n; at += kChunkElements) {
      const int64_t size = std::min(kChunkElements, n - at);
      chunks.push_back({at, size / kRow, kRow, kRow, at / kRow});
    }
    const Buffer<NormChunk> list = device_copy("bench.chunks", chunks);
    const Buffer<double> partial("bench.partial", n / kRow);
    table.measure(
        kGroup, fmt::format("sums of squares, {} elements", n), RateKind::bytes, bytes, 1,
        [&](int64_t) {
          cuda::square_sums(partial.data(), gradient.data(), list.data(), list.size(),
                            tuned_stream());
        },
        KernelForms::tuned);
  }
  GradientNorm norm(one_segment(n), one_owner(n), Indexing::flat);
  table.measure(kGroup, fmt::format("gradient norm with its exact sum, {} elements", n),
                RateKind::bytes_beside_goal, bytes, 1,
                [&](int64_t) { norm.square_sums(gradient.data()); });
}

template <class T>
void sums(KernelTable& table) {
  const int64_t n = table.sizes().elements;
  const auto width = static_cast<double>(sizeof(T)), elements = static_cast<double>(n);
  const Buffer<T> out("bench.sum", n);
  for (const int ranks : {2, 8}) {
    const Buffer<T> leaves = normal_numbers<T>("bench.leaves", ranks * n);
    const RankPieces<T> pieces{leaves.data(), leaves.data(), n, ranks, ranks};
    table.measure(kGroup, fmt::format("ordered sum of {} ranks, {} elements", ranks, n),
                  RateKind::bytes, elements * width * (ranks + 1), 1,
                  [&](int64_t) { sum_over_ranks(pieces, out.data(), n); });
  }
  const Buffer<Acc<T>> wide = normal_numbers<Acc<T>>("bench.wide", n);
  table.measure(kGroup, fmt::format("conversion from fp32, {} elements", n), RateKind::bytes,
                elements * (width + sizeof(Acc<T>)), 1,
                [&](int64_t) { round_values(wide.data(), out.data(), n); });
}

}  // namespace

template <class T>
void bench_flat_buffers(KernelTable& table) {
  table.heading("memory-bound kernels over flat buffers");
  optimizers<T>(table);
  gradient_norms(table);
  sums<T>(table);
}
template void bench_flat_buffers<bf16>(KernelTable&);
template void bench_flat_buffers<fp16>(KernelTable&);

}  // namespace espalier
