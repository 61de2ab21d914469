// SPDX-License-Identifier: Apache-2.0
// How much two stored tensors differ, read piece by piece and shared by the ranks.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/tensor_file.hpp"

namespace espalier {

/// Of one tensor, or of several added up. Squares are infinite where a number is not finite and
/// the bits differ.
struct TensorDifference {
  int64_t size = 0, unequal = 0;                       // elements; those whose bits differ
  double largest = 0.0;                                // absolute difference
  double largest_relative = 0.0;                       // |a - b| / max(|a|, |b|)
  double difference = 0.0, first = 0.0, update = 0.0;  // sums of squares: a - b, a, a - base

  void operator+=(const TensorDifference& other);
  double norm() const;             ///< of the difference
  double relative() const;         ///< over the norm of the first
  double relative_update() const;  ///< over the norm of the first's update

 private:
  double over(double squares) const;
};

/// What two files are compared with beside each other.
struct ComparedFiles {
  TensorFileReader& a;
  TensorFileReader& b;
  TensorFileReader* base = nullptr;  // where both began; null: no updates
};

/// One dataset that both files hold with the same type and shape. Numbers of every stored type are
/// compared as doubles; of a text, size 1, only whether it differs is told.
/// `number` turns the share of pieces, so that many small tensors are spread over the ranks.
/// Memory      three pieces of at most 8 MiB
/// Collective  over `ranks` for texts alone; what a rank returns is its share, see add_over_ranks.
///             null: this process compares everything
/// Errors      DataError if a file cannot be read
TensorDifference compare_stored(const ComparedFiles& files, const std::string& name,
                                const Comm* ranks, int64_t number);

/// The shares of all ranks, added up. Collective.
TensorDifference add_over_ranks(const TensorDifference& share, const Comm& ranks);

}  // namespace espalier
