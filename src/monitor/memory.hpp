// SPDX-License-Identifier: Apache-2.0
// What the operating system says about the memory of this process. Device memory is not in here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace espalier {

/// Resident memory of one process in bytes, as the kernel counts it.
///
/// total = anonymous + file + shared: pages that are in memory now, not address space.
struct ResidentMemory {
  int64_t total = 0;      ///< VmRSS
  int64_t peak = 0;       ///< VmHWM: the largest total since the start or since reset_peak()
  int64_t anonymous = 0;  ///< RssAnon: heap and stacks, what the program allocated
  int64_t file = 0;       ///< RssFile: mapped files (token files, program text); can be dropped
  int64_t shared = 0;     ///< RssShmem: shared memory, mostly the buffers of MPI
};

/// Reads the text of /proc/<pid>/status.
///
/// Errors  LaunchError if a line is missing or has another form; `where` names the source in it
ResidentMemory parse_resident_memory(std::string_view status, const std::string& where);

/// Of this process, from /proc/self/status. Cost: one small read, some 10 us.
///
/// Errors  LaunchError if /proc cannot be read
ResidentMemory resident_memory();

int64_t resident_bytes();       ///< resident_memory().total
int64_t peak_resident_bytes();  ///< resident_memory().peak

enum class PeakReset { done, not_allowed };

/// Makes the peak start again from what is resident now (writes 5 to /proc/self/clear_refs).
/// not_allowed where the kernel or a container refuses it: the peak then still is that since the
/// start of the process.
PeakReset reset_peak();

}  // namespace espalier
