// SPDX-License-Identifier: Apache-2.0
// The folder that a build works in: taken, gone on with, emptied, and made the store.
#pragma once

#include <memory>
#include <string>

#include "core/folder_lock.hpp"
#include "corpus/build/build_plan.hpp"

namespace espalier {

/// In what state a build finds its folder.
enum class BuildState { fresh, unfinished, whole };

/// Takes BUILDING for this plan, on one member: makes it, locks it, and compares what lies there.
/// Errors  LaunchError, with what to do
struct TakenFolder {
  BuildState state = BuildState::fresh;
  std::unique_ptr<FolderLock> lock;
};
TakenFolder take_build_folder(const BuildFolder& folder, const BuildPlan& plan, bool may_replace);

/// Makes BUILDING the store: its work and lock go, and it gets the store's name.
void publish_store(const BuildFolder& folder);

}  // namespace espalier
