// SPDX-License-Identifier: Apache-2.0
// Exchange of slices, the local tree sum, and the way back.
#include "parallel/slice_exchange.hpp"

#include <algorithm>
#include <type_traits>

#include "core/error.hpp"
#include "device/buffer.hpp"
#include "parallel/rank_sum.hpp"
#include "tensor/sums.hpp"
#include "tensor/types.hpp"

namespace espalier {
namespace {

template <class To, class From>
void convert(To* to, const From* from, const Slices& slices) {
  for (const auto& ranges : slices)
    for (const FlatRange& range : ranges)
      round_values(from + range.offset, to + range.offset, range.size);
}

template <class Real, class Wire>
class TreeExchange : public SliceExchange<Real> {
 public:
  TreeExchange(const Comm& comm, int64_t most, int64_t most_owned)
      : comm_(comm), most_(most), most_owned_(most_owned) {
    if (comm.size() == 1) return;
    received_ =
        Buffer<Wire>("reduction.received", most_owned * (comm.size() - 1), Contents::undefined);
    if (kConverts) packed_ = Buffer<Wire>("reduction.packed", most, Contents::undefined);
  }

  void start_sum(Real* data, const Slices& slices, int stream) override;
  void start_gather(Real* data, const Slices& slices, int stream) override;
  bool progress() override;
  int64_t buffer_bytes() const override {
    return slice_exchange_bytes(most_, most_owned_, ElementTraits<Real>::kType,
                                ElementTraits<Wire>::kType, comm_.size());
  }

 private:
  static constexpr bool kConverts = !std::is_same_v<Real, Wire>;
  enum class Phase { idle, sum, gather };

  static int64_t bytes(int64_t elements) { return elements * static_cast<int64_t>(sizeof(Wire)); }
  const std::vector<FlatRange>& own() const {
    return (*slices_)[static_cast<size_t>(comm_.rank())];
  }
  // What travels: the data itself, or its rounded copy.
  Wire* wire() {
    if constexpr (kConverts)
      return packed_.data();
    else
      return data_;
  }
  void begin(Real* data, const Slices& slices);
  void add_pieces();

  const Comm& comm_;
  const int64_t most_, most_owned_;
  Buffer<Wire> received_, packed_;
  Request request_;
  Phase phase_ = Phase::idle;
  Real* data_ = nullptr;
  const Slices* slices_ = nullptr;
};

template <class Real, class Wire>
void TreeExchange<Real, Wire>::begin(Real* data, const Slices& slices) {
  ESPALIER_REQUIRE(phase_ == Phase::idle, "an exchange over {} is still under way", comm_.axis());
  ESPALIER_REQUIRE(static_cast<int>(slices.size()) == comm_.size(),
                   "an exchange of {} slices over the {} ranks of {}", slices.size(), comm_.size(),
                   comm_.axis());
  data_ = data;
  slices_ = &slices;
  int64_t all = 0;
  for (const auto& ranges : slices)
    for (const FlatRange& range : ranges) all = std::max(all, range.last());
  ESPALIER_REQUIRE(all <= most_ && elements_of(own()) <= most_owned_,
                   "an exchange of {} elements of which {} are owned, at most {} and {}", all,
                   elements_of(own()), most_, most_owned_);
}

template <class Real, class Wire>
void TreeExchange<Real, Wire>::start_sum(Real* data, const Slices& slices, int stream) {
  begin(data, slices);
  if (comm_.size() == 1) return;
  if constexpr (kConverts) convert(packed_.data(), data, slices);
  std::vector<OutPiece> out;
  std::vector<InPiece> in;
  Wire* place = received_.data();
  for (int r = 0; r < comm_.size(); ++r) {
    if (r == comm_.rank()) continue;
    for (const FlatRange& range : slices[static_cast<size_t>(r)])
      if (range.size > 0) out.push_back({wire() + range.offset, bytes(range.size), r});
    for (const FlatRange& range : own()) {
      if (range.size > 0) in.push_back({place, bytes(range.size), r});
      place += range.size;
    }
  }
  request_ = comm_.start_exchange(out, in, stream);
  phase_ = Phase::sum;
}

template <class Real, class Wire>
void TreeExchange<Real, Wire>::start_gather(Real* data, const Slices& slices, int stream) {
  begin(data, slices);
  if (comm_.size() == 1) return;
  if constexpr (kConverts) convert(packed_.data(), data, Slices{own()});
  std::vector<OutPiece> out;
  std::vector<InPiece> in;
  for (int r = 0; r < comm_.size(); ++r) {
    if (r == comm_.rank()) continue;
    for (const FlatRange& range : own())
      if (range.size > 0) out.push_back({wire() + range.offset, bytes(range.size), r});
    for (const FlatRange& range : slices[static_cast<size_t>(r)])
      if (range.size > 0) in.push_back({wire() + range.offset, bytes(range.size), r});
  }
  request_ = comm_.start_exchange(out, in, stream);
  phase_ = Phase::gather;
}

template <class Real, class Wire>
bool TreeExchange<Real, Wire>::progress() {
  if (phase_ == Phase::idle) return true;
  if (!request_.test()) return false;
  if (phase_ == Phase::sum)
    add_pieces();
  else if constexpr (kConverts)
    convert(data_, packed_.data(), *slices_);
  phase_ = Phase::idle;
  return true;
}

template <class Real, class Wire>
void TreeExchange<Real, Wire>::add_pieces() {
  const int64_t stride = elements_of(own());
  const Wire* place = received_.data();
  for (const FlatRange& range : own()) {
    sum_over_ranks<Wire, Real>({wire() + range.offset, place, stride, comm_.rank(), comm_.size()},
                               data_ + range.offset, range.size);
    place += range.size;
  }
}

}  // namespace

template <class Real>
std::unique_ptr<SliceExchange<Real>> make_slice_exchange(const Comm& comm, ElementType wire,
                                                         int64_t most, int64_t most_owned) {
  if constexpr (std::is_same_v<Real, float>)
    if (wire == ElementType::bf16)
      return std::make_unique<TreeExchange<float, bf16>>(comm, most, most_owned);
  ESPALIER_REQUIRE(wire == ElementTraits<Real>::kType, "sums of {} cannot travel as {}",
                   element_name(ElementTraits<Real>::kType), element_name(wire));
  return std::make_unique<TreeExchange<Real, Real>>(comm, most, most_owned);
}

template std::unique_ptr<SliceExchange<float>> make_slice_exchange<float>(const Comm&, ElementType,
                                                                          int64_t, int64_t);
template std::unique_ptr<SliceExchange<double>> make_slice_exchange<double>(const Comm&,
                                                                            ElementType, int64_t,
                                                                            int64_t);

}  // namespace espalier
