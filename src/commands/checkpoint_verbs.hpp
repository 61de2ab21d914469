// SPDX-License-Identifier: Apache-2.0
// The verbs of espalier checkpoint that have a file of their own.
#pragma once

#include <cstdint>
#include <string>

#include "commands/verbs.hpp"

namespace espalier {

void add_checkpoint_inspect(CLI::App& verb, Action& action);
void add_checkpoint_verify(CLI::App& verb, Action& action);
void add_checkpoint_diff(CLI::App& verb, Action& action);

/// A check of an option: an integer of at least `least`.
CLI::Validator at_least(int64_t least);

}  // namespace espalier
