// SPDX-License-Identifier: Apache-2.0
// Sums of squares in a fixed order.
#include "optim/gradient_norm.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "tensor/rows.hpp"

namespace espalier {

GradientNorm::GradientNorm(int64_t flat_size, const std::vector<OptimizerSegment>& segments)
    : chunks_(cut_in_chunks(segments, flat_size)),
      device_chunks_(chunk_buffer(chunks_)),
      partial_("square_sums", chunks_.size()),
      segments_(segments.size()) {}

template <class Real>
SquareSums GradientNorm::square_sums(const Real* gradient) const {
  const Buffer<OptimizerChunk> chunks = device_chunks_;
  const Buffer<double> partial = partial_;
  for_each_row(
      "gradient_norm", static_cast<int64_t>(chunks_.size()), KOKKOS_LAMBDA(const Row& row) {
        const OptimizerChunk c = chunks(row.index());
        const Real* x = gradient + c.offset;
        partial(row.index()) = row.sum<double>(c.size, [=](const int64_t j) {
          const auto g = static_cast<double>(x[j]);
          return g * g;
        });
      });
  const auto sums = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), partial);
  SquareSums result;
  result.by_segment.assign(segments_, 0.0);
  for (size_t i = 0; i < chunks_.size(); ++i)
    result.by_segment[static_cast<size_t>(chunks_[i].segment)] += sums(i);
  for (size_t s = 0; s < segments_; ++s) {
    result.total += result.by_segment[s];
    if (result.first_not_finite < 0 && !std::isfinite(result.by_segment[s]))
      result.first_not_finite = static_cast<int64_t>(s);
  }
  return result;
}

template SquareSums GradientNorm::square_sums(const float*) const;
template SquareSums GradientNorm::square_sums(const double*) const;

double clip_factor(double norm, double clip) {
  ESPALIER_REQUIRE(std::isfinite(norm) && norm >= 0.0, "clipping a gradient of norm {}", norm);
  return clip > 0.0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

}  // namespace espalier
