// SPDX-License-Identifier: Apache-2.0
// Every way of writing a tensor file, by any number of ranks: the same bytes (of chunked files: the
// same content), whole checksums, and an error instead of a hang when the disk is full.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "blueprint/partition.hpp"
#include "checkpoint/tensor_file.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "shared_folder.hpp"

namespace espalier {
namespace {

struct Tensor {
  std::string name;
  Shape shape;
  int64_t size() const { return shape_bytes(shape, 1); }
};

// Cut by columns, by rows, and by rows in turn; with rows that no rank count divides, one that is
// split inside a row by small pieces, and three dimensions.
const std::vector<Tensor> kTensors = {
    {"columns", {17, 1030}}, {"cube", {30, 10, 14}}, {"empty", {0, 5}}, {"narrow", {300, 4}},
    {"rows", {101, 300}},    {"turns", {24, 50}},    {"vector", {1003}}};

float value_of(const std::string& name, int64_t index) {
  return static_cast<float>(static_cast<int64_t>(random_bits(4, hash_name(name), index) % 20001) -
                            10000) *
         0.125f;
}

/// The slabs of one rank, with their data behind them.
struct Content {
  TensorSlabs slabs;
  std::vector<std::unique_ptr<std::vector<float>>> data;

  void add(const Tensor& t, Shape offset, Shape extent) {
    auto values = std::make_unique<std::vector<float>>();
    Shape at(extent.size(), 0);
    for (int64_t n = shape_bytes(extent, 1); n > 0; --n) {
      int64_t index = 0;
      for (size_t d = 0; d < at.size(); ++d) index = index * t.shape[d] + offset[d] + at[d];
      values->push_back(value_of(t.name, index));
      for (size_t d = at.size(); d-- > 0 && ++at[d] == extent[d];) at[d] = 0;
    }
    slabs.push_back({t.name, offset, extent, values->data()});
    data.push_back(std::move(values));
  }

  Content(int rank, int size) {
    for (const Tensor& t : kTensors) {
      if (t.name == "turns") {  // many slabs a rank, and none of the last rank if there are several
        const int writers = size > 1 ? size - 1 : 1;
        for (int64_t row = rank; rank < writers && row < 24; row += writers)
          add(t, {row, 0}, {1, 50});
        continue;
      }
      const size_t cut = t.name == "columns" || t.name == "narrow" ? 1 : t.name == "cube" ? 2 : 0;
      const Range part = cut_evenly(t.shape[cut], size, rank);
      Shape offset(t.shape.size(), 0), extent = t.shape;
      offset[cut] = part.first;
      extent[cut] = part.count;
      add(t, offset, extent);
    }
  }
};

void write_file(const std::string& path, const Comm* ranks, const FileOptions& options) {
  const Content own(ranks ? ranks->rank() : 0, ranks ? ranks->size() : 1);
  TensorFileWriter out(path, ranks, options);
  for (const Tensor& t : kTensors) out.create_dataset("a/" + t.name, t.shape, StoredType::fp32);
  out.create_dataset("b", {3}, StoredType::int64);
  out.write_text("deck", "seed = 1\n");
  out.write_slabs("a", own.slabs);
  const std::vector<int64_t> history{1, 2, 3};
  out.write_replicated("b", history.data());
  out.close();
}

FileOptions with(TransferMode transfer, StorageLayout layout = StorageLayout::contiguous) {
  FileOptions options;
  options.transfer = transfer;
  options.layout = layout;
  options.chunk_bytes = 4096;
  options.piece_bytes = world().size() == 1 ? 3000 : 20000;  // less than a row of `columns`
  return options;
}

const std::map<std::string, TransferMode> kModes = {{"automatic", TransferMode::automatic},
                                                    {"independent", TransferMode::independent},
                                                    {"collective", TransferMode::collective}};

TEST(FileOptions, BytesDependNeitherOnRanksNorOnTheTransfer) {
  const SharedFolder folder;
  for (const auto& [name, mode] : kModes) write_file(folder.file(name), &world(), with(mode));
  FileOptions hinted = with(TransferMode::collective);
  hinted.mpi_info = {"romio_cb_write=enable", "cb_buffer_size=8192"};
  write_file(folder.file("hinted"), &world(), hinted);
  write_file(folder.file("default"), &world(), {});
  if (world().rank() != 0) return;
  write_file(folder.file("serial"), nullptr, {});
  const std::string serial = file_bytes(folder.file("serial"));
  EXPECT_GT(serial.size(), size_t{200000});
  for (const char* name : {"automatic", "independent", "collective", "hinted", "default"})
    EXPECT_TRUE(serial == file_bytes(folder.file(name))) << name;
}

// What a second call leaves alone keeps what the first one wrote, also in rows that it writes to.
TEST(FileOptions, ColumnsMayComeInSeveralCalls) {
  const SharedFolder folder;
  const Tensor t{"narrow", {300, 4}};
  TensorFileWriter out(folder.file("t"), &world());
  out.create_dataset("narrow", t.shape, StoredType::fp32);
  for (int64_t column = 0; column < 4; ++column) {
    Content own(0, 1);
    own.slabs.clear();
    if (column % world().size() == world().rank()) own.add(t, {0, column}, {300, 1});
    out.write_slabs("", own.slabs);
  }
  out.close();
  TensorFileReader in(folder.file("t"), &world());
  const std::vector<float> values = in.read_values<float>("narrow");
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], value_of("narrow", static_cast<int64_t>(i))) << i;
}

