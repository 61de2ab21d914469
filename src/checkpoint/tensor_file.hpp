// SPDX-License-Identifier: Apache-2.0
// HDF5 files of named tensors, written and read by all ranks of a communicator together, or by one
// process alone. The bytes of a file follow from its content: neither the number of ranks nor the
// time enters them (of chunked files: their content).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/stored_type.hpp"
#include "deck/config.hpp"

namespace espalier {

class Comm;

/// What tunes the writing of a file. Only layout, chunk_bytes, alignment and checksums enter its
/// bytes.
struct FileOptions {
  StorageLayout layout = StorageLayout::contiguous;
  int64_t chunk_bytes = int64_t{16} << 20;  ///< most bytes of a chunk; smaller datasets stay whole
  /// Datasets of at least so many bytes start at a multiple of it. A page by default: no two ranks
  /// write into one page then, unless they share a dataset.
  int64_t alignment = 4096;
  /// How slabs are handed to MPI-IO. automatic: collectively the datasets of which some rank's
  /// slabs lie in many (more than 256) pieces in the file, such as columns, the others
  /// independently.
  TransferMode transfer = TransferMode::automatic;
  /// "key=value"; a rank alone uses no MPI-IO and ignores them. By default every rank collects and
  /// writes in collective transfers; ROMIO's own default, one rank a host, was 0.7 times as fast.
  std::vector<std::string> mpi_info{"cb_config_list=*:*"};
  /// Most bytes of one transfer: MPI-IO holds MPICH's global lock while it writes, and
  /// communication in another thread waits for it; and what fits into a core's cache is summed on
  /// the way: checksums took 11 % of a write in pieces of 8 MiB, 0 to 2 % in pieces of 1 MiB.
  int64_t piece_bytes = int64_t{1} << 20;
  bool checksums = true;  ///< false only for benchmarks
};

/// A part of a logical tensor that this rank holds: a hyperslab, contiguous in memory, of the host
/// or of a device.
struct TensorSlab {
  std::string name;
  Shape offset, extent;
  const void* data = nullptr;
  StoredType type = StoredType::fp32;  // of data
};
using TensorSlabs = std::vector<TensorSlab>;

/// The attribute of a dataset that holds the sum of checksum_run (core/checksum.hpp) over all its
/// elements, with its name as seed; int64, the same 64 bits.
constexpr const char* kChecksum = "checksum";

/// Writes a file of named datasets and attributes. The file appears under its name only when
/// close() has found it whole on every rank: until then it is PATH.part.
///
/// Collective  over `ranks`, every method, with the same arguments on every rank but for slabs and
///             data. Data is row-major, in the memory of the host or of a device, from which it
///             comes piece by piece
/// Errors      DataError with file, dataset and HDF5's words
class TensorFileWriter {
 public:
  /// `ranks` null: this process writes alone. It must outlive the writer.
  TensorFileWriter(const std::string& path, const Comm* ranks, const FileOptions& options = {});
  /// Without close() the unfinished file is removed.
  ~TensorFileWriter();
  TensorFileWriter(const TensorFileWriter&) = delete;
  TensorFileWriter& operator=(const TensorFileWriter&) = delete;

  /// Names are paths like "parameters/final_norm.weight"; the groups on the way come into being.
  /// No dimensions: a scalar. The space in the file is reserved at once.
  void create_dataset(const std::string& name, const Shape& shape, StoredType type);
  void create_dataset(const std::string& name, const Shape& shape, ElementType type) {
    create_dataset(name, shape, stored_type(type));
  }
  void create_group(const std::string& name);

  /// Takes the disk space of all datasets created so far, so that a disk too small is found before
  /// anything is written: a full disk in the middle of a collective transfer would hang it. Throws
  /// on every rank. File systems that cannot reserve go on without.
  void reserve();

  /// Each rank's slabs of the datasets GROUP/<slab.name> (group "": <slab.name>): any number of any
  /// of them, none too, and other ones on other ranks; together each element at most once. The one
  /// all_reduce in it settles, for all datasets of the group, which are written together and in how
  /// many pieces (none where transfer is independent). Calls reserve() where datasets are new:
  /// create all of them before.
  void write_slabs(const std::string& group, const TensorSlabs& own);

  /// This rank's part of a dataset: `extent` elements from `offset` on, each element by one rank.
  /// A rank without a part passes an extent of 0, or does not call: never collective, whatever the
  /// options say. Elements that no rank writes are undefined, and then so is the checksum.
  void write_slab(const std::string& name, const Shape& offset, const Shape& extent,
                  const void* data);
  /// A tensor that every rank holds whole: the ranks write a share of the rows each.
  void write_replicated(const std::string& name, const void* data);
  /// A scalar dataset with one string of any length (an empty one is stored as one NUL).
  void write_text(const std::string& name, const std::string& text);
  /// create_dataset and write_replicated in one.
  template <class T>
  void write_tensor(const std::string& name, const Shape& shape, const T* data) {
    create_dataset(name, shape, StoredTypeOf<T>::kType);
    write_replicated(name, data);
  }

