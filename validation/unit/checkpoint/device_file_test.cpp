// SPDX-License-Identifier: Apache-2.0
// Slabs in device memory: files get the bytes that slabs of the host give, as the device's streams
// leave them, and what is read arrives there. In a host build the same with host memory.
#include <gtest/gtest.h>

#include "checkpoint/model_file.hpp"
#include "checkpoint/state_slabs.hpp"
#include "core/random.hpp"
#include "shared_folder.hpp"

namespace espalier {
namespace {

/// Numbers on the host, and the same on the device.
struct Twins {
  std::vector<float> host;
  Buffer<float> device;

  explicit Twins(std::vector<float> values)
      : host(std::move(values)),
        device("twins", static_cast<int64_t>(host.size()), Contents::undefined) {
    device::copy_and_wait(device.data(), host.data(), device.bytes());
  }
};

/// Element i of tensor `tensor` in row-major order.
float value_of(size_t tensor, int64_t i) {
  return static_cast<float>(philox(7, tensor, static_cast<uint64_t>(i)).v[0]) * 0x1p-32f;
}

enum class Cut { rows, columns };
struct Tensor {
  std::string name;
  Shape shape;
  Cut cut;
};
// Of the wide ones cut by columns the ranks exchange bands of rows: more than 256 runs in the file.
const std::vector<Tensor> kTensors = {{"a.weight", {41, 67}, Cut::rows},
                                      {"b.weight", {601, 24}, Cut::columns},
                                      {"c.weight", {300, 8}, Cut::columns},
                                      {"d.bias", {1013}, Cut::rows}};

std::vector<TensorRow> rows() {
  std::vector<TensorRow> all;
  int64_t offset = 0;
  for (const Tensor& t : kTensors) {
    all.push_back({t.name, t.shape, offset});
    offset += shape_bytes(t.shape, 1);
  }
  return all;
}

/// This rank's part of each tensor, one behind the other in memory.
struct Part {
  TensorSlabs slabs;  // data is not set
  std::vector<float> values;
};

Part own_part(int ranks, int rank) {
  Part part;
  for (size_t k = 0; k < kTensors.size(); ++k) {
    const Tensor& t = kTensors[k];
    const size_t cut = t.cut == Cut::rows ? 0 : 1;
    const Range range = cut_evenly(t.shape[cut], ranks, rank);
    TensorSlab slab{t.name, Shape(t.shape.size(), 0), t.shape, nullptr};
    slab.offset[cut] = range.first;
    slab.extent[cut] = range.count;
    const int64_t columns = t.shape.size() > 1 ? t.shape[1] : 1;
    const int64_t width = t.shape.size() > 1 ? slab.extent[1] : 1;
    const int64_t first_column = t.shape.size() > 1 ? slab.offset[1] : 0;
    for (int64_t r = 0; r < slab.extent[0]; ++r)
      for (int64_t c = 0; c < width; ++c)
        part.values.push_back(value_of(k, (slab.offset[0] + r) * columns + first_column + c));
    part.slabs.push_back(std::move(slab));
  }
  return part;
}

TensorSlabs placed(TensorSlabs slabs, const float* data) {
  for (TensorSlab& slab : slabs) {
    slab.data = data;
    data += shape_bytes(slab.extent, 1);
  }
  return slabs;
}

void write(const std::string& path, const TensorSlabs& slabs, TransferMode mode,
           const Comm* ranks = &world()) {
  FileOptions options;
  options.transfer = mode;
  options.piece_bytes = 3000;  // many pieces, and bands of some rows
  TensorFileWriter file(path, ranks, options);
  write_rows(file, "parameters", rows(), StoredType::fp32, slabs);
  file.close();
}

TEST(DeviceFile, HasTheBytesOfOneFromTheHost) {
  const SharedFolder folder;
  const Part whole = own_part(1, 0);
  if (world().rank() == 0)
    write(folder.file("serial.h5"), placed(whole.slabs, whole.values.data()),
          TransferMode::automatic, nullptr);
  const Part part = own_part(world().size(), world().rank());
  const Twins twins(part.values);
  EXPECT_EQ(device::is_device(twins.device.data()), device::kPresent);
  for (const TransferMode mode :
       {TransferMode::automatic, TransferMode::independent, TransferMode::collective}) {
    write(folder.file("device.h5"), placed(part.slabs, twins.device.data()), mode);
    if (world().rank() == 0) {
      EXPECT_TRUE(file_bytes(folder.file("serial.h5")) == file_bytes(folder.file("device.h5")))
          << "transfer " << static_cast<int>(mode);
    }
    world().barrier();
  }
}

// The host has not waited for the device when it begins to write.
TEST(DeviceFile, HoldsWhatWasComputedBefore) {
  const SharedFolder folder;
  const Part part = own_part(world().size(), world().rank());
  const Twins twins(part.values);
  const Buffer<float> state("state", twins.device.size());
  device::Stream::compute().synchronize();
  device::copy(state.data(), twins.device.data(), state.bytes());
  write(folder.file("late.h5"), placed(part.slabs, state.data()), TransferMode::automatic);
  write(folder.file("host.h5"), placed(part.slabs, part.values.data()), TransferMode::automatic);
  if (world().rank() == 0) {
    EXPECT_TRUE(file_bytes(folder.file("host.h5")) == file_bytes(folder.file("late.h5")));
  }
}

TEST(DeviceFile, ASnapshotKeepsTheStateOfItsInstant) {
  const Part part = own_part(1, 0);
  const Twins twins(part.values);
  const Buffer<float> state("state", twins.device.size());
  SlabSnapshot snapshot;
  for (int turn = 0; turn < 2; ++turn) {
    device::copy(state.data(), twins.device.data(), state.bytes());
    const TensorSlabs copies = snapshot.take(placed(part.slabs, state.data()));
    device::fill(state.data(), 0, state.bytes());  // training goes on
    device::Stream::compute().synchronize();
    EXPECT_EQ(snapshot.bytes(), state.bytes());
    size_t at = 0;
    for (const TensorSlab& slab : copies) {
      ASSERT_FALSE(device::is_device(slab.data));
      const auto* values = static_cast<const float*>(slab.data);
      for (int64_t i = 0; i < shape_bytes(slab.extent, 1); ++i, ++at)
        ASSERT_EQ(values[i], part.values[at]) << slab.name << " element " << i;
    }
    EXPECT_EQ(at, part.values.size());
  }
}

TEST(DeviceFile, SumsAreThoseOfTheHost) {
  // More than a piece: 1 MiB is 262,144 elements.
  std::vector<float> many(700001);
  for (size_t i = 0; i < many.size(); ++i) many[i] = value_of(9, static_cast<int64_t>(i));
  const Twins twins(many);
  const auto sums = [](const float* data) {
    return sum_slabs({{"x", {5, 0}, {1000, 300}, data}, {"y", {7}, {400000}, data + 300000}});
  };
  const auto expected = sums(twins.host.data());
  EXPECT_EQ(sums(twins.device.data()), expected);
  const std::vector<float> zeros(many.size(), 0.0f);
  EXPECT_NE(sums(zeros.data()), expected);
}

TEST(DeviceFile, IsReadIntoTheDevice) {
  const SharedFolder folder;
  const Part part = own_part(world().size(), world().rank());
  write(folder.file("model.h5"), placed(part.slabs, part.values.data()), TransferMode::automatic);
  const auto size = static_cast<int64_t>(part.values.size());
  const Buffer<float> own("own", size), moved("moved", size);
  TensorFileReader file(folder.file("model.h5"), &world());
  for (const TensorTarget& t : targets_of(placed(part.slabs, own.data())))
    file.read_slab("parameters/" + t.name, StoredType::fp32, t.offset, t.extent, t.data,
                   Count::once);
  EXPECT_TRUE(file.damaged_datasets().empty());
  device::copy(moved.data(), own.data(), moved.bytes());  // used at once
  std::vector<float> values(part.values.size());
  device::copy_and_wait(values.data(), moved.data(), moved.bytes());
  EXPECT_TRUE(values == part.values);

  // Every rank all of it: rank 0 reads.
  const Part whole = own_part(1, 0);
  const Buffer<float> all("all", static_cast<int64_t>(whole.values.size()));
  read_rows(file, "parameters", rows(), all.data());
  values.resize(whole.values.size());
  device::copy_and_wait(values.data(), all.data(), all.bytes());
  EXPECT_TRUE(values == whole.values);
}

}  // namespace
}  // namespace espalier
