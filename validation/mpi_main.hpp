// SPDX-License-Identifier: Apache-2.0
// What tests under the launcher share.
#pragma once

#include "grid/mpi_session.hpp"

namespace espalier {

/// The session of this test program.
const MpiSession& test_session();

}  // namespace espalier
