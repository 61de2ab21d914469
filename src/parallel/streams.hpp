// SPDX-License-Identifier: Apache-2.0
// Which exchange streams of the data-parallel communicators belong to whom, so that exchanges under
// way at once cannot meet each other's messages.
#pragma once

namespace espalier {

constexpr int kReducerStream = 0;  // of lane 0, and one a lane
constexpr int kBlockStream = 8;
constexpr int kGatherStream = 9;
constexpr int kReplicaStream = 16;  // of lane 0, and one a lane

}  // namespace espalier
