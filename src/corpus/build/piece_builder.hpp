// SPDX-License-Identifier: Apache-2.0
// One piece of the inputs from text to shards.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "corpus/build/build_plan.hpp"
#include "corpus/build/piece_record.hpp"
#include "corpus/build/progress_board.hpp"
#include "corpus/clean/deduplication.hpp"
#include "corpus/tokenizer.hpp"

namespace espalier {

/// Told now and then what of the present piece is done; throws to stop.
using PieceWatch = std::function<void(const WorkDone& of_piece)>;

/// Reads, cleans, hashes and tokenises piece number `piece`: writes its shards, with deduplication
/// its keys and sides too, and at last its record. Done anew from the start if it was interrupted.
/// Errors  DataError
void build_piece(const BuildPlan& plan, const BuildFolder& folder, int64_t piece,
                 const Tokenizer& tokenizer, const PieceWatch& watch);

/// Takes `dropped` (of this piece, in order) out of its shards, and writes its final record.
/// Shards that lose nothing are moved. Errors  DataError
void finish_piece(const BuildPlan& plan, const BuildFolder& folder, int64_t piece,
                  const Tokenizer& tokenizer, const std::vector<DroppedDocument>& dropped);

}  // namespace espalier
