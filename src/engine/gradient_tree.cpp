// SPDX-License-Identifier: Apache-2.0
#include "engine/gradient_tree.hpp"

#include <utility>

#include "core/error.hpp"

namespace espalier {
namespace {

// left + right, the earlier micro-batches on the left.
template <class Real>
void add_from_left(Real* right, const Real* left, int64_t size) {
  Kokkos::parallel_for(
      "gradient_tree.add", Kokkos::RangePolicy<Exec, Kokkos::IndexType<int64_t>>(0, size),
      KOKKOS_LAMBDA(const int64_t i) { right[i] = left[i] + right[i]; });
}

}  // namespace

template <class Real>
GradientTree<Real>::GradientTree(int64_t flat_size, int levels)
    : flat_size_(flat_size), levels_(levels) {
  for (int i = 0; i <= levels; ++i)
    buffers_.emplace_back(Kokkos::ViewAllocateWithoutInitializing("gradients"), flat_size);
}

template <class Real>
void GradientTree<Real>::zero() {
  Kokkos::deep_copy(buffers_.front(), Real(0));
}

template <class Real>
void GradientTree<Real>::begin(int64_t micro_batches) {
  ESPALIER_REQUIRE(micro_batches > 0 && micro_batches % (int64_t{1} << levels_) == 0,
                   "a gradient tree of {} levels for {} micro-batches", levels_, micro_batches);
  micro_batches_ = micro_batches;
  run_ = micro_batches >> levels_;
  done_ = 0;
  zero();
}

template <class Real>
void GradientTree<Real>::next() {
  ++done_;
  if (done_ % run_ != 0) return;  // the run goes on accumulating
  int64_t count = done_ / run_;   // sums complete so far, this one included
  int level = 0;
  for (; count % 2 == 0; count /= 2, ++level)
    add_from_left(buffers_[0].data(), buffers_[level + 1].data(), flat_size_);
  std::swap(buffers_[0], buffers_[level + 1]);
  zero();
}

template <class Real>
void GradientTree<Real>::close(int64_t offset, int64_t size) {
  for (int level = 0; level < levels_; ++level)
    add_from_left(buffers_[0].data() + offset, buffers_[level + 1].data() + offset, size);
}

template class GradientTree<float>;
template class GradientTree<double>;

}  // namespace espalier
