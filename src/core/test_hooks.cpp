// SPDX-License-Identifier: Apache-2.0
#include "core/test_hooks.hpp"

#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "core/error.hpp"
#include "core/log.hpp"

namespace espalier {

bool is_broken_for_test(std::string_view thing) {
  static const char* const broken = std::getenv("ESPALIER_TEST_BREAK");
  if (broken == nullptr || thing != broken) return false;
  static bool told = false;
  if (!told)
    print_warning("ESPALIER_TEST_BREAK=" + std::string(thing) + ": this run is wrong on purpose");
  told = true;
  return true;
}

std::optional<std::string> host_for_test(int rank) {
  const char* const hosts = std::getenv("ESPALIER_TEST_HOST_OF_RANK");
  if (hosts == nullptr) return std::nullopt;
  std::istringstream names(hosts);
  std::string name;
  for (int r = 0; r <= rank; ++r)
    if (!std::getline(names, name, ',')) return std::nullopt;
  return name;
}

namespace {

/// One of the variables of test_point: a phase and one or two numbers behind it.
struct Trigger {
  std::string phase;
  int numbers[2] = {0, 1};
  std::atomic<int> visits{0};

  Trigger(const char* variable, int most_numbers) {
    const char* const value = std::getenv(variable);
    if (value == nullptr) return;
    std::istringstream parts(value);
    std::string part;
    std::getline(parts, phase, ':');
    int count = 0;
    bool is_sound = !phase.empty();
    for (; is_sound && std::getline(parts, part, ':'); ++count) {
      is_sound = count < most_numbers;
      if (!is_sound) break;
      const char* const end = part.data() + part.size();
      const auto read = std::from_chars(part.data(), end, numbers[count]);
      is_sound = read.ec == std::errc() && read.ptr == end && numbers[count] >= 0;
    }
    if (!is_sound || count == 0)
      throw DeckError(fmt::format("{}={}: expected PHASE:NUMBER{}", variable, value,
                                  most_numbers > 1 ? "[:NUMBER]" : ""));
  }
};

std::atomic<int> test_rank{0};

struct Triggers {
  Trigger kill{"ESPALIER_TEST_KILL", 2}, fail{"ESPALIER_TEST_FAIL", 2};
  Trigger pause{"ESPALIER_TEST_PAUSE", 1};
  bool is_set = !kill.phase.empty() || !fail.phase.empty() || !pause.phase.empty();
};

bool is_reached(Trigger& trigger, std::string_view phase) {
  return trigger.phase == phase && trigger.numbers[0] == test_rank &&
         ++trigger.visits == trigger.numbers[1];
}

}  // namespace

void set_test_rank(int rank) {
  test_rank = rank;
}

void test_point(std::string_view phase) {
  static Triggers triggers;
  if (!triggers.is_set) return;
  if (triggers.pause.phase == phase)
    std::this_thread::sleep_for(std::chrono::milliseconds(triggers.pause.numbers[0]));
  if (is_reached(triggers.kill, phase)) std::raise(SIGKILL);
  if (is_reached(triggers.fail, phase))
    throw DataError(fmt::format("failed at {} on purpose (ESPALIER_TEST_FAIL)", phase));
}

}  // namespace espalier
