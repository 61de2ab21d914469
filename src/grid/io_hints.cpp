// SPDX-License-Identifier: Apache-2.0
// An MPI_Info from "key=value" texts.
#include "grid/io_hints.hpp"

#include "core/error.hpp"
#include "grid/mpi_check.hpp"

namespace espalier {

IoHints::IoHints(const std::vector<std::string>& hints) {
  for (const std::string& hint : hints) {
    const size_t equals = hint.find('=');
    ESPALIER_REQUIRE(equals != std::string::npos && equals > 0 && equals < MPI_MAX_INFO_KEY &&
                         hint.size() - equals - 1 > 0 &&
                         hint.size() - equals - 1 < MPI_MAX_INFO_VAL,
                     "\"{}\" is no hint for MPI-IO; expected key=value", hint);
  }
  if (hints.empty()) return;
  ESPALIER_MPI(MPI_Info_create(&info_));
  for (const std::string& hint : hints) {
    const size_t equals = hint.find('=');
    ESPALIER_MPI(
        MPI_Info_set(info_, hint.substr(0, equals).c_str(), hint.substr(equals + 1).c_str()));
  }
}

IoHints::~IoHints() {
  if (info_ != MPI_INFO_NULL) MPI_Info_free(&info_);
}

}  // namespace espalier
