// SPDX-License-Identifier: Apache-2.0
// The gradient dump: tokens, parameters, loss and every gradient of one global batch, for checks by
// other programs. Format: docs/gradient-dump-format.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/model_file.hpp"
#include "deck/config.hpp"

namespace espalier {

/// One global batch, the same on every rank; arrays are int32 [global_batch, seq_length].
struct DumpTokens {
  int64_t global_batch = 0, seq_length = 0;
  const int32_t* inputs = nullptr;
  const int32_t* targets = nullptr;  // -1: not predicted
  const int32_t* positions = nullptr;
  const int32_t* document_start = nullptr;  // a query at s attends to keys document_start[s]..s
};

struct DumpInfo {
  std::string program_version;
  std::string deck;  // effective deck, TOML
  double loss = 0;   // sum over the predicted tokens, divided by their number
};

/// Each rank writes its slabs of `parameters` and `gradients`; the gradients are those of
/// `info.loss`, and have the type of the moments.
///
/// Collective  over `ranks` (null: this process alone)
void write_gradient_dump(const std::string& path, const Comm* ranks,
                         const std::vector<TensorRow>& rows, const StateTypes& types,
                         const TensorSlabs& parameters, const TensorSlabs& gradients,
                         const DumpTokens& tokens, const Config& config, const DumpInfo& info);

constexpr const char* kGradientDumpFormat = "espalier gradient dump";
constexpr int64_t kGradientDumpVersion = 2;  // 1 had no checksums

}  // namespace espalier
