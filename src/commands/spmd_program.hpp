// SPDX-License-Identifier: Apache-2.0
// Where espalier finds espalier-spmd.
#pragma once

#include <string>

namespace espalier {

constexpr const char* kSpmdProgram = "espalier-spmd";

/// The folder of this program's file; empty where the system does not tell.
std::string program_folder();

/// espalier-spmd beside this program, or empty if it is not there.
std::string spmd_beside();

}  // namespace espalier
