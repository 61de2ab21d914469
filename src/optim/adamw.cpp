// SPDX-License-Identifier: Apache-2.0
// The fused AdamW kernel.
#include "optim/adamw.hpp"

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

template <class Real>
Factors<Real> factors(const AdamWStep& s) {
  const auto t = static_cast<double>(s.update);
  return {Real(s.gradient_scale),
          Real(s.beta1),
          Real(1.0 - s.beta1),
          Real(s.beta2),
          Real(1.0 - s.beta2),
          Real(s.learning_rate / (1.0 - std::pow(s.beta1, t))),
          Real(1.0 / std::sqrt(1.0 - std::pow(s.beta2, t))),
          Real(s.eps),
          Real(1.0 - s.learning_rate * s.weight_decay)};
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
void update_all(const Buffer<OptimizerChunk>& chunks, const Factors<Acc<T>>& f,
                const Pointers<T>& p) {
  for_each_row(
      "adamw", static_cast<int64_t>(chunks.extent(0)), KOKKOS_LAMBDA(const Row& row) {
        const OptimizerChunk c = chunks(row.index());
        const Acc<T> keep = c.decays ? f.keep : Acc<T>(1);
        const Pointers<T> at = p;  // nvcc: nothing may be captured first inside if constexpr
        if constexpr (kOnHost) {
          const int64_t blocks = c.size / kBlock, rest = c.size % kBlock;
          update_blocks<T, kCopy>(at, f, keep, c.offset, blocks);
          if (rest > 0) update_rest<T, kCopy>(at, f, keep, c.offset + blocks * kBlock, rest);
        } else {
          row.each(c.size,
                   [&](const int64_t j) { update_element<T, kCopy>(at, f, keep, c.offset + j); });
        }
      });
}

}  // namespace

template <class T>
void adamw_update(const Buffer<OptimizerChunk>& chunks, const AdamWStep& step, Acc<T>* master,
                  const Acc<T>* gradient, Acc<T>* first_moment, Acc<T>* second_moment, T* compute) {
  ESPALIER_REQUIRE(step.update >= 1, "AdamW update number {}", step.update);
  const Factors<Acc<T>> f = factors<Acc<T>>(step);
  const Pointers<T> p{master, gradient, first_moment, second_moment, compute};
  if (compute != nullptr)
    update_all<T, Copy::written>(chunks, f, p);
  else
    update_all<T, Copy::absent>(chunks, f, p);
}

template <class T>
AdamW<T>::AdamW(int64_t flat_size, const std::vector<OptimizerSegment>& segments,
                const OptimizerConfig& config)
    : config_(config),
      chunks_(chunk_buffer(cut_in_chunks(segments, flat_size))),
      first_moment_("first_moment", static_cast<size_t>(flat_size)),
      second_moment_("second_moment", static_cast<size_t>(flat_size)) {}

template <class T>
void AdamW<T>::update(Acc<T>* master, const Acc<T>* gradient, T* compute, double learning_rate,
                      double gradient_scale) {
  ESPALIER_REQUIRE((compute == nullptr) == (std::is_same_v<T, Acc<T>>),
                   "AdamW in {}: the compute copy is {}", element_name(ElementTraits<T>::kType),
                   compute == nullptr ? "missing" : "the master itself");
  ++state_.updates;
  AdamWStep step;
  step.learning_rate = learning_rate;
  step.gradient_scale = gradient_scale;
  step.beta1 = config_.beta1;
  step.beta2 = config_.beta2;
  step.eps = config_.eps;
  step.weight_decay = config_.weight_decay;
  step.update = state_.updates;
  adamw_update<T>(chunks_, step, master, gradient, first_moment(), second_moment(), compute);
}

#define ESPALIER_ADAMW(T)                                                                 \
  template void adamw_update<T>(const Buffer<OptimizerChunk>&, const AdamWStep&, Acc<T>*, \
                                const Acc<T>*, Acc<T>*, Acc<T>*, T*);                     \
  template class AdamW<T>;
ESPALIER_ADAMW(float)
ESPALIER_ADAMW(double)
ESPALIER_ADAMW(bf16)
ESPALIER_ADAMW(fp16)

}  // namespace espalier
