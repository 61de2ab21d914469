// SPDX-License-Identifier: Apache-2.0
// Which documents are kept from training.
#pragma once

#include <cstdint>
#include <string_view>

namespace espalier {

/// Is a document held out? By its content alone, never by its place or its file's name, so that
/// the same document is always on the same side.
bool is_held_out(std::string_view document, double fraction, uint64_t seed);

}  // namespace espalier