/// Every tensor read by rows, each rank its own, and counted.
void expect_content(const std::string& path) {
  TensorFileReader in(path, &world());
  for (const Tensor& t : kTensors) {
    EXPECT_TRUE(in.has_checksum("a/" + t.name));
    const Range rows = cut_evenly(t.shape[0], world().size(), world().rank());
    Shape offset(t.shape.size(), 0), extent = t.shape;
    offset[0] = rows.first;
    extent[0] = rows.count;
    std::vector<float> values(static_cast<size_t>(shape_bytes(extent, 1)));
    in.read_slab("a/" + t.name, StoredType::fp32, offset, extent, values.data(), Count::once);
    const int64_t width = t.shape[0] == 0 ? 0 : t.size() / t.shape[0];
    int64_t wrong = 0;
    for (size_t i = 0; i < values.size(); ++i)
      wrong += values[i] != value_of(t.name, rows.first * width + static_cast<int64_t>(i));
    EXPECT_EQ(wrong, 0) << path << " " << t.name;
  }
  EXPECT_NO_THROW(in.require_intact());
  EXPECT_EQ(in.read_text("deck"), "seed = 1\n");
  EXPECT_EQ(in.read_values<int64_t>("b"), (std::vector<int64_t>{1, 2, 3}));
}

TEST(FileOptions, EveryLayoutAndTransferKeepsTheContent) {
  const SharedFolder folder;
  for (const StorageLayout layout : {StorageLayout::contiguous, StorageLayout::chunked})
    for (const auto& [name, mode] : kModes) {
      write_file(folder.file(name), &world(), with(mode, layout));
      expect_content(folder.file(name));
    }
}

TEST(FileOptions, ChecksumsDoNotDependOnTheLayout) {
  const SharedFolder folder;
  write_file(folder.file("chunked"), &world(),
             with(TransferMode::automatic, StorageLayout::chunked));
  write_file(folder.file("plain"), &world(), {});
  FileOptions none;
  none.checksums = false;
  write_file(folder.file("none"), &world(), none);
  const TensorFileReader chunked(folder.file("chunked"), &world());
  const TensorFileReader plain(folder.file("plain"), &world());
  for (const auto& [name, info] : plain.datasets()) {
    EXPECT_EQ(info.checksum, chunked.info(name).checksum) << name;
    EXPECT_EQ(info.bytes != 0, info.checksum.value_or(0) != 0) << name;
  }
  const TensorFileReader unsummed(folder.file("none"), &world());
  EXPECT_FALSE(unsummed.has_checksum("a/rows"));
}

TEST(FileOptions, LargeDatasetsStartAligned) {
  const SharedFolder folder;
  FileOptions options;
  options.alignment = 65536;
  write_file(folder.file("aligned"), &world(), options);
  expect_content(folder.file("aligned"));
  const auto place_of = [&](const std::string& name, int64_t index) {
    const float value[4] = {value_of(name, index), value_of(name, index + 1),
                            value_of(name, index + 2), value_of(name, index + 3)};
    return file_bytes(folder.file("aligned"))
        .find(std::string(reinterpret_cast<const char*>(value), sizeof value));
  };
  EXPECT_EQ(place_of("columns", 0) % 65536, 0u);
  EXPECT_EQ(place_of("rows", 0) % 65536, 0u);
  EXPECT_NE(place_of("narrow", 0) % 65536, 0u);  // small: where it fits
}

