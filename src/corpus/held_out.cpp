// SPDX-License-Identifier: Apache-2.0
#include "corpus/held_out.hpp"

#include "corpus/hash.hpp"

namespace espalier {

bool is_held_out(std::string_view document, double fraction, uint64_t seed) {
  if (fraction <= 0.0) return false;
  const uint64_t hash = hash_bytes(document.data(), document.size(), seed);
  return static_cast<double>(hash >> 11) * 0x1.0p-53 < fraction;
}

}  // namespace espalier
