// SPDX-License-Identifier: Apache-2.0
// The model file (model.h5): every parameter as one dataset in its global shape and master
// precision, with the deck and the place of the run that made it. Format:
// docs/model-file-format.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "blueprint/partition.hpp"
#include "checkpoint/tensor_file.hpp"

namespace espalier {

/// One logical tensor, and its place in a flat buffer that holds it whole.
struct TensorRow {
  std::string name;
  Shape shape;
  int64_t offset = 0;  // elements
};

/// Of tensors that several ranks hold: only what this rank writes for all, or all that it holds.
enum class Holders { one, all };

/// Where what a rank owns stands in the logical tensors: `buffer` is the flat or the compact one.
/// With Holders::one, over all ranks with a replica of their own, every element is there once.
/// Instances   Real in {float, double, bf16}
template <class Real>
TensorSlabs owned_slabs(const ParameterTable& table, const std::vector<OwnedRange>& owned,
                        Indexing indexing, const Real* buffer, Holders holders = Holders::one);
/// All of a buffer that holds every tensor whole.
template <class Real>
TensorSlabs whole_slabs(const std::vector<TensorRow>& rows, const Real* flat);

std::vector<TensorRow> tensor_rows(const ParameterTable& table);

struct ModelInfo {
  std::string program_version;
  std::string deck;  // effective deck, TOML
  int64_t step = 0;
  int64_t consumed_tokens = 0;
  int64_t seed = 0;
  std::string config_hash;  // FNV-1a 64 of the deck as 16 hex digits; filled in by the reader
};

/// Writes parameters/<name> for every row, each rank its slabs (host memory).
///
/// Collective  over `ranks` (null: this process alone); rows are the same on all ranks
/// `type`      of the slabs' data: fp32, fp64 or bf16
/// Errors      DataError; the old file of that name stays until the new one is whole
void write_model(const std::string& path, const Comm* ranks, const std::vector<TensorRow>& rows,
                 StoredType type, const TensorSlabs& slabs, const ModelInfo& info);

/// Reads all rows into `flat` on every rank. bf16 widens to fp32, exactly.
///
/// Instances   Real in {float, double}
/// Errors      DataError that lists every missing, extra and mismatching tensor at once; nothing is
///             written to `flat` then
template <class Real>
ModelInfo read_model(const std::string& path, const Comm* ranks, const std::vector<TensorRow>& rows,
                     Real* flat);

/// All but the parameters.
ModelInfo read_model_info(const std::string& path, const Comm* ranks);

/// For other files with the same tensors, such as the gradient dump: writes GROUP/<name> ...
void write_rows(TensorFileWriter& file, const std::string& group,
                const std::vector<TensorRow>& rows, StoredType type, const TensorSlabs& slabs);

/// ... and reads them, after checking that GROUP holds exactly these rows.
template <class Real>
void read_rows(TensorFileReader& file, const std::string& group, const std::vector<TensorRow>& rows,
               Real* flat);

}  // namespace espalier