// Damage at one rank's rows, and at a dataset that nobody counts.
TEST(FileOptions, NamesEveryDamagedDataset) {
  const SharedFolder folder;
  const std::string path = folder.file("bad");
  write_file(path, &world(), {});
  if (world().rank() == 0) {
    std::string bytes = file_bytes(path);
    for (const auto& [name, index] :
         std::map<std::string, int64_t>{{"rows", 101 * 300 - 4}, {"turns", 0}, {"vector", 5}}) {
      const float value[4] = {value_of(name, index), value_of(name, index + 1),
                              value_of(name, index + 2), value_of(name, index + 3)};
      const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(value), sizeof value));
      ASSERT_NE(at, std::string::npos) << name;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
    }
    write_bytes(path, bytes);
  }
  world().barrier();
  TensorFileReader in(path, &world());
  std::vector<float> buffer(101 * 300);
  const Range rows = cut_evenly(101, world().size(), world().rank());
  in.read_slab("a/rows", StoredType::fp32, {rows.first, 0}, {rows.count, 300}, buffer.data(),
               Count::once);
  const int last = world().size() - 1;
  if (world().rank() == last) {
    for (const char* name : {"a/turns", "a/columns"})
      in.read_slab(name, StoredType::fp32, {0, 0}, in.info(name).shape,
                   std::vector<float>(40000).data(), Count::once);
    in.read_slab("a/vector", StoredType::fp32, {0}, {1003}, buffer.data());
  }
  const std::string message = message_of<DataError>([&] { in.require_intact(); });
  EXPECT_NE(message.find("2 of its"), std::string::npos) << message;
  EXPECT_NE(message.find("a/rows: its checksum is"), std::string::npos) << message;
  EXPECT_NE(message.find("a/turns: its checksum is"), std::string::npos) << message;
  EXPECT_NE(message.find(path), std::string::npos) << message;
  EXPECT_TRUE(in.damaged_datasets().empty());  // nothing was counted since
  const std::string whole = message_of<DataError>(
      [&] { in.read_whole("a/vector", {1003}, StoredType::fp32, buffer.data()); });
  EXPECT_NE(whole.find("a/vector: its checksum is"), std::string::npos) << whole;
}

TEST(FileOptions, RefusesPartsThatAreCountedAsTheWhole) {
  const SharedFolder folder;
  write_file(folder.file("t"), &world(), {});
  TensorFileReader in(folder.file("t"), &world());
  std::vector<float> buffer(1003);
  if (world().rank() == 0)
    in.read_slab("a/vector", StoredType::fp32, {1}, {1002}, buffer.data(), Count::once);
  EXPECT_THROW(in.require_intact(), InternalError);
}

TEST(FileOptions, RefusesHintsWithoutAValue) {
  if (world().size() == 1) return;  // one rank uses no MPI-IO
  const SharedFolder folder;
  FileOptions options;
  options.mpi_info = {"romio_cb_write"};
  EXPECT_THROW(TensorFileWriter(folder.file("t"), &world(), options), InternalError);
}

// A small disk: only root may mount one.
TEST(FileOptions, AFullDiskIsFoundBeforeAnythingIsWritten) {
  const SharedFolder folder;
  const std::string disk = folder.file("disk");
  int32_t mounted = 0;
  if (world().rank() == 0) {
    ::mkdir(disk.c_str(), 0700);
    mounted = ::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=128k") == 0 ? 1 : 0;
  }
  world().broadcast(&mounted, 1, 0);
  if (!mounted) GTEST_SKIP() << "cannot mount a small tmpfs here";
  for (const auto& [name, mode] : kModes) {
    const std::string message =
        message_of<DataError>([&] { write_file(disk + "/t", &world(), with(mode)); });
    EXPECT_NE(message.find("disk/t.part: cannot reserve"), std::string::npos) << message;
    EXPECT_NE(message.find("free some space"), std::string::npos) << message;
    world().barrier();
    EXPECT_TRUE(std::filesystem::is_empty(disk));
    EXPECT_GE(std::filesystem::space(disk).available, 100000u);
    world().barrier();
  }
  if (world().rank() == 0) ::umount(disk.c_str());
}

}  // namespace
}  // namespace espalier
