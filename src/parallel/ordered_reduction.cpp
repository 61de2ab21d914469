// SPDX-License-Identifier: Apache-2.0
// Exchange, local tree sum, gather.
#include "parallel/ordered_reduction.hpp"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "core/error.hpp"
#include "parallel/tree_sum.hpp"
#include "tensor/types.hpp"

namespace espalier {
namespace {

constexpr int64_t kSliceUnit = 16;  // elements; slices begin where vectors do

template <class To, class From>
void convert(To* to, const From* from, int64_t size) {
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) to[i] = static_cast<To>(from[i]);
}

// Elements of one rank's slice, the longest.
int64_t slice_size(int64_t count, int64_t ranks) {
  const int64_t units = (count + kSliceUnit - 1) / kSliceUnit;
  return (units + ranks - 1) / ranks * kSliceUnit;
}

template <class Real, class Wire>
class TreeReduction : public OrderedReduction<Real> {
 public:
  TreeReduction(const Comm& comm, int64_t max_elements, int stream)
      : comm_(comm), stream_(stream), max_elements_(max_elements) {
    if (comm.size() == 1) return;
    const int64_t pieces = slice_size(max_elements, comm.size()) * (comm.size() - 1);
    received_.reset(new Wire[static_cast<size_t>(pieces)]);
    if (kConverts) packed_.reset(new Wire[static_cast<size_t>(max_elements)]);
  }

  void start(Real* data, int64_t count) override;
  bool progress() override;
  int64_t buffer_bytes() const override {
    return reduction_buffer_bytes(max_elements_, ElementTraits<Real>::kType,
                                  ElementTraits<Wire>::kType, comm_.size());
  }

 private:
  static constexpr bool kConverts = !std::is_same_v<Real, Wire>;
  enum class Phase { idle, exchange, gather };

  int64_t first_of(int rank) const {
    return std::min(rank * slice_size(count_, comm_.size()), count_);
  }
  int64_t size_of(int rank) const { return first_of(rank + 1) - first_of(rank); }
  static int64_t bytes(int64_t elements) { return elements * static_cast<int64_t>(sizeof(Wire)); }

  // What travels: the data itself, or its rounded copy.
  Wire* wire() {
    if constexpr (kConverts)
      return packed_.get();
    else
      return data_;
  }
  void add_pieces();
  void start_gather();

  const Comm& comm_;
  const int stream_;
  const int64_t max_elements_;
  std::unique_ptr<Wire[]> received_, packed_;
  TreeSum<Real, Wire> tree_sum_;
  Request request_;
  Phase phase_ = Phase::idle;
  Real* data_ = nullptr;
  int64_t count_ = 0;
};

template <class Real, class Wire>
void TreeReduction<Real, Wire>::start(Real* data, int64_t count) {
  ESPALIER_REQUIRE(phase_ == Phase::idle, "a reduction over {} is still under way", comm_.axis());
  ESPALIER_REQUIRE(count >= 0 && count <= max_elements_, "a reduction of {} elements, at most {}",
                   count, max_elements_);
  if (comm_.size() == 1 || count == 0) return;
  data_ = data;
  count_ = count;
  if constexpr (kConverts) convert(packed_.get(), data, count);
  std::vector<OutPiece> out;
  std::vector<InPiece> in;
  const int me = comm_.rank();
  Wire* place = received_.get();
  for (int r = 0; r < comm_.size(); ++r) {
    if (r == me) continue;
    if (size_of(r) > 0) out.push_back({wire() + first_of(r), bytes(size_of(r)), r});
    if (size_of(me) > 0) in.push_back({place, bytes(size_of(me)), r});
    place += size_of(me);
  }
  request_ = comm_.start_exchange(out, in, stream_);
  phase_ = Phase::exchange;
}

template <class Real, class Wire>
bool TreeReduction<Real, Wire>::progress() {
  if (phase_ == Phase::idle) return true;
  if (!request_.test()) return false;
  if (phase_ == Phase::exchange) {
    add_pieces();
    start_gather();
    return false;
  }
  if constexpr (kConverts) convert(data_, packed_.get(), count_);
  phase_ = Phase::idle;
  return true;
}

template <class Real, class Wire>
void TreeReduction<Real, Wire>::add_pieces() {
  const int me = comm_.rank();
  const int64_t size = size_of(me);
  if (size == 0) return;
  Wire* own = wire() + first_of(me);
  std::vector<const Wire*> pieces;
  const Wire* place = received_.get();
  for (int r = 0; r < comm_.size(); ++r) {
    pieces.push_back(r == me ? own : place);
    if (r != me) place += size;
  }
  tree_sum_(pieces, own, size);
}

template <class Real, class Wire>
void TreeReduction<Real, Wire>::start_gather() {
  std::vector<OutPiece> out;
  std::vector<InPiece> in;
  const int me = comm_.rank();
  for (int r = 0; r < comm_.size(); ++r) {
    if (r == me) continue;
    if (size_of(me) > 0) out.push_back({wire() + first_of(me), bytes(size_of(me)), r});
    if (size_of(r) > 0) in.push_back({wire() + first_of(r), bytes(size_of(r)), r});
  }
  request_ = comm_.start_exchange(out, in, stream_);
  phase_ = Phase::gather;
}

}  // namespace

template <class Real>
std::unique_ptr<OrderedReduction<Real>> make_ordered_reduction(const Comm& comm, ElementType wire,
                                                               int64_t max_elements, int stream) {
  if constexpr (std::is_same_v<Real, float>)
    if (wire == ElementType::bf16)
      return std::make_unique<TreeReduction<float, bf16>>(comm, max_elements, stream);
  ESPALIER_REQUIRE(wire == ElementTraits<Real>::kType, "sums of {} cannot travel as {}",
                   element_name(ElementTraits<Real>::kType), element_name(wire));
  return std::make_unique<TreeReduction<Real, Real>>(comm, max_elements, stream);
}

int64_t reduction_buffer_bytes(int64_t max_elements, ElementType type, ElementType wire,
                               int64_t ranks) {
  if (ranks == 1) return 0;
  const int64_t pieces = slice_size(max_elements, ranks) * (ranks - 1);
  return (pieces + (type == wire ? 0 : max_elements)) * element_bytes(wire);
}

template std::unique_ptr<OrderedReduction<float>> make_ordered_reduction<float>(const Comm&,
                                                                                ElementType,
                                                                                int64_t, int);
template std::unique_ptr<OrderedReduction<double>> make_ordered_reduction<double>(const Comm&,
                                                                                  ElementType,
                                                                                  int64_t, int);

}  // namespace espalier