  /// `object`: "" for the file, else a group or a dataset. Texts: at most 60,000 bytes.
  void set_attribute(const std::string& object, const std::string& name, const std::string& text);
  void set_attribute(const std::string& object, const std::string& name, const char* text) {
    set_attribute(object, name, std::string(text));
  }
  void set_attribute(const std::string& object, const std::string& name, int64_t value);
  void set_attribute(const std::string& object, const std::string& name, double value);

  /// Adds up the checksums over ranks, flushes, closes, fsyncs on every rank, agrees, renames the
  /// file to its name and fsyncs the folder. Throws on every rank when any rank failed.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a dataset is, by its own header.
struct DatasetInfo {
  StoredType type = StoredType::other;
  Shape shape;
  int64_t bytes = 0;                                // stored; never more than the file has
  std::optional<uint64_t> checksum = std::nullopt;  // where the file has one
};

/// Whether elements that are read enter the dataset's checksum: over all ranks every element has to
/// do so once. `copy`: another rank counts it, or nothing is verified.
enum class Count { once, copy };

struct DatasetDamage {
  std::string name;
  uint64_t expected = 0, found = 0;

  std::string text() const;  ///< for messages: the name and both sums
};

/// Reads such a file and trusts nothing in it: only unfiltered datasets within the file itself are
/// accepted, soft and external links are refused, sizes are checked before memory is taken.
///
/// Collective  over `ranks`: constructor, read_whole, read_values, read_text, damaged_datasets,
///             require_intact. All others are each rank's own; every rank reads the file by itself,
///             so that one that fails holds no other up
/// Errors      DataError that names file, dataset, what was expected and what was found
class TensorFileReader {
 public:
  TensorFileReader(const std::string& path, const Comm* ranks);
  ~TensorFileReader();
  TensorFileReader(const TensorFileReader&) = delete;
  TensorFileReader& operator=(const TensorFileReader&) = delete;

  const std::string& path() const;
  /// All datasets by their full name ("parameters/final_norm.weight"), ordered by name.
  const std::map<std::string, DatasetInfo>& datasets() const;
  bool contains(const std::string& name) const { return datasets().count(name) != 0; }
  /// Throws when there is no such dataset.
  const DatasetInfo& info(const std::string& name) const;
  /// Throws unless the dataset is there with exactly this type and shape.
  void require(const std::string& name, const Shape& shape, StoredType type) const;

  /// This rank's slab; `data` takes product(extent) elements of type `type`, which must be the
  /// dataset's, in the memory of the host or of a device. An extent of 0 reads nothing.
  void read_slab(const std::string& name, StoredType type, const Shape& offset, const Shape& extent,
                 void* data, Count count = Count::copy);
  /// Whether the dataset carries a checksum. Espalier's do; those of other programs may not, and
  /// are then not verified.
  bool has_checksum(const std::string& name) const { return info(name).checksum.has_value(); }
  /// What was counted on any rank since the last call, has a checksum and does not match it, by
  /// name. Internal if a dataset was counted in part, or twice.
  std::vector<DatasetDamage> damaged_datasets();
  /// Throws one DataError on all ranks that names each of damaged_datasets() with both sums.
  void require_intact();
  /// The whole dataset on every rank, after require(name, shape, type): one rank reads it and
  /// verifies its checksum.
  void read_whole(const std::string& name, const Shape& shape, StoredType type, void* data);
  /// The same into a vector, with the shape that the file has.
  template <class T>
  std::vector<T> read_values(const std::string& name) {
    const DatasetInfo& found = info(name);
    const Shape shape = found.shape;
    require(name, shape, StoredTypeOf<T>::kType);
    std::vector<T> values(static_cast<size_t>(found.bytes) / sizeof(T));
    read_whole(name, shape, StoredTypeOf<T>::kType, values.data());
    return values;
  }
  std::string read_text(const std::string& name);

  /// `object`: "" for the file, else a group or a dataset.
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::string text_attribute(const std::string& object, const std::string& name) const;
  int64_t integer_attribute(const std::string& object, const std::string& name) const;
  double real_attribute(const std::string& object, const std::string& name) const;
  /// All attributes with their values as text, sorted by name: for people to read and to compare.
  std::vector<std::pair<std::string, std::string>> attributes(const std::string& object) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier
