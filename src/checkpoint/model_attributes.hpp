// SPDX-License-Identifier: Apache-2.0
// The [model] values of a deck as attributes of a group, so that readers need no TOML.
#pragma once

#include <string>

#include "checkpoint/tensor_file.hpp"
#include "deck/config.hpp"

namespace espalier {

/// One attribute a key of the deck's section model: int64, double, or text (choices as their deck
/// words); booleans are the int64 0 and 1. Creates the group.
void write_model_attributes(TensorFileWriter& file, const std::string& group, const Config& config);

/// Sets config.model from them. Throws DataError for a missing attribute, another type, a number
/// outside the key's range or a word that the key does not know.
void read_model_attributes(const TensorFileReader& file, const std::string& group, Config& config);

}  // namespace espalier
