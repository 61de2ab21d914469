// SPDX-License-Identifier: Apache-2.0
// Actions that all ranks must see through or give up together.
#pragma once

#include <functional>

#include "grid/comm.hpp"

namespace espalier {

/// Runs `action` on every rank. If it threw an Error on any, every rank throws the one of the first
/// such rank, of the same class. An action that communicates does so on every rank, failed or not.
/// Collective
void run_agreed(const Comm& ranks, const std::function<void()>& action);

}  // namespace espalier
