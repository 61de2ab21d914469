// SPDX-License-Identifier: Apache-2.0
// Even slices, their sums, and the gather of these.
#include "parallel/ordered_reduction.hpp"

#include <algorithm>

#include "core/test_hooks.hpp"
#include "parallel/slice_exchange.hpp"

namespace espalier {
namespace {

template <class Real>
class SlicedReduction : public OrderedReduction<Real> {
 public:
  SlicedReduction(const Comm& comm, ElementType wire, int64_t max_elements, int stream)
      : ranks_(comm.size()),
        stream_(stream),
        exchange_(make_slice_exchange<Real>(comm, wire, max_elements,
                                            slice_size(max_elements, comm.size()))) {}

  void start(Real* data, int64_t count) override {
    slices_.clear();
    const int64_t size = slice_size(count, ranks_);
    for (int64_t r = 0; r < ranks_; ++r) {
      const int64_t first = std::min(r * size, count);
      slices_.push_back({{first, std::min(size, count - first)}});
    }
    data_ = data;
    exchange_->start_sum(data, slices_, stream_);
    phase_ = Phase::sum;
  }

  bool progress() override {
    if (phase_ == Phase::idle) return true;
    if (!exchange_->progress()) return false;
    if (phase_ == Phase::sum && !is_broken_for_test("replica_gather")) {
      exchange_->start_gather(data_, slices_, stream_);
      phase_ = Phase::gather;
      if (!exchange_->progress()) return false;
    }
    phase_ = Phase::idle;
    return true;
  }

  int64_t buffer_bytes() const override { return exchange_->buffer_bytes(); }

 private:
  enum class Phase { idle, sum, gather };

  const int64_t ranks_;
  const int stream_;
  std::unique_ptr<SliceExchange<Real>> exchange_;
  Slices slices_;
  Real* data_ = nullptr;
  Phase phase_ = Phase::idle;
};

}  // namespace

template <class Real>
std::unique_ptr<OrderedReduction<Real>> make_ordered_reduction(const Comm& comm, ElementType wire,
                                                               int64_t max_elements, int stream) {
  return std::make_unique<SlicedReduction<Real>>(comm, wire, max_elements, stream);
}

template std::unique_ptr<OrderedReduction<float>> make_ordered_reduction<float>(const Comm&,
                                                                                ElementType,
                                                                                int64_t, int);
template std::unique_ptr<OrderedReduction<double>> make_ordered_reduction<double>(const Comm&,
                                                                                  ElementType,
                                                                                  int64_t, int);

}  // namespace espalier
