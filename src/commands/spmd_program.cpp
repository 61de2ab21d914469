// SPDX-License-Identifier: Apache-2.0
#include "commands/spmd_program.hpp"

#include <unistd.h>

#include <filesystem>

namespace espalier {

std::string program_folder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : self.parent_path().string();
}

std::string spmd_beside() {
  const std::string folder = program_folder();
  const std::string beside = folder + "/" + kSpmdProgram;
  return !folder.empty() && ::access(beside.c_str(), F_OK) == 0 ? beside : "";
}

}  // namespace espalier
