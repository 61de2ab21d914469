// SPDX-License-Identifier: Apache-2.0
#include "engine/gradient_tree.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "tensor/sums.hpp"

namespace espalier {
namespace {

// Passes the buffers of one block on after its `done`-th micro-batch; `add(level)` adds a stored
// sum to the current one. Returns whether a new run begins.
template <class Add>
bool advance(std::vector<size_t>& order, int64_t done, int64_t run, const Add& add) {
  if (done % run != 0) return false;  // the run goes on accumulating
  int64_t count = done / run;         // sums complete so far, this one included
  size_t level = 0;
  for (; count % 2 == 0; count /= 2, ++level) add(level + 1);
  if (level + 1 < order.size()) std::swap(order[0], order[level + 1]);
  return true;
}

}  // namespace

template <class Real>
GradientTree<Real>::GradientTree(int64_t size, int levels, std::vector<Spans> blocks,
                                 const std::vector<Spans>& zeroed)
    : blocks_(std::move(blocks)), zeroed_(zeroed), levels_(levels) {
  ESPALIER_REQUIRE(zeroed.size() == blocks_.size(), "a gradient tree of {} blocks, {} zeroed",
                   blocks_.size(), zeroed.size());
  for (int i = 0; i <= levels; ++i) buffers_.emplace_back("gradients", size);  // padding stays zero
  order_.resize(blocks_.size());
  done_.resize(blocks_.size());
  is_new_.resize(blocks_.size());
}

// right = left + right, the earlier micro-batches on the left.
template <class Real>
void GradientTree<Real>::add_left(int64_t block, size_t right, size_t left) {
  for (const FlatRange& span : blocks_[static_cast<size_t>(block)])
    add_from_left(buffers_[right].data() + span.offset, buffers_[left].data() + span.offset,
                  span.size);
}

template <class Real>
void GradientTree<Real>::begin(int64_t micro_batches) {
  ESPALIER_REQUIRE(micro_batches > 0 && micro_batches % (int64_t{1} << levels_) == 0,
                   "a gradient tree of {} levels for {} micro-batches", levels_, micro_batches);
  micro_batches_ = micro_batches;
  run_ = micro_batches >> levels_;
  std::vector<size_t> first(buffers_.size());
  std::iota(first.begin(), first.end(), size_t{0});
  std::vector<size_t> last = first;
  for (int64_t done = 1; done < micro_batches; ++done) advance(last, done, run_, [](size_t) {});
  total_ = last.front();
  std::fill(order_.begin(), order_.end(), first);
  std::fill(done_.begin(), done_.end(), 0);
  std::fill(is_new_.begin(), is_new_.end(), true);
  zeroed_.clear(buffers_.front().data());
}

template <class Real>
void GradientTree<Real>::next(int64_t block) {
  auto& order = order_[static_cast<size_t>(block)];
  set_used(block);
  const int64_t done = ++done_[static_cast<size_t>(block)];
  ESPALIER_REQUIRE(done <= micro_batches_, "micro-batch {} of {} of block {}", done, micro_batches_,
                   block);
  if (done == micro_batches_) {
    // Every stored sum stands to the left of this one.
    for (int level = 0; level < levels_; ++level)
      add_left(block, order[0], order[static_cast<size_t>(level) + 1]);
    return;
  }
  if (advance(order, done, run_, [&](size_t level) { add_left(block, order[0], order[level]); })) {
    is_new_[static_cast<size_t>(block)] = true;
    zeroed_.clear(current(block), block);
  }
}

template class GradientTree<float>;
template class GradientTree<double>;

}  // namespace espalier
