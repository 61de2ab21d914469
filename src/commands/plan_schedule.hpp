// SPDX-License-Identifier: Apache-2.0
// The pipeline of a deck as text: stages, drawing, lists, slots, bubble (espalier plan --schedule).
#pragma once

#include "blueprint/stage_layout.hpp"
#include "deck/config.hpp"

namespace espalier {

enum class ActionLists { shown, hidden };

/// `ranges` are the stages of the model and `costs` of what they are made, in any one unit. A
/// data_parallel that is open counts as 1.
void print_schedule(const Config& config, const ModelCosts& costs,
                    const std::vector<StageRange>& ranges, ActionLists lists);

}  // namespace espalier
