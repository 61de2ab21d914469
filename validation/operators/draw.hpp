// SPDX-License-Identifier: Apache-2.0
// Random test data: a fixed seed gives the same shapes and values everywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.hpp"

namespace espalier::check {

/// One stream of numbers; the n-th call gives the n-th number of the stream.
class Draw {
 public:
  explicit Draw(uint64_t seed) : seed_(seed) {}

  double normal() { return random_normal(seed_, 1, next_++); }
  /// Uniform in [low, high).
  double real(double low, double high) {
    return low + (high - low) * random_uniform(seed_, 2, next_++);
  }
  /// Uniform in [low, high], both included.
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_bits(seed_, 3, next_++) %
                                      static_cast<uint64_t>(high - low + 1));
  }
  bool chance(double probability) { return real(0.0, 1.0) < probability; }
  template <class T>
  T choose(const std::vector<T>& from) {
    return from[integer(0, static_cast<int64_t>(from.size()) - 1)];
  }
  std::vector<double> normals(int64_t count, double spread = 1.0, double centre = 0.0) {
    std::vector<double> x(count);
    for (auto& value : x) value = centre + spread * normal();
    return x;
  }

 private:
  uint64_t seed_;
  uint64_t next_ = 0;
};

/// Start of the document of every position of a sequence, at random boundaries. `mean_length` about
/// how long a document is; 1 makes every token its own document, 0 leaves one document.
std::vector<int32_t> draw_documents(Draw& draw, int64_t length, int64_t mean_length);

}  // namespace espalier::check
