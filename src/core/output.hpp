// SPDX-License-Identifier: Apache-2.0
// Whether what was printed has arrived: a full disk behind standard output must not look like
// success.
#pragma once

namespace espalier {

/// True once a line of core/log could not be written to standard output.
bool has_output_failed();

}  // namespace espalier
