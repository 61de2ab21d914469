// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them: bytes, counts, seconds.
#pragma once

#include <cstdint>
#include <string>

namespace espalier {

std::string format_bytes(double bytes);       ///< "1.50 GiB"
std::string format_count(double count);       ///< "124.4 M"
std::string format_duration(double seconds);  ///< "2 h 03 min", "41 s", "12.3 ms"
std::string utc_now();                        ///< the time: "2026-01-31T12:34:56Z"

}  // namespace espalier
