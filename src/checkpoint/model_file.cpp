// SPDX-License-Identifier: Apache-2.0
// Writing and reading the model file.
#include "checkpoint/model_file.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "checkpoint/host_pieces.hpp"
#include "checkpoint/slab.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "grid/comm.hpp"
#include "tensor/types.hpp"

namespace espalier {

namespace {

constexpr const char* kFormat = "espalier model";
constexpr int64_t kFormatVersion = 2;  // 1 had no checksums
constexpr const char* kParameters = "parameters";

std::string hash_deck(const std::string& deck) {
  return fmt::format("{:016x}", hash_name(deck));
}

// A bf16 is an fp32 whose lower half is zero.
bool is_readable_as(StoredType found, StoredType wanted) {
  return found == wanted || (found == StoredType::bf16 && wanted == StoredType::fp32);
}

std::vector<std::string> compare_rows(const TensorFileReader& file, const std::string& group,
                                      const std::vector<TensorRow>& rows, StoredType type) {
  std::vector<std::string> faults;
  std::set<std::string> expected;
  for (const TensorRow& row : rows) {
    const std::string name = group + "/" + row.name;
    expected.insert(name);
    const auto found = file.datasets().find(name);
    if (found == file.datasets().end())
      faults.push_back(fmt::format("{}: missing, expected {} {}", row.name, stored_type_name(type),
                                   shape_text(row.shape)));
    else if (!is_readable_as(found->second.type, type) || found->second.shape != row.shape)
      faults.push_back(fmt::format("{}: expected {} {}, found {} {}", row.name,
                                   stored_type_name(type), shape_text(row.shape),
                                   stored_type_name(found->second.type),
                                   shape_text(found->second.shape)));
  }
  const std::string prefix = group + "/";
  for (const auto& [name, info] : file.datasets())
    if (name.compare(0, prefix.size(), prefix) == 0 && expected.count(name) == 0)
      faults.push_back(fmt::format("{}: extra, found {} {}", name.substr(prefix.size()),
                                   stored_type_name(info.type), shape_text(info.shape)));
  return faults;
}

// `to` may lie on a device.
template <class Real>
void widen(const std::vector<uint16_t>& narrow, Real* to) {
  constexpr int64_t kPiece = int64_t{1} << 18;  // elements
  const auto size = static_cast<int64_t>(narrow.size());
  HostPieces host;
  for (int64_t first = 0; first < size; first += kPiece) {
    const int64_t count = std::min(kPiece, size - first);
    const int64_t bytes = count * static_cast<int64_t>(sizeof(Real));
    Real* room = static_cast<Real*>(host.room_for(to + first, bytes));
    for (int64_t i = 0; i < count; ++i)
      room[i] = Real(bits_float(uint32_t{narrow[static_cast<size_t>(first + i)]} << 16));
    host.store(to + first, bytes);
  }
}

ModelInfo read_info(TensorFileReader& file) {
  const std::string format =
      file.has_attribute("", "format") ? file.text_attribute("", "format") : "none";
  if (format != kFormat)
    throw DataError(
        fmt::format("{}: is not a model file (format: {}); name a model.h5 that "
                    "Espalier wrote",
                    file.path(), format));
  const int64_t version = file.integer_attribute("", "format_version");
  if (version != kFormatVersion)
    throw DataError(fmt::format(
        "{}: has format version {}, this program reads {}; use the program "
        "that wrote it ({})",
        file.path(), version, kFormatVersion, file.text_attribute("", "program_version")));
  for (const auto& [name, dataset] : file.datasets())
    if (!dataset.checksum)
      throw DataError(
          fmt::format("{}: {} has no checksum, with which it was written; the file is "
                      "damaged, or another program rewrote it",
                      file.path(), name));
  ModelInfo info;
  info.program_version = file.text_attribute("", "program_version");
  info.step = file.integer_attribute("", "step");
  info.consumed_tokens = file.integer_attribute("", "consumed_tokens");
  info.seed = file.integer_attribute("", "seed");
  info.config_hash = file.text_attribute("", "config_hash");
  info.deck = file.read_text("deck");
  if (info.config_hash != hash_deck(info.deck))
    throw DataError(
        fmt::format("{}: the deck in it does not match its config_hash ({} instead of "
                    "{}); the file is damaged",
                    file.path(), hash_deck(info.deck), info.config_hash));
  return info;
}

}  // namespace

std::vector<TensorRow> tensor_rows(const ParameterTable& table) {
  std::vector<TensorRow> rows;
  for (const ParameterSpec& p : table.parameters) rows.push_back({p.name, p.shape, p.offset});
  return rows;
}

template <class Real>
TensorSlabs whole_slabs(const std::vector<TensorRow>& rows, const Real* flat) {
  TensorSlabs slabs;
  for (const TensorRow& row : rows)
    slabs.push_back({row.name, Shape(row.shape.size(), 0), row.shape, flat + row.offset,
                     StoredTypeOf<Real>::kType});
  return slabs;
}

template <class Real>
TensorSlabs owned_slabs(const ParameterTable& table, const std::vector<OwnedRange>& owned,
                        Indexing indexing, const Real* buffer, Holders holders) {
  constexpr StoredType kType = StoredTypeOf<Real>::kType;
  TensorSlabs slabs;
  for (const ParameterSpec& p : table.parameters)
    for (const OwnedRange& range : owned) {
      const int64_t first = std::max(p.offset, range.flat);
      const int64_t last = std::min(p.offset + p.size(), range.flat + range.size);
      if (first >= last) continue;
      const int64_t at = indexing == Indexing::flat ? range.flat : range.compact;
      const Real* data = buffer + at + (first - range.flat);
      const int64_t columns = p.columns();
      ESPALIER_REQUIRE((first - p.offset) % columns == 0 && (last - first) % columns == 0,
                       "a part of {} begins or ends inside a row", p.name);
      const int64_t row = (first - p.offset) / columns, rows = (last - first) / columns;
      for (const ShardPiece& piece : p.pieces) {
        if (!piece.counts && holders == Holders::one) continue;
        if (p.shape.size() == 1) {
          slabs.push_back(
              {p.name, {piece.global_first}, {piece.count}, data + piece.local_first, kType});
        } else if (p.split == Split::columns) {
          slabs.push_back({p.name, {row, piece.global_first}, {rows, piece.count}, data, kType});
        } else {
          const int64_t begin = std::max(row, piece.local_first);
          const int64_t end = std::min(row + rows, piece.local_first + piece.count);
          if (begin < end)
            slabs.push_back({p.name,
                             {piece.global_first + begin - piece.local_first, 0},
                             {end - begin, columns},
                             data + (begin - row) * columns,
                             kType});
        }
      }
    }
  return slabs;
}

void write_rows(TensorFileWriter& file, const std::string& group,
                const std::vector<TensorRow>& rows, StoredType type, const TensorSlabs& slabs) {
  // All headers first: they lie together at the front, which makes opening the file cheap.
  for (const TensorRow& row : rows) file.create_dataset(group + "/" + row.name, row.shape, type);
  file.write_slabs(group, slabs);
}

template <class Real>
void read_rows(TensorFileReader& file, const std::string& group, const std::vector<TensorRow>& rows,
               Real* flat) {
  const std::vector<std::string> faults =
      compare_rows(file, group, rows, StoredTypeOf<Real>::kType);
  if (!faults.empty())
    throw DataError(fmt::format("{}: {} of the tensors in {} do not fit the model of this deck:{}",
                                file.path(), faults.size(), group, list_faults(faults)));
  for (const TensorRow& row : rows) {
    const std::string name = group + "/" + row.name;
    const StoredType type = file.info(name).type;
    std::vector<uint16_t> narrow;
    const bool is_same = type == StoredTypeOf<Real>::kType;
    if (!is_same) narrow.resize(static_cast<size_t>(shape_bytes(row.shape, 1)));
    void* to = is_same ? static_cast<void*>(flat + row.offset) : narrow.data();
    file.read_whole(name, row.shape, type, to);
    if (!is_same) widen(narrow, flat + row.offset);
  }
}

void write_model(const std::string& path, const Comm* ranks, const std::vector<TensorRow>& rows,
                 StoredType type, const TensorSlabs& slabs, const ModelInfo& info) {
  TensorFileWriter file(path, ranks);
  file.set_attribute("", "format", kFormat);
  file.set_attribute("", "format_version", kFormatVersion);
  file.set_attribute("", "program_version", info.program_version);
  file.set_attribute("", "step", info.step);
  file.set_attribute("", "consumed_tokens", info.consumed_tokens);
  file.set_attribute("", "seed", info.seed);
  file.set_attribute("", "config_hash", hash_deck(info.deck));
  file.write_text("deck", info.deck);
  write_rows(file, kParameters, rows, type, slabs);
  file.close();
}

template <class Real>
ModelInfo read_model(const std::string& path, const Comm* ranks, const std::vector<TensorRow>& rows,
                     Real* flat) {
  TensorFileReader file(path, ranks);
  ModelInfo info = read_info(file);
  read_rows(file, kParameters, rows, flat);
  return info;
}

ModelInfo read_model_info(const std::string& path, const Comm* ranks) {
  TensorFileReader file(path, ranks);
  return read_info(file);
}

template TensorSlabs owned_slabs(const ParameterTable&, const std::vector<OwnedRange>&, Indexing,
                                 const bf16*, Holders);
#define ESPALIER_INSTANTIATE(Real)                                                              \
  template TensorSlabs whole_slabs(const std::vector<TensorRow>&, const Real*);                 \
  template TensorSlabs owned_slabs(const ParameterTable&, const std::vector<OwnedRange>&,       \
                                   Indexing, const Real*, Holders);                             \
  template void read_rows(TensorFileReader&, const std::string&, const std::vector<TensorRow>&, \
                          Real*);                                                               \
  template ModelInfo read_model(const std::string&, const Comm*, const std::vector<TensorRow>&, \
                                Real*);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(double)
#undef ESPALIER_INSTANTIATE

}  // namespace espalier
