// SPDX-License-Identifier: Apache-2.0
// One allocation from which the tensors of an activation plan are carved, by name.
#pragma once

#include <map>
#include <string>

#include "blueprint/activation_plan.hpp"
#include "core/error.hpp"
#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// The tensors of one list of a plan (one micro-batch's block, say), laid out one after the other.
class TensorSet {
 public:
  TensorSet() = default;
  TensorSet(const std::vector<PlannedTensor>& plan, ElementType compute_type, std::byte* memory) {
    for (const auto& t : plan) {
      entries_[t.name] = {t, memory};
      memory += planned_bytes(t, compute_type);
    }
  }

  /// Also the tensors of `other`, whose memory stays where it is.
  void include(const TensorSet& other) {
    entries_.insert(other.entries_.begin(), other.entries_.end());
  }

  /// The tensor of that name as [rows, columns] of T.
  template <class T>
  Mat<T> get(const std::string& name) const {
    const auto found = entries_.find(name);
    ESPALIER_REQUIRE(found != entries_.end(), "there is no activation {} in the plan", name);
    const PlannedTensor& t = found->second.tensor;
    return Mat<T>(reinterpret_cast<T*>(found->second.memory), t.rows, t.columns);
  }

 private:
  struct Entry {
    PlannedTensor tensor;
    std::byte* memory = nullptr;
  };
  std::map<std::string, Entry> entries_;
};

/// Owns the memory of all sets of a stage. Planned once; nothing is allocated in a step.
class Arena {
 public:
  explicit Arena(int64_t bytes)
      : memory_("activations", bytes, Contents::undefined), next_(memory_.data()), size_(bytes) {}

  TensorSet carve(const std::vector<PlannedTensor>& plan, ElementType compute_type) {
    const int64_t bytes = planned_bytes(plan, compute_type);
    ESPALIER_REQUIRE(used_ + bytes <= size_, "the arena of {} bytes is too small", size_);
    TensorSet set(plan, compute_type, next_);
    next_ += bytes;
    used_ += bytes;
    return set;
  }
  int64_t bytes() const { return size_; }

 private:
  Buffer<std::byte> memory_;  // aligned as every allocation, to more than kArenaAlignment
  std::byte* next_ = nullptr;
  int64_t size_ = 0, used_ = 0;
};

}  // namespace espalier
