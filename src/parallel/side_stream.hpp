// SPDX-License-Identifier: Apache-2.0
// How sums and conversions of a reduction run beside the passes, on the communication stream.
#pragma once

#include "device/device.hpp"
#include "tensor/profile.hpp"

namespace espalier {

/// The communication stream as a detour of the stream on which the caller works. In a host build
/// all of it does nothing.
class SideStream {
 public:
  /// What goes to the communication stream from now on waits for what the current stream was given
  /// so far.
  void leave() { order(left_, device::Stream::current(), device::Stream::communication()); }
  /// What goes to the current stream from now on waits for what the communication stream was given.
  void join() {
    order(joined_, device::Stream::communication(), device::Stream::current());
    Profile::instance().separate();  // the wait is no part of what comes next
  }

 private:
  static void order(device::Event& event, const device::Stream& first, const device::Stream& then) {
    event.record(first);
    then.wait_for(event);
  }
  device::Event left_, joined_;
};

/// While it lives this thread works on the communication stream.
class OnSideStream {
  device::StreamScope scope_{device::Stream::communication()};
};

}  // namespace espalier
