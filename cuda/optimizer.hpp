// SPDX-License-Identifier: Apache-2.0
// AdamW and the gradient norm over flat buffers: the tuned forms of optim/adamw.hpp and
// optim/gradient_norm.hpp.
#pragma once

#include <cstdint>

#include "core/exact_sum.hpp"
#include "cuda/stream.hpp"

namespace espalier::cuda {

/// A run of elements with one rule; where it begins in each buffer.
struct AdamWRun {
  int64_t master, gradient, moment, compute;
  int64_t size;
  int64_t element;  // number of the first element for random numbers
  bool decays;
};

/// The numbers of one update, as optim/adamw.cpp forms them.
struct AdamWFactors {
  float gradient_scale, beta1, rest1, beta2, rest2, rate, root_factor, eps, keep;
};

/// Runs on the device, [count]. master fp32 with a compute copy of T (null where T is float).
template <class T>
struct AdamW {
  const AdamWRun* runs = nullptr;
  int64_t count = 0, longest = 0;  // of the runs
  float* master = nullptr;
  const float* gradient = nullptr;
  float *first = nullptr, *second = nullptr;
  T* compute = nullptr;
  AdamWFactors factors{};
};
template <class T>
void adamw(const AdamW<T>& call, Stream stream);

/// The same with bf16 weights alone: w is read from `compute`, updated in fp32 and rounded
/// stochastically: with r the lower 16 bits that rounding drops and u a uniform 16-bit number, up
/// where r + u >= 2^16. u: element % 8 picks the half-word of Philox block element / 8 of stream
/// (seed, purpose), the lower half of each word first, so that it depends neither on the grid nor
/// on who owns the element: as optim/stochastic_rounding.hpp, whose functions a kernel may call. A
/// run's elements have numbers that follow each other, from any number on.
struct StochasticRounding {
  uint64_t seed = 0, purpose = 0;
};
template <class T>
void adamw_stochastic(const AdamW<T>& call, const StochasticRounding& rounding, Stream stream);

/// A run of whole rows with one row length, where its cells' sums go.
struct NormRun {
  int64_t offset;  // in the gradient buffer
  int64_t rows, row, cell;
  int64_t first_cell;  // of the sums
};
/// partial[cell] = sum of squares in double. `runs` on the device.
template <class Real>
void square_sums(double* partial, const Real* gradient, const NormRun* runs, int64_t count,
                 Stream stream);

/// Adds values [count] to words [kExactSumWords], all on the device: first the words of an
/// ExactSum, whose carries are not passed on, by integers alone, so that no order shows. The last
/// word becomes max(itself, count - i) for the first values[i] that is not finite; clear it before.
/// At most ExactSum::kMostPending values before the carries are passed on.
void exact_sum(uint64_t* words, const double* values, int64_t count, Stream stream);
constexpr int64_t kExactSumWords = ExactSum::kWords + 1;

}  // namespace espalier::cuda
