// SPDX-License-Identifier: Apache-2.0
#include "engine/parameter_store.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/random.hpp"
#include "tensor/launch.hpp"
#include "tensor/sums.hpp"

namespace espalier {
namespace {

int64_t compact_size(const std::vector<OwnedRange>& owned) {
  int64_t size = 0;
  for (const OwnedRange& r : owned) size = std::max(size, r.compact + r.size);
  return size;
}

// values[i] for local elements [first, last) of a piece; the global index of local element e is
// base + (e / columns) * row_step + e % columns.
template <class Real>
void fill(Real* values, const ParameterSpec& p, uint64_t seed, int64_t first, int64_t last,
          int64_t base, int64_t columns, int64_t row_step) {
  const uint64_t purpose = hash_name(p.name);
  const double deviation = p.init_std;
  const Initializer kind = p.initializer;
  for_each(
      "initialise", first, last, KOKKOS_LAMBDA(const int64_t e) {
        double x = kind == Initializer::ones ? 1.0 : 0.0;
        const int64_t global = base + e / columns * row_step + e % columns;
        if (kind == Initializer::normal)
          x = deviation * random_normal(seed, purpose, static_cast<uint64_t>(global));
        values[e] = Real(static_cast<Acc<Real>>(x));  // rounded as from a master
      });
}

}  // namespace

template <class Real>
void initialise_parameter(Real* values, const ParameterSpec& p, int64_t first, int64_t count,
                          uint64_t seed) {
  Real* shifted = values - first;  // so that local indices can be used
  const int64_t last = first + count, columns = p.columns();
  if (p.split == Split::columns) {
    fill(shifted, p, seed, first, last, p.pieces[0].global_first, columns, p.shape[1]);
    return;
  }
  const int64_t width = p.shape.size() == 1 ? 1 : columns;  // elements of a row of a piece
  for (const ShardPiece& piece : p.pieces) {
    const int64_t begin = std::max(first, piece.local_first * width);
    const int64_t end = std::min(last, (piece.local_first + piece.count) * width);
    if (begin >= end) continue;
    const int64_t base = (piece.global_first - piece.local_first) * width;
    fill(shifted, p, seed, begin, end, base, columns, columns);
  }
}

template <class T>
ParameterStore<T>::ParameterStore(const ParameterTable& table)
    : ParameterStore(table, {{0, table.flat_size, 0}}, 0) {}

template <class T>
ParameterStore<T>::ParameterStore(const ParameterTable& table, const std::vector<OwnedRange>& owned,
                                  int64_t zero_stage, ElementType master_type)
    : table_(table), owned_(owned), is_single_(master_type == ElementTraits<T>::kType) {
  constexpr bool kNarrow = !std::is_same_v<T, Acc<T>>;
  ESPALIER_REQUIRE(is_single_ || (kNarrow && master_type == ElementTraits<Acc<T>>::kType),
                   "a master in {} for weights in {}", element_name(master_type),
                   element_name(ElementTraits<T>::kType));
  if (zero_stage == 3 || (zero_stage > 0 && !is_single_)) master_indexing_ = Indexing::compact;
  if (zero_stage == 3) compute_indexing_ = Indexing::compact;
  const auto size = [&](Indexing indexing) {
    return indexing == Indexing::flat ? table.flat_size : compact_size(owned);
  };
  if (!kNarrow || !is_single_)
    master_ = Buffer<Acc<T>>("parameters.master", size(master_indexing_));
  if constexpr (kNarrow) compute_ = Buffer<T>("parameters", size(compute_indexing_));
}

template <class T>
void ParameterStore<T>::initialise(uint64_t seed) {
  const auto write = [&](auto* buffer, Indexing indexing) {
    for (const ParameterSpec& p : table_.parameters) {
      if (indexing == Indexing::flat) {
        initialise_parameter(buffer + p.offset, p, 0, p.size(), seed);
        continue;
      }
      for (const OwnedRange& r : owned_) {
        const int64_t first = std::max(p.offset, r.flat);
        const int64_t last = std::min(p.offset + p.size(), r.flat + r.size);
        if (first < last)
          initialise_parameter(buffer + r.compact + (first - r.flat), p, first - p.offset,
                               last - first, seed);
      }
    }
  };
  if (master_.data() != nullptr) write(master_.data(), master_indexing_);
  if constexpr (!std::is_same_v<T, Acc<T>>) {
    if (!is_single_ && master_indexing_ == compute_indexing_)
      refresh_compute_copy();
    else
      write(compute_.data(), compute_indexing_);
  }
}

template <class T>
void ParameterStore<T>::refresh_compute_copy() {
  if constexpr (!std::is_same_v<T, Acc<T>>) {
    if (is_single_) return;
    if (master_indexing_ == compute_indexing_) {
      round_values(master_.data(), compute_.data(), master_.size());
    } else {
      for (const OwnedRange& r : owned_)
        round_values(master_.data() + r.compact, compute_.data() + r.flat, r.size);
    }
  }
}

template <class T>
T* ParameterStore<T>::values() const {
  if constexpr (std::is_same_v<T, Acc<T>>)
    return master_.data();
  else
    return compute_.data();
}

template <class T>
BlockView<const T> ParameterStore<T>::block(int64_t index) const {
  ESPALIER_REQUIRE(compute_indexing_ == Indexing::flat, "block {} is not resident", index);
  return {values() + table_.blocks[static_cast<size_t>(index)].offset};
}

#define ESPALIER_INSTANTIATE_REAL(Real) \
  template void initialise_parameter<Real>(Real*, const ParameterSpec&, int64_t, int64_t, uint64_t);
ESPALIER_INSTANTIATE_REAL(float)
ESPALIER_INSTANTIATE_REAL(double)
ESPALIER_INSTANTIATE_REAL(bf16)
ESPALIER_INSTANTIATE_REAL(fp16)

template class ParameterStore<float>;
template class ParameterStore<double>;
template class ParameterStore<bf16>;
template class ParameterStore<fp16>;

}  // namespace espalier
