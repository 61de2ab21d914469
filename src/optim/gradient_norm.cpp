// SPDX-License-Identifier: Apache-2.0
// Sums of squares by cell, added exactly.
#include "optim/gradient_norm.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "tensor/profile.hpp"
#include "tensor/rows.hpp"
#include "tensor/tuned.hpp"

namespace espalier {
namespace {

template <class Real>
void portable_square_sums(double* partial, const Real* gradient, const NormChunk* chunks,
                          int64_t count) {
  for_each_row(
      "gradient_norm", count, KOKKOS_LAMBDA(const Row& row) {
        const NormChunk c = chunks[row.index()];
        int64_t cell = c.first_cell;
        for (int64_t r = 0; r < c.rows; ++r)
          for (int64_t first = 0; first < c.row; first += c.cell, ++cell) {
            const Real* x = gradient + c.offset + r * c.row + first;
            const int64_t rest = c.row - first;
            partial[cell] = row.sum<double>(c.cell < rest ? c.cell : rest, [=](const int64_t j) {
              const auto g = static_cast<double>(x[j]);
              return g * g;
            });
          }
      });
}

}  // namespace

GradientNorm::GradientNorm(const std::vector<OptimizerSegment>& segments,
                           const std::vector<OwnedRange>& owned, Indexing gradients) {
  std::vector<NormChunk> chunks;
  int64_t cells = 0;
  for (const SegmentPart& part : owned_parts(segments, owned)) {
    const OptimizerSegment& s = segments[static_cast<size_t>(part.segment)];
    if (!s.counts) continue;
    ESPALIER_REQUIRE(s.cell > 0, "cells of {} elements in segment [{}, {})", s.cell, s.offset,
                     s.offset + s.size);
    const int64_t cells_a_row = (s.row + s.cell - 1) / s.cell;
    const int64_t rows = part.size / s.row, most = std::max<int64_t>(kChunkElements / s.row, 1);
    for (int64_t row = 0; row < rows; row += most) {
      const int64_t n = std::min(most, rows - row);
      chunks.push_back({part.at(gradients) + row * s.row, n, s.row, s.cell, cells});
      cells += n * cells_a_row;
    }
    cells_.push_back({rows * cells_a_row, s.parameter});
  }
  chunks_ = device_copy("norm_chunks", chunks);
  partial_ = Buffer<double>("square_sums", cells);
  if constexpr (device::kPresent) {
    words_ = Buffer<uint64_t>("norm_words", cuda::kExactSumWords);
    arrived_ = PinnedBuffer<uint64_t>(cuda::kExactSumWords);
  }
}

template <class Real>
void GradientNorm::start(const Real* gradient) {
  ScopedPart part(Part::optimizer);
  const NormChunk* chunks = chunks_.data();
  double* partial = partial_.data();
  is_added_on_device_ = device::kPresent && device::uses_tuned_kernels();
  if (!is_added_on_device_) {
    portable_square_sums(partial, gradient, chunks, chunks_.size());
    return;
  }
  if constexpr (device::kPresent) {
    cuda::square_sums(partial, gradient, chunks, chunks_.size(), tuned_stream());
    device::fill(words_.data(), 0, words_.bytes());
    cuda::exact_sum(words_.data(), partial, partial_.size(), tuned_stream());
    device::copy(arrived_.data(), words_.data(), words_.bytes());
  }
}

SquareSums GradientNorm::finish() {
  if (is_added_on_device_) {
    device::Stream::current().synchronize();
    return sum_of_words();
  }
  if constexpr (device::kPresent)
    return sum_of_cells(host_copy(partial_.data(), partial_.size()).data());
  else
    return sum_of_cells(partial_.data());
}

SquareSums GradientNorm::sum_of_cells(const double* sums) const {
  SquareSums result;
  for (const Cells& cells : cells_) {
    for (int64_t i = 0; i < cells.count; ++i) result.sum.add(sums[i]);
    sums += cells.count;
    if (result.first_not_finite < 0 && result.sum.not_finite() > 0)
      result.first_not_finite = cells.parameter;
  }
  return result;
}

SquareSums GradientNorm::sum_of_words() const {
  SquareSums result;
  int64_t* words = result.sum.words();
  for (int64_t i = 0; i < ExactSum::kWords; ++i)
    words[i] = static_cast<int64_t>(arrived_.data()[i]);
  result.sum.words();  // passes the carries on
  // Cells from the first that is not finite to the end
  auto rest = static_cast<int64_t>(arrived_.data()[ExactSum::kWords]);
  for (auto cells = cells_.rbegin(); rest > 0; rest -= cells->count, ++cells)
    result.first_not_finite = cells->parameter;
  return result;
}

template void GradientNorm::start(const float*);
template void GradientNorm::start(const double*);

double clip_factor(double norm, double clip) {
  ESPALIER_REQUIRE(std::isfinite(norm) && norm >= 0.0, "clipping a gradient of norm {}", norm);
  return clip > 0.0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

}  // namespace espalier
