// SPDX-License-Identifier: Apache-2.0
// Published model shapes by name: what model.preset fills in.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "deck/key_table.hpp"

namespace espalier {

struct Preset {
  std::string name;
  std::string source;                                    ///< where the shape was published
  std::vector<std::pair<std::string, KeyValue>> values;  ///< keys of [model] and their values
  int64_t published_positions = 0;  ///< rows of the learned position table; 0: none
};

const std::vector<Preset>& presets();
const Preset* find_preset(const std::string& name);  ///< null for "none" and unknown names
std::vector<std::string> preset_names();             ///< "none" first

}  // namespace espalier
