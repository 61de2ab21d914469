// SPDX-License-Identifier: Apache-2.0
// Packing plans kept beside the tokens, so that they are made once and mapped afterwards.
#pragma once

#include "corpus/feed/packing.hpp"

namespace espalier {

/// The plan of an array, mapped from packing_path(); if there is none, or it belongs to another
/// index or rule, or is damaged, it is made and written there. Where the folder cannot be written,
/// the plan stays in memory and a line says so.
/// The file is written under a name of its own and renamed, so processes that miss it together do
/// not disturb each other: all write the same bytes.
/// Cost      mapped: constant memory; with VerifyData::header constant time too, with full one pass
///           over plan and index
/// Errors    DataError for an array without an index
std::unique_ptr<const PackingPlan> open_packing_plan(const TokenArray& array,
                                                     const PackingRule& rule, VerifyData verify);

/// STORE/packing/train-NAME-00000-1024-split.plan of STORE/train/NAME-00000.tok; for a file that
/// lies in no store, packing/NAME-1024-split.plan beside it.
std::string packing_path(const TokenArray& array, const PackingRule& rule);

}  // namespace espalier
