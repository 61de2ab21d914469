// SPDX-License-Identifier: Apache-2.0
// Which exchange streams of the data-parallel communicators belong to whom, so that exchanges under
// way at once cannot meet each other's messages.
#pragma once

namespace espalier {

constexpr int kReducerStream = 0;     // of lane 0; kReducerLanes of them
constexpr int kBlockStream = 8;       // of scratch 0; kScratch of them
constexpr int kGatherAllStream = 16;  // kGatherLanes of them
constexpr int kGatherStream = 24;     // kGatherLanes of them

}  // namespace espalier
