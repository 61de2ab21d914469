// SPDX-License-Identifier: Apache-2.0
// The fused AdamW kernel.
#include "optim/adamw.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "optim/stochastic_rounding.hpp"
#include "tensor/rows.hpp"
#include "tensor/tuned.hpp"

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
    return {master == nullptr ? nullptr : master + place(c, x.master),
            gradient + place(c, x.gradient), first + c.compact, second + c.compact,
            compute == nullptr ? nullptr : compute + place(c, x.compute)};
  }
  ESPALIER_FUNCTION Pointers behind(int64_t i) const {
    return {master == nullptr ? nullptr : master + i, gradient + i, first + i, second + i,
            compute == nullptr ? nullptr : compute + i};
  }
  ESPALIER_FUNCTION static int64_t place(const AdamWChunk& c, Indexing indexing) {
    return indexing == Indexing::flat ? c.flat : c.compact;
  }
};

enum class Copy { written, absent };

// The new value; the moments are written.
template <class T>
ESPALIER_FUNCTION Acc<T> updated(const Pointers<T>& p, const Factors<Acc<T>>& f, Acc<T> keep,
                                 Acc<T> weight, int64_t i) {
  const Acc<T> g = p.gradient[i] * f.gradient_scale;
  const Acc<T> m = f.beta1 * p.first[i] + f.rest1 * g;
  const Acc<T> v = f.beta2 * p.second[i] + f.rest2 * (g * g);
  p.first[i] = m;
  p.second[i] = v;
  return keep * weight - f.rate * m / (root(v) * f.root_factor + f.eps);
}

