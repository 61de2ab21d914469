// SPDX-License-Identifier: Apache-2.0
// Sums the flat gradient buffer over the data-parallel ranks, bucket by bucket, while the backward
// pass is still at work on the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/element_type.hpp"
#include "grid/comm.hpp"
#include "parallel/ordered_reduction.hpp"

namespace espalier {

/// Gradients of one block in the flat buffer, in elements.
struct GradientSpan {
  int64_t offset = 0;
  int64_t size = 0;
};

/// during_backward: a bucket travels as soon as it is complete. at_finish: all of them in finish().
enum class ReduceTime { during_backward, at_finish };

struct ReducerOptions {
  int64_t bucket_bytes = int64_t{16} << 20;  // of gradients as they lie in memory
  ElementType wire = ElementType::fp32;  // what travels: the buffer's own type, or bf16 for float
  ReduceTime time = ReduceTime::during_backward;
};

/// Buckets under way at once. With fewer the sum of one could not hide behind the transfer of
/// another.
constexpr int64_t kReducerLanes = 3;

/// The reduction of one step after another over the same buffer layout.
///
/// Sums        always in the binary tree of OrderedReduction: the exchange costs less than
///             MPI_Iallreduce, so the reproducible mode has no reduction of its own
/// Buckets     neighbouring spans together up to bucket_bytes; a larger span is cut evenly
/// In flight   at most kReducerLanes buckets, so that extra memory is bounded and used again
/// Collective  over dp: the same spans, options and order of ready() on all ranks
/// Memory      gradients must be reachable from the host
template <class Real>
class GradientReducer {
 public:
  /// `dp` must outlive the reducer. Spans must not overlap.
  GradientReducer(const Comm& dp, const std::vector<GradientSpan>& spans_in_backward_order,
                  const ReducerOptions& options);

  /// Starts a step, before the last micro-batch's backward pass.
  void begin(Real* gradients);
  /// The gradients of span number `span` are final. Once in a step for each span, in any order.
  void ready(int64_t span);
  /// Pushes transfers forward and returns at once; to be called between layers.
  void progress();
  /// Waits until all gradients hold the sum over dp.
  /// Errors  Internal if a span was not declared ready
  void finish();

  /// Extra memory that it holds, for the memory bill.
  int64_t buffer_bytes() const;
  int64_t bucket_count() const { return static_cast<int64_t>(buckets_.size()); }

 private:
  struct Bucket {
    int64_t offset, size;
    int64_t spans;    // that it holds a part of
    int64_t missing;  // of these, in this step
  };
  struct Span {
    int64_t first_bucket = 0, buckets = 0;
    bool is_ready = false;
  };
  bool push();

  const ReduceTime time_;
  const Comm& dp_;
  std::vector<Bucket> buckets_;  // in the order in which they travel
  std::vector<Span> spans_;
  std::vector<std::unique_ptr<OrderedReduction<Real>>> lanes_;
  Real* gradients_ = nullptr;  // null between steps
  int64_t next_ = 0;           // first bucket that has not started
  int64_t spans_left_ = 0;
};

/// What buffer_bytes() will be, before anything is allocated.
int64_t reducer_buffer_bytes(const std::vector<GradientSpan>& spans, const ReducerOptions& options,
                             ElementType gradient_type, int64_t ranks);

}  // namespace espalier
