// SPDX-License-Identifier: Apache-2.0
// Pinned memory and events for messages that pass through the host. Both are kept, so that after
// the first steps of a run nothing is allocated any more.
#pragma once

#include <cstdint>
#include <utility>

#include "device/device.hpp"

namespace espalier {

/// An event on loan; goes back when it is dropped, by then reached or never recorded.
class PooledEvent {
 public:
  PooledEvent();
  ~PooledEvent();
  PooledEvent(const PooledEvent&) = delete;
  PooledEvent& operator=(const PooledEvent&) = delete;
  device::Event& operator*() { return event_; }
  device::Event* operator->() { return &event_; }
  const device::Event* operator->() const { return &event_; }

 private:
  device::Event event_;
};

/// Pinned memory on loan, not cleared.
class StagingBlock {
 public:
  explicit StagingBlock(int64_t bytes);
  ~StagingBlock();
  StagingBlock(const StagingBlock&) = delete;
  StagingBlock& operator=(const StagingBlock&) = delete;
  void* data() const { return data_; }

 private:
  int size_class_;
  void* data_;
};

/// Pinned memory that the process holds for messages, on loan or not.
int64_t staging_bytes();

}  // namespace espalier
