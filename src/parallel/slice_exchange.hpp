// SPDX-License-Identifier: Apache-2.0
// Two halves of a sum over ranks that never block: every rank receives all others' values of what
// it owns and adds them, and every rank's result travels to all.
#pragma once

#include <cstdint>
#include <memory>

#include "blueprint/communication_buffers.hpp"
#include "core/element_type.hpp"
#include "grid/comm.hpp"

namespace espalier {

/// One exchange at a time over one communicator.
///
/// Wire        the type of Real: values are sent from and received into the buffer itself. bf16
///             (Real = float): values are rounded once before they are sent, the owner's too
/// Collective  all ranks start the same exchanges of a stream in the same order
/// Memory      of the device in a build for one. Sums and conversions run on the current stream of
///             the call that starts them, which is the same for all calls; so does what follows
template <class Real>
class SliceExchange {
 public:
  virtual ~SliceExchange() = default;

  /// In the end this rank's slices of `data` hold the sum over ranks, in the tree of TreeSum; bf16
  /// adds in fp32 and leaves the sum as it is. `slices` stays until then.
  virtual void start_sum(Real* data, const Slices& slices, int stream) = 0;
  /// In the end every slice of `data` holds its owner's values, on bf16 rounded on the owner too.
  virtual void start_gather(Real* data, const Slices& slices, int stream) = 0;
  /// Does what can be done without waiting; true when nothing is under way.
  virtual bool progress() = 0;
  /// Memory it holds beside the data.
  virtual int64_t buffer_bytes() const = 0;
};

/// `comm` must outlive the result. `most`: elements of a buffer; `most_owned`: of one rank's
/// slices. Errors  Internal unless `wire` is bf16 for float or the type of Real
template <class Real>
std::unique_ptr<SliceExchange<Real>> make_slice_exchange(const Comm& comm, ElementType wire,
                                                         int64_t most, int64_t most_owned);

}  // namespace espalier
