// SPDX-License-Identifier: Apache-2.0
// Private to this room: writing slabs that lie in many pieces in the file, such as columns.
#pragma once

#include <functional>
#include <vector>

#include "checkpoint/dataset_writer.hpp"

namespace espalier {

class Comm;

/// Writes `own` slabs of a dataset of one dimension or more. Each rank takes bands of rows, gets
/// from the others what they hold of them, and writes every band in one piece, by itself: MPI-IO's
/// collective transfer does the like, but spins while it waits, and hangs when a rank fails in it.
///
/// Collective  over `comm`; `most_slabs` is the largest number of slabs of a rank
/// Memory      twice options.piece_bytes, or two rows
/// Errors      those of `attempt`, which runs each write and may keep its error for later
using Attempt = std::function<void(const std::function<void()>& write)>;
void write_gathered(DatasetWriter& out, const Comm& comm, const DatasetInfo& info,
                    const std::vector<const TensorSlab*>& own, int64_t most_slabs,
                    int64_t piece_bytes, const Attempt& attempt);

}  // namespace espalier
