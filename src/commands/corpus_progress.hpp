// SPDX-License-Identifier: Apache-2.0
// The progress of a build: one bar that is redrawn on a terminal, now and then a line in a log.
#pragma once

#include <string>

#include "corpus/build/store_builder.hpp"

namespace espalier {

/// "reading [####------] 45 %, 120 of 266 MB, 85.2 MB/s of text, 1 min 23 s left".
std::string build_progress_text(const BuildProgress& progress, int bar_width);

class BuildDisplay {
 public:
  BuildDisplay();
  ~BuildDisplay();  ///< leaves the cursor at the start of a fresh line
  BuildDisplay(const BuildDisplay&) = delete;
  BuildDisplay& operator=(const BuildDisplay&) = delete;
  void update(const BuildProgress& progress);
  void clear();

 private:
  bool is_terminal_;
  size_t shown_ = 0;      // columns of the bar that stands there
  double last_ = -1.0e9;  // s, when something was shown
  BuildPhase phase_ = BuildPhase::read;
};

}  // namespace espalier
