// SPDX-License-Identifier: Apache-2.0
// A management library with one device, 0000:1b:00.0, whose numbers are known. ESPALIER_FAKE_NVML
// says how it fails: no_driver, no_such_device, not_supported (every number), or a list of single
// functions ("power,errors") that are not supported.
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6, kDriverNotLoaded = 9;

bool fails(const char* what) {
  const char* const list = std::getenv("ESPALIER_FAKE_NVML");
  if (list == nullptr) return false;
  const std::string all = "," + std::string(list) + ",";
  return all.find("," + std::string(what) + ",") != std::string::npos;
}

int device_object;

template <class T>
int give(const char* what, void* device, T* to, T value) {
  if (device != &device_object || fails("not_supported") || fails(what)) return kNotSupported;
  *to = value;
  return kSuccess;
}

}  // namespace

extern "C" {

struct FakeUtilisation {
  unsigned int gpu, memory;
};
struct FakeMemory {
  unsigned long long total, free, used;
};

int nvmlInit_v2() {
  return fails("no_driver") ? kDriverNotLoaded : kSuccess;
}
int nvmlShutdown() {
  return kSuccess;
}
const char* nvmlErrorString(int status) {
  return status == kDriverNotLoaded ? "Driver Not Loaded" : "Not Found";
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  if (fails("no_such_device") || std::strcmp(bus, "0000:1b:00.0") != 0) return kNotFound;
  *device = &device_object;
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(void* device, FakeUtilisation* to) {
  return give("utilisation", device, to, {97, 41});
}
int nvmlDeviceGetMemoryInfo(void* device, FakeMemory* to) {
  return give("memory", device, to, {150000000000ULL, 30000000000ULL, 120000000000ULL});
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned int* to) {
  return sensor == 0 ? give("temperature", device, to, 71U) : kNotSupported;
}
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned int* to) {
  if (clock != 1 && clock != 2) return kNotSupported;
  return give("clock", device, to, clock == 1 ? 1755U : 2619U);
}
int nvmlDeviceGetMaxClockInfo(void* device, int clock, unsigned int* to) {
  if (clock != 1 && clock != 2) return kNotSupported;
  return give("clock_limit", device, to, clock == 1 ? 1980U : 2619U);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* to) {
  return give("throttle", device, to, 0x44ULL);
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* to) {
  if (counter != 0) return kNotSupported;
  return give("errors", device, to, type == 0 ? 5ULL : 2ULL);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned int* to) {
  return give("power", device, to, 642500U);
}

}  // extern "C"
