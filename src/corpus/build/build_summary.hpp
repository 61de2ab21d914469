// SPDX-License-Identifier: Apache-2.0
// The records of all pieces added up to the manifest of the store.
#pragma once

#include "corpus/build/build_plan.hpp"
#include "corpus/store/store_manifest.hpp"
#include "corpus/tokenizer.hpp"

namespace espalier {

/// Errors  DataError if a record is damaged, if no document is left, or none on a side that was
///         asked for
StoreManifest make_manifest(const BuildPlan& plan, const BuildFolder& folder,
                            const Tokenizer& tokenizer);

}  // namespace espalier
