// SPDX-License-Identifier: Apache-2.0
// Buckets, and the lanes in which they travel.
#include "parallel/gradient_reducer.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace espalier {
namespace {

struct BucketRange {
  int64_t offset, size;
  int64_t first_span, last_span;  // the spans that it holds a part of
};

// Spans in the order given, neighbours joined and long ones cut.
std::vector<BucketRange> make_buckets(const std::vector<GradientSpan>& spans, int64_t most) {
  std::vector<BucketRange> buckets;
  for (size_t i = 0; i < spans.size(); ++i) {
    const auto [offset, size] = spans[i];
    const auto index = static_cast<int64_t>(i);
    ESPALIER_REQUIRE(offset >= 0 && size >= 0, "gradient span {} is [{}, {})", i, offset,
                     offset + size);
    if (size == 0) continue;
    if (!buckets.empty() && buckets.back().size + size <= most) {
      BucketRange& last = buckets.back();
      const bool is_below = offset + size == last.offset;
      if (is_below || offset == last.offset + last.size) {
        if (is_below) last.offset = offset;
        last.size += size;
        last.last_span = index;
        continue;
      }
    }
    const int64_t pieces = (size + most - 1) / most;
    const int64_t piece = (size + pieces - 1) / pieces;
    for (int64_t first = 0; first < size; first += piece)
      buckets.push_back({offset + first, std::min(piece, size - first), index, index});
  }
  return buckets;
}

int64_t elements_of(int64_t bucket_bytes, ElementType type) {
  const int64_t elements = bucket_bytes / element_bytes(type);
  ESPALIER_REQUIRE(elements > 0, "gradient buckets of {} bytes", bucket_bytes);
  return elements;
}

int64_t largest(const std::vector<BucketRange>& buckets) {
  int64_t most = 0;
  for (const BucketRange& b : buckets) most = std::max(most, b.size);
  return most;
}

}  // namespace

template <class Real>
GradientReducer<Real>::GradientReducer(const Comm& dp, const std::vector<GradientSpan>& spans,
                                       const ReducerOptions& options)
    : time_(options.time), dp_(dp) {
  constexpr ElementType kType = sizeof(Real) == 8 ? ElementType::fp64 : ElementType::fp32;
  std::vector<BucketRange> ranges = make_buckets(spans, elements_of(options.bucket_bytes, kType));
  if (dp.size() == 1) ranges.clear();
  spans_.assign(spans.size(), Span{});
  for (const BucketRange& range : ranges) {
    const auto index = static_cast<int64_t>(buckets_.size());
    buckets_.push_back({range.offset, range.size, range.last_span - range.first_span + 1, 0});
    for (int64_t s = range.first_span; s <= range.last_span; ++s) {
      Span& span = spans_[static_cast<size_t>(s)];
      if (span.buckets == 0) span.first_bucket = index;
      ++span.buckets;
    }
  }
  const auto lanes = std::min<int64_t>(kReducerLanes, bucket_count());
  for (int64_t lane = 0; lane < lanes; ++lane)
    lanes_.push_back(
        make_ordered_reduction<Real>(dp, options.wire, largest(ranges), static_cast<int>(lane)));
}

template <class Real>
void GradientReducer<Real>::begin(Real* gradients) {
  ESPALIER_REQUIRE(gradients_ == nullptr, "gradient reduction begun twice without finish");
  ESPALIER_REQUIRE(gradients != nullptr, "gradient reduction without gradients");
  gradients_ = gradients;
  next_ = 0;
  spans_left_ = static_cast<int64_t>(spans_.size());
  for (Span& span : spans_) span.is_ready = false;
  for (Bucket& bucket : buckets_) bucket.missing = bucket.spans;
}

template <class Real>
void GradientReducer<Real>::ready(int64_t index) {
  ESPALIER_REQUIRE(gradients_ != nullptr, "gradient span {} ready outside a step", index);
  ESPALIER_REQUIRE(index >= 0 && index < static_cast<int64_t>(spans_.size()),
                   "gradient span {} of {}", index, spans_.size());
  Span& span = spans_[static_cast<size_t>(index)];
  ESPALIER_REQUIRE(!span.is_ready, "gradient span {} ready twice in a step", index);
  span.is_ready = true;
  --spans_left_;
  for (int64_t b = 0; b < span.buckets; ++b)
    --buckets_[static_cast<size_t>(span.first_bucket + b)].missing;
  if (time_ == ReduceTime::during_backward) push();
}

template <class Real>
void GradientReducer<Real>::progress() {
  if (gradients_ != nullptr && time_ == ReduceTime::during_backward) push();
}

template <class Real>
void GradientReducer<Real>::finish() {
  ESPALIER_REQUIRE(gradients_ != nullptr, "gradient reduction finished before it began");
  ESPALIER_REQUIRE(spans_left_ == 0, "{} gradient spans were not ready at the end of the step",
                   spans_left_);
  if (dp_.size() > 1) dp_.wait_until([this] { return push(); }, "gradient reduction");
  gradients_ = nullptr;
}

// True when every bucket has arrived. Buckets start in one order and take turns over the lanes, so
// that all ranks meet in the same exchange.
template <class Real>
bool GradientReducer<Real>::push() {
  bool is_idle = true;
  for (const auto& lane : lanes_) is_idle = lane->progress() && is_idle;
  while (next_ < bucket_count()) {
    const Bucket& bucket = buckets_[static_cast<size_t>(next_)];
    OrderedReduction<Real>& lane = *lanes_[static_cast<size_t>(next_) % lanes_.size()];
    if (bucket.missing > 0 || !lane.progress()) return false;
    lane.start(gradients_ + bucket.offset, bucket.size);
    ++next_;
    is_idle = lane.progress() && is_idle;
  }
  return is_idle;
}

template <class Real>
int64_t GradientReducer<Real>::buffer_bytes() const {
  int64_t bytes = 0;
  for (const auto& lane : lanes_) bytes += lane->buffer_bytes();
  return bytes;
}

int64_t reducer_buffer_bytes(const std::vector<GradientSpan>& spans, const ReducerOptions& options,
                             ElementType gradient_type, int64_t ranks) {
  const std::vector<BucketRange> buckets =
      make_buckets(spans, elements_of(options.bucket_bytes, gradient_type));
  const auto lanes = std::min<int64_t>(kReducerLanes, static_cast<int64_t>(buckets.size()));
  return lanes * reduction_buffer_bytes(largest(buckets), gradient_type, options.wire, ranks);
}

template class GradientReducer<float>;
template class GradientReducer<double>;

}  // namespace espalier
