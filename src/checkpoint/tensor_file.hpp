// SPDX-License-Identifier: Apache-2.0
// HDF5 files of named tensors, written and read by all ranks of a communicator together, or by one
// process alone. The bytes of a file follow from its content: neither the number of ranks nor the
// time enters them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/stored_type.hpp"

namespace espalier {

class Comm;

/// Writes a file of named datasets and attributes. The file appears under its name only when
/// close() has found it whole on every rank: until then it is PATH.part.
///
/// Collective  over `ranks`, every method, with the same arguments on every rank but for slabs and
///             data. Data is host memory, row-major.
/// Errors      DataError with file, dataset and HDF5's words
class TensorFileWriter {
 public:
  /// `ranks` null: this process writes alone. It must outlive the writer.
  TensorFileWriter(const std::string& path, const Comm* ranks);
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

  /// This rank's part of a dataset: `extent` elements from `offset` on. A rank without a part
  /// passes an extent of 0. Elements that no rank writes are undefined.
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

  /// Flushes, closes, agrees with all ranks, makes it durable (fsync of file and folder) and
  /// renames it to its name. Throws on every rank when any rank failed.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a dataset is, by its own header.
struct DatasetInfo {
  StoredType type = StoredType::other;
  Shape shape;
  int64_t bytes = 0;  // stored; never more than the file has
};

/// Reads such a file and trusts nothing in it: only contiguous datasets within the file itself are
/// accepted, links to other files are not followed, sizes are checked before memory is taken.
///
/// Collective  over `ranks`, every method, with the same arguments but for slabs
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
  /// dataset's. An extent of 0 reads nothing.
  void read_slab(const std::string& name, StoredType type, const Shape& offset, const Shape& extent,
                 void* data);
  /// The whole dataset on every rank, after require(name, shape, type): one rank reads it.
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

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier
