// SPDX-License-Identifier: Apache-2.0
// The fused AdamW kernel.
#include "optim/adamw.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/error.hpp"
#include "tensor/rows.hpp"

namespace espalier {
namespace {

// The update's numbers in the type of the arithmetic.
template <class Real>
struct Factors {
  Real gradient_scale, beta1, rest1, beta2, rest2;
  Real rate;         // learning_rate / (1 - beta1^t)
  Real root_factor;  // 1 / sqrt(1 - beta2^t)
  Real eps;
  Real keep;  // 1 - learning_rate * weight_decay, for tensors that decay
};

// Everything in double, rounded once. `update`: its number, from 1, the exponent of the bias
// corrections.
template <class Real>
Factors<Real> factors(const OptimizerConfig& c, int64_t update, double learning_rate,
                      double gradient_scale) {
  const auto t = static_cast<double>(update);
  return {Real(gradient_scale),
          Real(c.beta1),
          Real(1.0 - c.beta1),
          Real(c.beta2),
          Real(1.0 - c.beta2),
          Real(learning_rate / (1.0 - std::pow(c.beta1, t))),
          Real(1.0 / std::sqrt(1.0 - std::pow(c.beta2, t))),
          Real(c.eps),
          Real(1.0 - learning_rate * c.weight_decay)};
}

ESPALIER_FUNCTION float root(float x) {
  return sqrtf(x);
}
ESPALIER_FUNCTION double root(double x) {
  return sqrt(x);
}

template <class T>
struct Pointers {
  Acc<T>* master;
  const Acc<T>* gradient;
  Acc<T>* first;
  Acc<T>* second;
  T* compute;

  // Where a chunk begins in each buffer.
  ESPALIER_FUNCTION Pointers at(const AdamWChunk& c, const AdamWIndexing& x) const {
    return {master + place(c, x.master), gradient + place(c, x.gradient), first + c.compact,
            second + c.compact, compute == nullptr ? nullptr : compute + place(c, x.compute)};
  }
  ESPALIER_FUNCTION static int64_t place(const AdamWChunk& c, Indexing indexing) {
    return indexing == Indexing::flat ? c.flat : c.compact;
  }
};

enum class Copy { written, absent };

template <class T, Copy kCopy>
ESPALIER_FUNCTION void update_element(const Pointers<T>& p, const Factors<Acc<T>>& f, Acc<T> keep,
                                      int64_t i) {
  const Acc<T> g = p.gradient[i] * f.gradient_scale;
  const Acc<T> m = f.beta1 * p.first[i] + f.rest1 * g;
  const Acc<T> v = f.beta2 * p.second[i] + f.rest2 * (g * g);
  const Acc<T> w = keep * p.master[i] - f.rate * m / (root(v) * f.root_factor + f.eps);
  p.first[i] = m;
  p.second[i] = v;
  p.master[i] = w;
  if constexpr (kCopy == Copy::written) p.compute[i] = T(w);
}

// A multiple of the widest vector. Chunks are walked in whole blocks, the rest through a padded
// block, so that every element goes through the same vector instructions: the compiler may fuse a
// multiplication and an addition in vector code and not in the scalar code of a remainder.
constexpr int64_t kBlock = 32;

template <class T, Copy kCopy>
void update_blocks(const Pointers<T>& p, const Factors<Acc<T>>& f, Acc<T> keep, int64_t first,
                   int64_t blocks) {
  const int64_t last = first + blocks * kBlock;
#pragma GCC ivdep
  for (int64_t i = first; i < last; ++i) update_element<T, kCopy>(p, f, keep, i);
}

template <class T, Copy kCopy>
void update_rest(const Pointers<T>& p, const Factors<Acc<T>>& f, Acc<T> keep, int64_t first,
                 int64_t size) {
  Acc<T> master[kBlock] = {}, gradient[kBlock] = {}, m[kBlock] = {}, v[kBlock] = {};
  T compute[kBlock] = {};
  for (int64_t j = 0; j < size; ++j) {
    master[j] = p.master[first + j];
    gradient[j] = p.gradient[first + j];
    m[j] = p.first[first + j];
    v[j] = p.second[first + j];
  }
  update_blocks<T, kCopy>({master, gradient, m, v, compute}, f, keep, 0, 1);
  for (int64_t j = 0; j < size; ++j) {
    p.master[first + j] = master[j];
    p.first[first + j] = m[j];
    p.second[first + j] = v[j];
    if constexpr (kCopy == Copy::written) p.compute[first + j] = compute[j];
  }
}

template <class T, Copy kCopy>
void update_all(const Buffer<AdamWChunk>& chunks, const AdamWIndexing& indexing,
                const Factors<Acc<T>>& f, const Pointers<T>& p) {
  for_each_row(
      "adamw", static_cast<int64_t>(chunks.extent(0)), KOKKOS_LAMBDA(const Row& row) {
        const AdamWChunk c = chunks(row.index());
        const Acc<T> keep = c.decays ? f.keep : Acc<T>(1);
        const Pointers<T> at = p.at(c, indexing);
        if constexpr (kOnHost) {
          const int64_t blocks = c.size / kBlock, rest = c.size % kBlock;
          update_blocks<T, kCopy>(at, f, keep, 0, blocks);
          if (rest > 0) update_rest<T, kCopy>(at, f, keep, blocks * kBlock, rest);
        } else {
          row.each(c.size, [&](const int64_t j) { update_element<T, kCopy>(at, f, keep, j); });
        }
      });
}

std::vector<AdamWChunk> cut_in_chunks(const std::vector<OptimizerSegment>& segments,
                                      const std::vector<OwnedRange>& owned) {
  std::vector<AdamWChunk> chunks;
  for (const SegmentPart& part : owned_parts(segments, owned)) {
    const OptimizerSegment& s = segments[static_cast<size_t>(part.segment)];
    for (int64_t first = 0; first < part.size; first += kChunkElements)
      chunks.push_back({part.flat + first, part.compact + first,
                        std::min(kChunkElements, part.size - first),
                        s.decay == WeightDecay::apply});
  }
  return chunks;
}

// Elements of the compact buffers, the last range's padding left out.
size_t compact_end(const std::vector<OwnedRange>& owned) {
  int64_t end = 0;
  for (const OwnedRange& range : owned) end = std::max(end, range.compact + range.size);
  return static_cast<size_t>(end);
}

}  // namespace

template <class T>
AdamW<T>::AdamW(const std::vector<OptimizerSegment>& segments, const std::vector<OwnedRange>& owned,
                const AdamWIndexing& indexing, const OptimizerConfig& config)
    : config_(config),
      indexing_(indexing),
      chunks_(device_copy("adamw_chunks", cut_in_chunks(segments, owned))),
      first_moment_("first_moment", compact_end(owned)),
      second_moment_("second_moment", compact_end(owned)) {}

template <class T>
void AdamW<T>::update(Acc<T>* master, const Acc<T>* gradient, T* compute, double learning_rate,
                      double gradient_scale) {
  // A rank that owns nothing has no buffers either.
  ESPALIER_REQUIRE(chunks_.extent(0) == 0 || (compute == nullptr) == (std::is_same_v<T, Acc<T>>),
                   "AdamW in {}: the compute copy is {}", element_name(ElementTraits<T>::kType),
                   compute == nullptr ? "missing" : "the master itself");
  ++state_.updates;
  const auto f = factors<Acc<T>>(config_, state_.updates, learning_rate, gradient_scale);
  const Pointers<T> p{master, gradient, first_moment(), second_moment(), compute};
  if (compute != nullptr)
    update_all<T, Copy::written>(chunks_, indexing_, f, p);
  else
    update_all<T, Copy::absent>(chunks_, indexing_, f, p);
}

template class AdamW<float>;
template class AdamW<double>;
template class AdamW<bf16>;
template class AdamW<fp16>;

}  // namespace espalier
