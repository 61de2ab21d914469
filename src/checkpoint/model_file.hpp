// SPDX-License-Identifier: Apache-2.0
// The model file (model.h5): every parameter as one dataset in its global shape and master
// precision, with the deck and the place of the run that made it. Format:
// docs/model-file-format.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "blueprint/parameter_table.hpp"
#include "checkpoint/tensor_file.hpp"

namespace espalier {

/// One logical tensor and its place in a flat buffer that every rank holds.
struct TensorRow {
  std::string name;
  Shape shape;
  int64_t offset = 0;  // elements
};

std::vector<TensorRow> tensor_rows(const ParameterTable& table);

struct ModelInfo {
  std::string program_version;
  std::string deck;  // effective deck, TOML
  int64_t step = 0;
  int64_t consumed_tokens = 0;
  int64_t seed = 0;
  std::string config_hash;  // FNV-1a 64 of the deck as 16 hex digits; filled in by the reader
};

/// Writes parameters/<name> for every row from `flat` (host memory, the same on every rank).
///
/// Collective  over `ranks` (null: this process alone)
/// Instances   Real in {float, double}
/// Errors      DataError; the old file of that name stays until the new one is whole
template <class Real>
void write_model(const std::string& path, const Comm* ranks, const std::vector<TensorRow>& rows,
                 const Real* flat, const ModelInfo& info);

/// Reads all rows into `flat` on every rank.
///
/// Errors      DataError that lists every missing, extra and mismatching tensor at once; nothing is
///             written to `flat` then
template <class Real>
ModelInfo read_model(const std::string& path, const Comm* ranks, const std::vector<TensorRow>& rows,
                     Real* flat);

/// All but the parameters.
ModelInfo read_model_info(const std::string& path, const Comm* ranks);

/// For other files with the same tensors, such as the gradient dump: writes GROUP/<name> ...
template <class Real>
void write_rows(TensorFileWriter& file, const std::string& group,
                const std::vector<TensorRow>& rows, const Real* flat);

/// ... and reads them, after checking that GROUP holds exactly these rows.
template <class Real>
void read_rows(TensorFileReader& file, const std::string& group, const std::vector<TensorRow>& rows,
               Real* flat);

}  // namespace espalier
