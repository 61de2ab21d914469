// SPDX-License-Identifier: Apache-2.0
// Files that Espalier did not write, or that were damaged: each is refused with its reason, and no
// memory beyond the file's own size is taken.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <limits>

#include "checkpoint/tensor_file.hpp"
#include "core/error.hpp"
#include "scratch_folder.hpp"

namespace espalier {
namespace {

std::string open_message(const std::string& path) {
  return message_of<DataError>([&] { TensorFileReader reader(path, nullptr); });
}

#define EXPECT_SAYS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

/// A file that holds one dataset made by `make(file)`, by the plain HDF5 interface.
template <class Make>
void make_foreign(const std::string& path, const Make& make) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  make(file);
  ASSERT_GE(H5Fclose(file), 0);
}

TEST(UntrustedFile, MissingFolderAndForeignFiles) {
  const ScratchFolder folder;
  EXPECT_SAYS(open_message(folder.file("no.h5")), "no such file");
  EXPECT_SAYS(open_message(folder.file("")), "not a regular file");
  write_bytes(folder.file("text"), "This is no HDF5 file, but long enough to be looked at.\n");
  EXPECT_SAYS(open_message(folder.file("text")), "not an HDF5 file");
  write_bytes(folder.file("empty"), "");
  EXPECT_SAYS(open_message(folder.file("empty")), "not an HDF5 file");
}

void write_sample(const std::string& path) {
  TensorFileWriter out(path, nullptr);
  const std::vector<double> values(64, 0.5);
  for (int k = 0; k < 12; ++k)
    out.write_tensor("parameters/t" + std::to_string(k), {8, 8}, values.data());
  out.set_attribute("", "step", int64_t{3});
  out.close();
}

TEST(UntrustedFile, TruncatedAtEveryLength) {
  const ScratchFolder folder;
  write_sample(folder.file("whole.h5"));
  const std::string bytes = file_bytes(folder.file("whole.h5"));
  ASSERT_EQ(open_message(folder.file("whole.h5")), "");
  for (size_t length = 0; length < bytes.size(); length += 97) {
    write_bytes(folder.file("cut.h5"), bytes.substr(0, length));
    EXPECT_SAYS(open_message(folder.file("cut.h5")), folder.file("cut.h5"));
  }
}

TEST(UntrustedFile, FlippedBytesInTheHeadersAreSeen) {
  const ScratchFolder folder;
  write_sample(folder.file("whole.h5"));
  const std::string bytes = file_bytes(folder.file("whole.h5"));
  size_t refused = 0;
  // The superblock, 48 bytes with a checksum.
  for (size_t at = 0; at < 48; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write_bytes(folder.file("bad.h5"), damaged);
    refused += !open_message(folder.file("bad.h5")).empty();
  }
  EXPECT_EQ(refused, 48u);
}

TEST(UntrustedFile, NamesTypeAndShapeExpectedAndFound) {
  const ScratchFolder folder;
  write_sample(folder.file("a.h5"));
  TensorFileReader in(folder.file("a.h5"), nullptr);
  const std::string shape = message_of<DataError>([&] {
    in.require("parameters/t1", {8, 9}, StoredType::fp64);
  });
  EXPECT_SAYS(shape, "parameters/t1: expected fp64 [8, 9], found fp64 [8, 8]");
  const std::string type = message_of<DataError>([&] {
    in.require("parameters/t1", {8, 8}, StoredType::int64);
  });
  EXPECT_SAYS(type, "expected int64 [8, 8], found fp64 [8, 8]");
  const std::string rank =
      message_of<DataError>([&] { in.require("parameters/t1", {64}, StoredType::fp64); });
  EXPECT_SAYS(rank, "expected fp64 [64], found fp64 [8, 8]");
  EXPECT_SAYS(message_of<DataError>([&] { in.info("parameters/t99"); }), "parameters/t99");
  EXPECT_SAYS(message_of<DataError>([&] { in.read_values<float>("parameters/t1"); }), "fp64");
  EXPECT_SAYS(message_of<DataError>([&] { in.text_attribute("", "step"); }),
              "attribute step: expected text, found int64");
  EXPECT_SAYS(message_of<DataError>([&] { in.integer_attribute("", "seed"); }), "is missing");
  EXPECT_SAYS(message_of<DataError>([&] { in.integer_attribute("model", "seed"); }), "model");
}

hid_t make_dataset(hid_t file, const std::vector<hsize_t>& extents, hid_t properties,
                   hid_t type = H5T_NATIVE_DOUBLE) {
  const hid_t space = H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
  const hid_t set = H5Dcreate2(file, "t", type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  H5Sclose(space);
  return set;
}

TEST(UntrustedFile, AbsurdSizes) {
  const ScratchFolder folder;
  // Late allocation: the file stays small, whatever the shape claims.
  make_foreign(folder.file("large.h5"), [](hid_t file) {
    H5Dclose(make_dataset(file, {hsize_t{1} << 40, 4}, H5P_DEFAULT));
  });
  EXPECT_SAYS(open_message(folder.file("large.h5")), "but the file has");
  make_foreign(folder.file("unwritten.h5"),
               [](hid_t file) { H5Dclose(make_dataset(file, {2}, H5P_DEFAULT)); });
  EXPECT_SAYS(open_message(folder.file("unwritten.h5")), "never written");
  EXPECT_EQ(shape_bytes({int64_t{1} << 40, int64_t{1} << 40}, 4), -1);
  EXPECT_EQ(shape_bytes({-1}, 4), -1);
  EXPECT_EQ(shape_bytes({std::numeric_limits<int64_t>::max() / 4}, 4),
            std::numeric_limits<int64_t>::max() / 4 * 4);
}

TEST(UntrustedFile, DataElsewhereOrInChunks) {
  const ScratchFolder folder;
  make_foreign(folder.file("chunked.h5"), [](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk[1] = {4};
    H5Pset_chunk(properties, 1, chunk);
    H5Dclose(make_dataset(file, {8}, properties));
    H5Pclose(properties);
  });
  EXPECT_SAYS(open_message(folder.file("chunked.h5")), "h5repack");
  const std::string secret = folder.file("secret");
  write_bytes(secret, std::string(64, 's'));
  make_foreign(folder.file("external.h5"), [&](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(properties, secret.c_str(), 0, 64);
    H5Dclose(make_dataset(file, {8}, properties));
    H5Pclose(properties);
  });
  EXPECT_SAYS(open_message(folder.file("external.h5")), "another file");
}

TEST(UntrustedFile, LinksAreNotFollowed) {
  const ScratchFolder folder;
  write_sample(folder.file("other.h5"));
  make_foreign(folder.file("linked.h5"), [&](hid_t file) {
    H5Lcreate_external(folder.file("other.h5").c_str(), "/parameters", file, "parameters",
                       H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/parameters", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
  });
  TensorFileReader in(folder.file("linked.h5"), nullptr);
  EXPECT_TRUE(in.datasets().empty());
  EXPECT_SAYS(message_of<DataError>([&] { in.info("parameters/t1"); }), "missing");
  EXPECT_SAYS(message_of<DataError>([&] { in.has_attribute("parameters/t1", "x"); }),
              "not followed");
  EXPECT_SAYS(message_of<DataError>([&] { in.has_attribute("soft", "x"); }), "not followed");
}

TEST(UntrustedFile, OtherTypesAreListedButNotRead) {
  const ScratchFolder folder;
  make_foreign(folder.file("types.h5"), [](hid_t file) {
    const hid_t set = make_dataset(file, {2}, H5P_DEFAULT, H5T_STD_U16LE);
    const uint16_t values[2] = {1, 2};
    H5Dwrite(set, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(set);
  });
  TensorFileReader in(folder.file("types.h5"), nullptr);
  EXPECT_EQ(in.info("t").type, StoredType::other);
  EXPECT_SAYS(message_of<DataError>([&] { in.require("t", {2}, StoredType::bf16); }),
              "expected bf16 [2]");
}

}  // namespace
}  // namespace espalier
