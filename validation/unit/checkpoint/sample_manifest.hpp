// SPDX-License-Identifier: Apache-2.0
// A manifest with something in every field.
#pragma once

#include "checkpoint/manifest.hpp"
#include "core/units.hpp"

namespace espalier {

inline CheckpointManifest sample_manifest(int64_t step) {
  CheckpointManifest m;
  m.step = step;
  m.consumed_tokens = 4096 * step;
  m.loss = 1.0 / 3.0;
  m.files = {{"state.0of2.h5", 5}, {"state.1of2.h5", 7}};
  m.state_digest = "0123456789abcdef";
  m.grid = {{"pp", 1}, {"dp", 2}, {"cp", 1}, {"tp", 4}};
  m.ranks = 8;
  m.hosts = {"node-1", "node-2"};
  m.deck = "[run]\nsteps = 20  # \"deck\"\n";
  m.build = "0.1.0, gcc";
  m.saved = utc_now();
  m.save_seconds = 0.25;
  return m;
}

}  // namespace espalier
