// SPDX-License-Identifier: Apache-2.0
// For tests alone: breaks one thing on purpose, so that a test can see that the check which guards
// it fails; pretends that ranks lie on several hosts; kills, fails or delays a process at a phase.
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

/// The rank that test_point compares with; 0 until it is set. Once, before threads are started.
void set_test_rank(int rank);

/// A place in the program that a test can stop at. Without these variables it costs one branch:
///   ESPALIER_TEST_KILL="PHASE:RANK[:NTH]"    SIGKILL at the NTH visit (default 1) on that rank
///   ESPALIER_TEST_FAIL="PHASE:RANK[:NTH]"    DataError "... on purpose" there
///   ESPALIER_TEST_PAUSE="PHASE:MILLISECONDS" sleeps at each visit, on every rank
/// Threads  any
/// Errors   DeckError for a variable of another form
void test_point(std::string_view phase);

}  // namespace espalier
