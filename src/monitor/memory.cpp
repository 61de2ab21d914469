// SPDX-License-Identifier: Apache-2.0
// Linux only: /proc/self/status, whose numbers are kB of 1024 bytes.
#include "monitor/memory.hpp"

#include <charconv>
#include <fstream>
#include <iterator>

#include "core/error.hpp"

namespace espalier {
namespace {

/// The value of the line "<key>:   1234 kB" in bytes.
int64_t status_bytes(std::string_view status, std::string_view key, const std::string& where) {
  const std::string start = std::string(key) + ":";
  size_t at = status.substr(0, start.size()) == start ? 0 : status.find("\n" + start);
  if (at == std::string_view::npos)
    throw LaunchError(
        fmt::format("{} has no line {}, so memory cannot be measured; is this a Linux "
                    "kernel with /proc mounted?",
                    where, key));
  at = status.find(':', at) + 1;
  std::string_view line = status.substr(at, status.find('\n', at) - at);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  int64_t kib = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), kib);
  const std::string_view unit = line.substr(static_cast<size_t>(parsed.ptr - line.data()));
  if (parsed.ec != std::errc() || unit != " kB")
    throw LaunchError(
        fmt::format("{} has the line \"{}: {}\", which is not a number of kB; "
                    "please report it with the version of the kernel",
                    where, key, std::string(line)));
  return kib * 1024;
}

}  // namespace

ResidentMemory parse_resident_memory(std::string_view status, const std::string& where) {
  ResidentMemory m;
  m.total = status_bytes(status, "VmRSS", where);
  m.peak = status_bytes(status, "VmHWM", where);
  m.anonymous = status_bytes(status, "RssAnon", where);
  m.file = status_bytes(status, "RssFile", where);
  m.shared = status_bytes(status, "RssShmem", where);
  return m;
}

ResidentMemory resident_memory() {
  const std::string path = "/proc/self/status";
  std::ifstream file(path);
  if (!file) throw LaunchError(path + " cannot be read, so memory cannot be measured; mount /proc");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return parse_resident_memory(text, path);
}

int64_t resident_bytes() {
  return resident_memory().total;
}

int64_t peak_resident_bytes() {
  return resident_memory().peak;
}

PeakReset reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  file.close();
  return file ? PeakReset::done : PeakReset::not_allowed;
}

}  // namespace espalier
