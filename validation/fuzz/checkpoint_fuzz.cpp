// SPDX-License-Identifier: Apache-2.0
// Any bytes as a manifest and as a state file: read rightly or refused by an error, never worse.
// The first byte chooses; the rest is the file, which lives in memory (memfd).
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "checkpoint/manifest.hpp"
#include "checkpoint/state_file.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace {

using namespace espalier;

// What is accepted must come back the same when it is written again.
void read_manifest(const std::string& text) {
  try {
    const CheckpointManifest manifest = parse_manifest(text, "fuzz");
    const std::string again = manifest_json(manifest);
    if (manifest_json(parse_manifest(again, "again")) != again) std::abort();
  } catch (const DataError&) {
  }
}

void read_state(const char* data, size_t size) {
  const int descriptor = ::memfd_create("fuzz", 0);
  if (descriptor < 0 || ::write(descriptor, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    StateReader reader("/proc/self/fd", {{std::to_string(descriptor), static_cast<int64_t>(size)}},
                       nullptr);
    if (static_cast<int64_t>(reader.history().loss.size()) != reader.progress().step) std::abort();
    reader.verify();
  } catch (const Error& e) {
    if (e.code() == ExitCode::internal) std::abort();
  }
  ::close(descriptor);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  set_speaking(false);
  if (size == 0) return 0;
  const char* bytes = reinterpret_cast<const char*>(data);
  if (data[0] % 2 == 0)
    read_manifest(std::string(bytes + 1, size - 1));
  else
    read_state(bytes + 1, size - 1);
  return 0;
}
