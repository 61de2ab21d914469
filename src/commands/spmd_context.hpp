// SPDX-License-Identifier: Apache-2.0
// What every verb of espalier-spmd starts with: MPI up, the deck read and agreed on, the device
// open, the grid made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "blueprint/blueprint.hpp"
#include "commands/compute_session.hpp"
#include "deck/deck.hpp"
#include "grid/grid.hpp"
#include "grid/mpi_session.hpp"

namespace espalier {

/// MPI of this process, and what it computes on; made once by main.
MpiSession& mpi_session();
ComputeSession& compute_session();

/// "rank 5 on host", and from launch() on "rank 5 (pp 0, dp 2, cp 0, tp 1) on host": how an error
/// of one rank begins.
std::string rank_name();

/// A deck on the ranks that were started.
struct Launch {
  DeckResult deck;
  Grid grid;
  Blueprint blueprint;
};

/// Reads the deck on every rank, compares it over ranks, opens the device, makes the grid and the
/// blueprint.
/// Errors  DeckError, LaunchError: the same on every rank
Launch launch(const std::string& deck, const std::vector<std::string>& overrides);

/// `text` of rank `root` on every rank of `comm`. Collective over it.
std::string broadcast_text(const Comm& comm, const std::string& text, int root);

/// Version, compiler, flags: one line.
std::string build_description();

}  // namespace espalier
