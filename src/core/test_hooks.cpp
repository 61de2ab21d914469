// SPDX-License-Identifier: Apache-2.0
#include "core/test_hooks.hpp"

#include <cstdlib>

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

}  // namespace espalier
