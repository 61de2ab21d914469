// SPDX-License-Identifier: Apache-2.0
// For tests alone: breaks one thing on purpose, so that a test can see that the check which guards
// it fails; pretends that ranks lie on several hosts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace espalier {

/// Whether the environment variable ESPALIER_TEST_BREAK names this thing. The first time it does,
/// a warning says that the results are wrong on purpose.
bool is_broken_for_test(std::string_view thing);

/// The host of this rank by ESPALIER_TEST_HOST_OF_RANK ("a,a,b,b"), read anew at each call; nothing
/// where the variable is not set or names fewer ranks.
std::optional<std::string> host_for_test(int rank);

}  // namespace espalier
