// SPDX-License-Identifier: Apache-2.0
// Tensor files written and read by one process: what goes in comes out, equal content gives equal
// bytes, and a file that could not be written whole never appears.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "checkpoint/tensor_file.hpp"
#include "core/error.hpp"
#include "scratch_folder.hpp"
#include "tensor/types.hpp"

namespace espalier {
namespace {

TEST(TensorFile, ReturnsEveryTypeAndShape) {
  const ScratchFolder folder;
  const std::vector<float> f{1.5f, -2.25f, 3e-30f, 4, 5, 6};
  const std::vector<double> d{M_PI};
  const std::vector<int32_t> i{-1, 7};
  const std::vector<int64_t> l{int64_t{1} << 60};
  const std::vector<bf16> b{bf16(1.5f), bf16(-3.0f)};
  const std::vector<fp16> h{fp16(0.5f), fp16(-65504.0f), fp16(6e-8f)};
  {
    TensorFileWriter out(folder.file("a.h5"), nullptr);
    out.write_tensor("x/y/floats", {2, 3}, f.data());
    out.write_tensor("pi", {}, d.data());
    out.write_tensor("x/ints", {2}, i.data());
    out.write_tensor("longs", {1, 1, 1}, l.data());
    out.write_tensor<float>("none", {0, 5}, nullptr);
    out.create_dataset("b", {2}, ElementType::bf16);
    out.write_replicated("b", b.data());
    out.create_dataset("h", {3}, ElementType::fp16);
    out.write_replicated("h", h.data());
    out.close();
  }
  TensorFileReader in(folder.file("a.h5"), nullptr);
  EXPECT_EQ(in.datasets().size(), 7u);
  EXPECT_EQ(in.read_values<float>("x/y/floats"), f);
  EXPECT_EQ(in.info("x/y/floats").shape, (Shape{2, 3}));
  EXPECT_EQ(in.read_values<double>("pi"), d);
  EXPECT_TRUE(in.info("pi").shape.empty());
  EXPECT_EQ(in.read_values<int32_t>("x/ints"), i);
  EXPECT_EQ(in.read_values<int64_t>("longs"), l);
  EXPECT_TRUE(in.read_values<float>("none").empty());
  std::vector<bf16> b2(2);
  in.read_whole("b", {2}, StoredType::bf16, b2.data());
  std::vector<fp16> h2(3);
  in.read_whole("h", {3}, StoredType::fp16, h2.data());
  for (size_t k = 0; k < 2; ++k) EXPECT_EQ(b[k].bits, b2[k].bits);
  for (size_t k = 0; k < 3; ++k) EXPECT_EQ(h[k].bits, h2[k].bits);
}

TEST(TensorFile, ReturnsTextsAndAttributes) {
  const ScratchFolder folder;
  const std::string deck(200000, 'k');
  {
    TensorFileWriter out(folder.file("a.h5"), nullptr);
    out.write_text("deck", deck);
    out.write_text("empty", "");
    out.create_group("model");
    out.set_attribute("", "program", "espalier \xc3\xa9");
    out.set_attribute("model", "theta", 1e4);
    out.set_attribute("model", "heads", int64_t{-7});
    out.set_attribute("deck", "nothing", "");
    for (int k = 0; k < 40; ++k) out.set_attribute("model", "key" + std::to_string(k), int64_t{k});
    out.close();
  }
  TensorFileReader in(folder.file("a.h5"), nullptr);
  EXPECT_EQ(in.read_text("deck"), deck);
  EXPECT_EQ(in.read_text("empty"), "");
  EXPECT_EQ(in.text_attribute("", "program"), "espalier \xc3\xa9");
  EXPECT_EQ(in.real_attribute("model", "theta"), 1e4);
  EXPECT_EQ(in.integer_attribute("model", "heads"), -7);
  EXPECT_EQ(in.integer_attribute("model", "key39"), 39);
  EXPECT_EQ(in.text_attribute("deck", "nothing"), "");
  EXPECT_TRUE(in.has_attribute("model", "theta"));
  EXPECT_FALSE(in.has_attribute("model", "beta"));
}

TEST(TensorFile, WritesAndReadsSlabs) {
  const ScratchFolder folder;
  const std::vector<int32_t> left{0, 1, 3, 4, 6, 7, 9, 10}, right{2, 5, 8, 11};
  {
    TensorFileWriter out(folder.file("a.h5"), nullptr);
    out.create_dataset("t", {4, 3}, StoredType::int32);
    out.write_slab("t", {0, 0}, {4, 2}, left.data());
    out.write_slab("t", {0, 2}, {4, 1}, right.data());
    out.write_slab("t", {4, 0}, {0, 3}, nullptr);
    out.close();
  }
  TensorFileReader in(folder.file("a.h5"), nullptr);
  EXPECT_EQ(in.read_values<int32_t>("t"),
            (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  std::vector<int32_t> middle(4);
  in.read_slab("t", StoredType::int32, {1, 1}, {2, 2}, middle.data());
  EXPECT_EQ(middle, (std::vector<int32_t>{4, 5, 7, 8}));
  in.read_slab("t", StoredType::int32, {0, 0}, {0, 3}, nullptr);
  EXPECT_THROW(in.read_slab("t", StoredType::int32, {3, 0}, {2, 3}, middle.data()), InternalError);
  EXPECT_THROW(in.read_slab("t", StoredType::int32, {0, -1}, {1, 1}, middle.data()), InternalError);
}

void write_sample(const std::string& path) {
  TensorFileWriter out(path, nullptr);
  const std::vector<float> values(1000, 0.5f);
  for (int k = 0; k < 50; ++k)
    out.write_tensor("parameters/layers." + std::to_string(k), {100, 10}, values.data());
  out.set_attribute("", "step", int64_t{3});
  out.close();
}

TEST(TensorFile, HoldsNoTime) {
  const ScratchFolder folder;
  write_sample(folder.file("a.h5"));
  sleep(2);  // HDF5's time stamps are in whole seconds
  write_sample(folder.file("b.h5"));
  EXPECT_EQ(file_bytes(folder.file("a.h5")), file_bytes(folder.file("b.h5")));
}

TEST(TensorFile, AppearsOnlyWhenClosed) {
  const ScratchFolder folder;
  const std::string path = folder.file("a.h5");
  write_bytes(path, "the old one");
  {
    TensorFileWriter out(path, nullptr);
    out.create_dataset("t", {4}, StoredType::fp32);
    EXPECT_EQ(file_bytes(path), "the old one");
  }
  EXPECT_EQ(file_bytes(path), "the old one");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  write_sample(path);
  EXPECT_NO_THROW(TensorFileReader(path, nullptr));
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST(TensorFile, NamesTheFolderThatIsMissing) {
  const ScratchFolder folder;
  const std::string message =
      message_of<DataError>([&] { TensorFileWriter(folder.file("no/a.h5"), nullptr); });
  EXPECT_NE(message.find(folder.file("no")), std::string::npos) << message;
  EXPECT_NE(message.find("create it"), std::string::npos) << message;
}

TEST(TensorFile, LeavesTheOldFileWhenTheDiskIsFull) {
  const ScratchFolder folder;
  const std::string path = folder.file("a.h5");
  write_bytes(path, "the old one");
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1 << 16, old_limit.rlim_max};  // writes beyond 64 KiB fail as on a full disk
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::vector<double> values(100000, 1.0);
  const std::string message = message_of<DataError>([&] {
    TensorFileWriter out(path, nullptr);
    out.write_tensor("parameters/large", {100000}, values.data());
    out.close();
  });
  setrlimit(RLIMIT_FSIZE, &old_limit);
  signal(SIGXFSZ, old_handler);
  EXPECT_NE(message.find(path), std::string::npos) << message;
  EXPECT_NE(message.find("parameters/large"), std::string::npos) << message;
  EXPECT_NE(message.find("HDF5: "), std::string::npos) << message;
  EXPECT_EQ(file_bytes(path), "the old one");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  write_sample(path);  // with space again, the same process succeeds
  EXPECT_NO_THROW(TensorFileReader(path, nullptr));
}

}  // namespace
}  // namespace espalier
