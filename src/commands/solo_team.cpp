// SPDX-License-Identifier: Apache-2.0
// The team of espalier: this process.
#include "commands/corpus_verbs.hpp"

namespace espalier {

std::unique_ptr<Team> make_team() {
  return std::make_unique<Alone>();
}

}  // namespace espalier
