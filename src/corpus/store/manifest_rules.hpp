// SPDX-License-Identifier: Apache-2.0
// What encode_manifest and decode_manifest share: one rule for what is written and what is read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "corpus/store/store_manifest.hpp"

namespace espalier {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kStoreFormat = "espalier token store";

/// What no manifest may have; empty when all is well.
std::string find_manifest_fault(const StoreManifest& manifest);

/// The tables of counts, of a manifest without fault.
OrderedJson counts_of(const StoreManifest& manifest);

}  // namespace espalier
