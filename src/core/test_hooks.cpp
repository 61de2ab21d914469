// SPDX-License-Identifier: Apache-2.0
#include "core/test_hooks.hpp"

#include <cstdlib>
#include <sstream>

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

}  // namespace espalier