template <class T, Copy kCopy>
ESPALIER_FUNCTION void update_element(const Pointers<T>& p, const Factors<Acc<T>>& f, Acc<T> keep,
                                      int64_t i) {
  const Acc<T> w = updated<T>(p, f, keep, p.master[i], i);
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
void update_all(const Buffer<AdamWChunk>& list, const AdamWIndexing& indexing,
                const Factors<Acc<T>>& f, const Pointers<T>& p) {
  const AdamWChunk* chunks = list.data();
  for_each_row(
      "adamw", list.size(), KOKKOS_LAMBDA(const Row& row) {
        const AdamWChunk c = chunks[row.index()];
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

// random[j] for element number first + j.
void draw_bits(uint32_t* random, const RoundingStream& stream, int64_t first) {
  for (int64_t j = 0; j < kBlock;) {
    const int64_t number = first + j, block = number / kRoundingBlock;
    const Philox4 r = philox(stream.seed, stream.purpose, static_cast<uint64_t>(block));
    const int64_t end = std::min(kBlock, (block + 1) * kRoundingBlock - first);
    for (; j < end; ++j) random[j] = rounding_bits(r, first + j);
  }
}

// One block, which p points to, of T = bf16. Not inlined, so that all go through the same
// instructions.
template <class T>
[[gnu::noinline]] void round_block(const Pointers<T>& p, const Factors<float>& f, float keep,
                                   const uint32_t* random) {
#pragma GCC ivdep
  for (int64_t i = 0; i < kBlock; ++i)
    p.compute[i] = round_stochastically(updated<T>(p, f, keep, static_cast<float>(p.compute[i]), i),
                                        random[i]);
}

template <class T>
void round_rest(const Pointers<T>& p, const Factors<float>& f, float keep, const uint32_t* random,
                int64_t size) {
  float gradient[kBlock] = {}, m[kBlock] = {}, v[kBlock] = {};
  T weights[kBlock] = {};
  std::copy_n(p.gradient, size, gradient);
  std::copy_n(p.first, size, m);
  std::copy_n(p.second, size, v);
  std::copy_n(p.compute, size, weights);
  round_block<T>({nullptr, gradient, m, v, weights}, f, keep, random);
  std::copy_n(m, size, p.first);
  std::copy_n(v, size, p.second);
  std::copy_n(weights, size, p.compute);
}

template <class T>
void round_all(const Buffer<AdamWChunk>& list, const AdamWIndexing& indexing,
               const Factors<float>& f, const Pointers<T>& p, const RoundingStream& stream) {
  const AdamWChunk* chunks = list.data();
  for_each_row(
      "adamw.rounded", list.size(), KOKKOS_LAMBDA(const Row& row) {
        const AdamWChunk c = chunks[row.index()];
        const float keep = c.decays ? f.keep : 1.0f;
        const Pointers<T> at = p.at(c, indexing);
        const RoundingStream numbers = stream;  // nvcc: no first capture inside if constexpr
        if constexpr (kOnHost) {
          uint32_t random[kBlock];
          for (int64_t first = 0; first < c.size; first += kBlock) {
            draw_bits(random, numbers, c.number + first);
            const Pointers<T> block = at.behind(first);
            if (c.size - first >= kBlock)
              round_block<T>(block, f, keep, random);
            else
              round_rest<T>(block, f, keep, random, c.size - first);
          }
        } else {
          row.each(c.size, [&](const int64_t j) {
            const float w = updated<T>(at, f, keep, static_cast<float>(at.compute[j]), j);
            at.compute[j] = round_stochastically(w, rounding_bits(numbers, c.number + j));
          });
        }
      });
}

std::vector<AdamWChunk> cut_in_chunks(const std::vector<OptimizerSegment>& segments,
                                      const std::vector<OwnedRange>& owned, MasterWeights master) {
  const bool is_broken = is_broken_for_test("rounding_index");
  std::vector<AdamWChunk> chunks;
  for (const SegmentPart& part : owned_parts(segments, owned)) {
    const OptimizerSegment& s = segments[static_cast<size_t>(part.segment)];
    const bool decays = s.decay == WeightDecay::apply;
    // Numbers run on over rows, or where columns are cut only to the end of each.
    const bool runs_on = s.row_step == s.row || master == MasterWeights::separate;
    const int64_t run = runs_on ? part.size : s.row, before = part.flat - s.offset;
    for (int64_t row = 0; row < part.size; row += run)
      for (int64_t first = row; first < row + run; first += kChunkElements) {
        const int64_t in_segment = before + first;
        const int64_t number = s.number + in_segment / s.row * s.row_step + in_segment % s.row;
        chunks.push_back({part.flat + first, part.compact + first,
                          std::min(kChunkElements, row + run - first),
                          is_broken ? part.flat + first : number, decays});
      }
  }
  return chunks;
}

AdamWRuns tuned_runs(const std::vector<AdamWChunk>& chunks, const AdamWIndexing& x) {
  if constexpr (!device::kPresent) return {};
  std::vector<cuda::AdamWRun> runs;
  int64_t longest = 0;
  for (const AdamWChunk& c : chunks) {
    runs.push_back(
        {c.at(x.master), c.at(x.gradient), c.compact, c.at(x.compute), c.size, c.number, c.decays});
    longest = std::max(longest, c.size);
  }
  return {device_copy("adamw_runs", runs), longest};
}

cuda::AdamWFactors tuned_factors(const Factors<float>& f) {
  return {f.gradient_scale, f.beta1,       f.rest1, f.beta2, f.rest2,
          f.rate,           f.root_factor, f.eps,   f.keep};
}

template <class T>
cuda::AdamW<T> tuned_call(const AdamWRuns& runs, const Factors<float>& f, const Pointers<T>& p) {
  cuda::AdamW<T> call;
  call.runs = runs.list.data();
  call.count = runs.list.size();
  call.longest = runs.longest;
  call.master = p.master;
  call.gradient = p.gradient;
  call.first = p.first;
  call.second = p.second;
  call.compute = p.compute;
  call.factors = tuned_factors(f);
  return call;
}

// Elements of the compact buffers, the last range's padding left out.
int64_t compact_end(const std::vector<OwnedRange>& owned) {
  int64_t end = 0;
  for (const OwnedRange& range : owned) end = std::max(end, range.compact + range.size);
  return end;
}

}  // namespace

template <class T>
AdamW<T>::AdamW(const std::vector<OptimizerSegment>& segments, const std::vector<OwnedRange>& owned,
                const AdamWIndexing& indexing, const OptimizerConfig& config, MasterWeights master)
    : config_(config),
      indexing_(indexing),
      master_(master),
      first_moment_("first_moment", compact_end(owned)),
      second_moment_("second_moment", compact_end(owned)) {
  const std::vector<AdamWChunk> chunks = cut_in_chunks(segments, owned, master);
  chunks_ = device_copy("adamw_chunks", chunks);
  runs_ = tuned_runs(chunks, indexing);
}

template <class T>
void AdamW<T>::update(Acc<T>* master, const Acc<T>* gradient, T* compute, double learning_rate,
                      double gradient_scale) {
  ESPALIER_REQUIRE(master_ == MasterWeights::separate, "AdamW has no master of its own");
  // A rank that owns nothing has no buffers either.
  ESPALIER_REQUIRE(chunks_.size() == 0 || (compute == nullptr) == (std::is_same_v<T, Acc<T>>),
                   "AdamW in {}: the compute copy is {}", element_name(ElementTraits<T>::kType),
                   compute == nullptr ? "missing" : "the master itself");
  ++state_.updates;
  const auto f = factors<Acc<T>>(config_, state_.updates, learning_rate, gradient_scale);
  const Pointers<T> p{master, gradient, first_moment(), second_moment(), compute};
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>()) return cuda::adamw(tuned_call<T>(runs_, f, p), tuned_stream());
  if (compute != nullptr)
    update_all<T, Copy::written>(chunks_, indexing_, f, p);
  else
    update_all<T, Copy::absent>(chunks_, indexing_, f, p);
}

template <class T>
void AdamW<T>::update_rounded(T* weights, const Acc<T>* gradient, double learning_rate,
                              double gradient_scale, uint64_t seed) {
  ESPALIER_REQUIRE((std::is_same_v<T, bf16>)&&master_ == MasterWeights::rounded,
                   "AdamW in {} has a master of its own", element_name(ElementTraits<T>::kType));
  if constexpr (std::is_same_v<T, bf16>) {
    ++state_.updates;
    const auto f = factors<float>(config_, state_.updates, learning_rate, gradient_scale);
    const Pointers<T> p{nullptr, gradient, first_moment(), second_moment(), weights};
    const RoundingStream stream = rounding_stream(seed, state_.updates);
    if constexpr (kHasTuned<T>)
      if (takes_tuned<T>())
        return cuda::adamw_stochastic(tuned_call<T>(runs_, f, p), {stream.seed, stream.purpose},
                                      tuned_stream());
    round_all<T>(chunks_, indexing_, f, p, stream);
  }
}

template class AdamW<float>;
template class AdamW<double>;
template class AdamW<bf16>;
template class AdamW<fp16>;

}  // namespace espalier
