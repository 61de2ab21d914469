// SPDX-License-Identifier: Apache-2.0
// One scratch folder for all ranks of a test.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "../../mpi_main.hpp"
#include "scratch_folder.hpp"

namespace espalier {

inline const Comm& world() {
  return test_session().world();
}

/// Made by rank 0; removed when all ranks have left it.
class SharedFolder {
 public:
  SharedFolder() {
    char path[256] = {};
    if (world().rank() == 0) {
      own_ = std::make_unique<ScratchFolder>();
      std::snprintf(path, sizeof path, "%s", own_->file("").c_str());
    }
    world().broadcast(path, sizeof path, 0);
    path_ = path;
  }
  ~SharedFolder() { world().barrier(); }
  std::string file(const std::string& name) const { return path_ + name; }

 private:
  std::unique_ptr<ScratchFolder> own_;
  std::string path_;
};

}  // namespace espalier
