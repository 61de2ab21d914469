// SPDX-License-Identifier: Apache-2.0
// The few functions of NVML that are needed, by its public C interface. Declared here and looked up
// at run time: neither its header nor the library has to be there when this is compiled.
#include "monitor/device_health.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace espalier {
namespace {

using Device = struct nvmlDevice_st*;
using Status = int;
constexpr Status kSuccess = 0;

struct Utilisation {
  unsigned int gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
// Enumerations of the interface.
constexpr int kGpuSensor = 0, kSmClock = 1, kMemoryClock = 2;
constexpr int kCorrected = 0, kUncorrected = 1, kSinceDriverLoad = 0;

struct Reason {
  uint64_t bit;
  const char* words;
};
// Bits 0x1 (idle), 0x2 (clocks set by an application) and 0x100 (display) are no throttling.
constexpr Reason kReasons[] = {{0x4, "power cap"},
                               {0x8, "hardware slowdown"},
                               {0x10, "sync boost"},
                               {0x20, "temperature (driver)"},
                               {0x40, "temperature (hardware)"},
                               {0x80, "power brake"}};

std::string library_path(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  const char* const named = std::getenv("ESPALIER_NVML");
  return named != nullptr ? named : "libnvidia-ml.so.1";
}

}  // namespace

struct DeviceHealth::Library {
  void* handle = nullptr;
  Device device = nullptr;
  bool is_up = false;

  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  const char* (*error_text)(Status) = nullptr;
  Status (*by_bus)(const char*, Device*) = nullptr;
  Status (*utilisation)(Device, Utilisation*) = nullptr;
  Status (*memory)(Device, Memory*) = nullptr;
  Status (*temperature)(Device, int, unsigned int*) = nullptr;
  Status (*clock)(Device, int, unsigned int*) = nullptr;
  Status (*clock_limit)(Device, int, unsigned int*) = nullptr;
  Status (*throttle)(Device, unsigned long long*) = nullptr;
  Status (*errors)(Device, int, int, unsigned long long*) = nullptr;
  Status (*power)(Device, unsigned int*) = nullptr;

  template <class F>
  void find(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(handle, name));
  }
  void find_all();
  /// Empty where all went well.
  std::string start(const std::string& path, const std::string& bus);
  std::string words(Status status) const {
    return error_text != nullptr ? error_text(status) : fmt::format("error {}", status);
  }
  ~Library() {
    if (is_up && shutdown != nullptr) shutdown();
    if (handle != nullptr) dlclose(handle);
  }
};

void DeviceHealth::Library::find_all() {
  find(init, "nvmlInit_v2");
  find(shutdown, "nvmlShutdown");
  find(error_text, "nvmlErrorString");
  find(by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
  find(utilisation, "nvmlDeviceGetUtilizationRates");
  find(memory, "nvmlDeviceGetMemoryInfo");
  find(temperature, "nvmlDeviceGetTemperature");
  find(clock, "nvmlDeviceGetClockInfo");
  find(clock_limit, "nvmlDeviceGetMaxClockInfo");
  find(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
  find(errors, "nvmlDeviceGetTotalEccErrors");
  find(power, "nvmlDeviceGetPowerUsage");
}

std::string DeviceHealth::Library::start(const std::string& path, const std::string& bus) {
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fmt::format("{} cannot be loaded", path);
  find_all();
  if (init == nullptr || by_bus == nullptr)
    return fmt::format("{} has no nvmlInit_v2 or nvmlDeviceGetHandleByPciBusId_v2", path);
  if (const Status status = init(); status != kSuccess)
    return fmt::format("{} cannot start ({})", path, words(status));
  is_up = true;
  if (const Status status = by_bus(bus.c_str(), &device); status != kSuccess)
    return fmt::format("{} does not know the device {} ({})", path, bus, words(status));
  return "";
}

bool HealthSample::is_empty() const {
  for (const int64_t n : numbers)
    if (n >= 0) return false;
  return true;
}

std::vector<std::string> throttle_reasons(int64_t bits) {
  std::vector<std::string> reasons;
  if (bits < 0) return reasons;
  for (const Reason& reason : kReasons)
    if ((static_cast<uint64_t>(bits) & reason.bit) != 0) reasons.emplace_back(reason.words);
  return reasons;
}

DeviceHealth::DeviceHealth(const std::string& bus, const std::string& library)
    : library_(std::make_unique<Library>()) {
  why_not_ = bus.empty() ? "there is no device" : library_->start(library_path(library), bus);
}

DeviceHealth::~DeviceHealth() = default;

HealthSample DeviceHealth::sample() const {
  HealthSample sample;
  if (!why_not_.empty()) return sample;
  const Library& l = *library_;
  // An older library may lack a function, as an older device lacks what it asks for.
  const auto ask = [&](HealthNumber number, auto* function, auto value, auto... arguments) {
    if (function != nullptr && function(l.device, arguments..., &value) == kSuccess)
      sample[number] = static_cast<int64_t>(value);
  };
  Utilisation busy{};
  if (l.utilisation != nullptr && l.utilisation(l.device, &busy) == kSuccess)
    sample[HealthNumber::utilisation] = busy.gpu;
  Memory memory{};
  if (l.memory != nullptr && l.memory(l.device, &memory) == kSuccess)
    sample[HealthNumber::memory_used] = static_cast<int64_t>(memory.used);
  ask(HealthNumber::temperature, l.temperature, 0U, kGpuSensor);
  ask(HealthNumber::sm_clock, l.clock, 0U, kSmClock);
  ask(HealthNumber::sm_clock_limit, l.clock_limit, 0U, kSmClock);
  ask(HealthNumber::memory_clock, l.clock, 0U, kMemoryClock);
  ask(HealthNumber::memory_clock_limit, l.clock_limit, 0U, kMemoryClock);
  ask(HealthNumber::power, l.power, 0U);
  ask(HealthNumber::corrected_errors, l.errors, 0ULL, kCorrected, kSinceDriverLoad);
  ask(HealthNumber::uncorrected_errors, l.errors, 0ULL, kUncorrected, kSinceDriverLoad);
  ask(HealthNumber::throttle, l.throttle, 0ULL);
  return sample;
}

}  // namespace espalier
