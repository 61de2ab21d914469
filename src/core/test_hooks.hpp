// SPDX-License-Identifier: Apache-2.0
// Breaks one thing on purpose, so that tests can see that the check which guards it fails.
#pragma once

#include <string_view>

namespace espalier {

/// Whether the environment variable ESPALIER_TEST_BREAK names this thing. The first time it does,
/// a warning says that the results are wrong on purpose.
bool is_broken_for_test(std::string_view thing);

}  // namespace espalier
