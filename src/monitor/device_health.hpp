// SPDX-License-Identifier: Apache-2.0
// The state of a GPU by NVIDIA's management library (NVML), which is loaded when a run starts:
// without it there are no numbers, and nothing else changes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace espalier {

enum class HealthNumber {
  utilisation,         ///< percent of the last sampling period in which a kernel ran
  memory_used,         ///< bytes, of all processes and the driver
  temperature,         ///< degrees Celsius
  sm_clock,            ///< MHz
  sm_clock_limit,      ///< MHz, the highest possible
  memory_clock,        ///< MHz
  memory_clock_limit,  ///< MHz
  power,               ///< milliwatts
  corrected_errors,    ///< of the memory (ECC), since the driver was loaded
  uncorrected_errors,  ///< the same
  throttle             ///< NVML's bits, see throttle_reasons()
};
constexpr int kHealthNumbers = 11;

/// What one device says; -1 where it does not tell. Plain numbers, so that ranks can gather them.
struct HealthSample {
  std::array<int64_t, kHealthNumbers> numbers;
  HealthSample() { numbers.fill(-1); }
  int64_t& operator[](HealthNumber n) { return numbers[static_cast<size_t>(n)]; }
  int64_t operator[](HealthNumber n) const { return numbers[static_cast<size_t>(n)]; }
  bool is_empty() const;
};

/// Why the clocks are below what they could be, in words. Idleness and clocks that somebody set are
/// no throttling. None for -1.
std::vector<std::string> throttle_reasons(int64_t bits);

/// The library at hand and one device in it.
class DeviceHealth {
 public:
  /// `bus`: the PCI address of the device ("0000:1b:00.0"); empty: no device, no numbers.
  /// `library`: its file; by default ESPALIER_NVML of the environment (for tests), else
  /// libnvidia-ml.so.1 where the loader finds it.
  explicit DeviceHealth(const std::string& bus, const std::string& library = "");
  ~DeviceHealth();
  DeviceHealth(const DeviceHealth&) = delete;
  DeviceHealth& operator=(const DeviceHealth&) = delete;

  /// Why there are no numbers; empty where there are.
  const std::string& why_not() const { return why_not_; }
  /// Asks for all numbers now: some ten calls of the driver. A number that the device or its driver
  /// does not give is left out.
  HealthSample sample() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  std::string why_not_;
};

}  // namespace espalier
