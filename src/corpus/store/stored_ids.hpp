// SPDX-License-Identifier: Apache-2.0
// Token ids as files store them, widened to int32 and held against a vocabulary.
#pragma once

#include <cstdint>

namespace espalier {

enum class IdType { uint8, int8, uint16, int16, uint32, int32, int64 };

int64_t id_bytes(IdType type);

/// Copies `count` little-endian ids at `from`, which need not be aligned, to `out`. Returns the
/// place of the first one outside [0, limit), limit <= 2^31, or -1 if there is none.
int64_t copy_ids(IdType type, const unsigned char* from, int64_t count, int64_t limit,
                 int32_t* out);

/// Id number `place`, whatever its value; above 2^63 nothing is stored.
int64_t id_at(IdType type, const unsigned char* from, int64_t place);

}  // namespace espalier
