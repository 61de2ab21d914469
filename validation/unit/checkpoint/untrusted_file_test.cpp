// SPDX-License-Identifier: Apache-2.0
// Files that Espalier did not write, or that were damaged: each is refused with its reason, and no
// memory beyond the file's own size is taken.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <functional>
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
enum class Form { of_today, earliest };
template <class Make>
void make_foreign(const std::string& path, const Make& make, Form form = Form::of_today) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, form == Form::earliest ? H5F_LIBVER_EARLIEST : H5F_LIBVER_V18,
                       H5F_LIBVER_V18);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  H5Pclose(access);
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

TEST(UntrustedFile, FormsWithoutChecksumsInHeaders) {
  const ScratchFolder folder;
  make_foreign(
      folder.file("old.h5"), [](hid_t) {}, Form::earliest);
  EXPECT_SAYS(open_message(folder.file("old.h5")), "an HDF5 file of an old form");
  make_foreign(folder.file("new.h5"), [](hid_t) {});
  EXPECT_EQ(open_message(folder.file("new.h5")), "");
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

/// A dataset of 8 doubles in chunks of `chunk`, of which the first `written` are written.
void make_chunked(const std::string& path, hsize_t chunk, hsize_t written, bool compressed) {
  make_foreign(path, [&](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 1, &chunk);
    if (compressed) H5Pset_shuffle(properties);
    const hid_t set = make_dataset(file, {8}, properties);
    const std::vector<double> values{0, 1, 2, 3, 4, 5, 6, 7};
    const hsize_t first = 0;
    const hid_t memory = H5Screate_simple(1, &written, nullptr), space = H5Dget_space(set);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &first, nullptr, &written, nullptr);
    H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, values.data());
    for (const hid_t id : {memory, space}) H5Sclose(id);
    H5Dclose(set);
    H5Pclose(properties);
  });
}

TEST(UntrustedFile, ChunksMustBePlainAndWhole) {
  const ScratchFolder folder;
  make_chunked(folder.file("good.h5"), 3, 8, false);
  EXPECT_EQ(TensorFileReader(folder.file("good.h5"), nullptr).read_values<double>("t"),
            (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  make_chunked(folder.file("part.h5"), 3, 4, false);
  EXPECT_SAYS(open_message(folder.file("part.h5")), "chunks without data");
  make_chunked(folder.file("filtered.h5"), 3, 8, true);
  EXPECT_SAYS(open_message(folder.file("filtered.h5")), "h5repack");
  // Chunks far larger than the dataset, whose data HDF5 would fetch whole; never written.
  make_foreign(folder.file("large.h5"), [](hid_t file) {
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = hsize_t{1} << 28, most = H5S_UNLIMITED, extent = 8;
    H5Pset_chunk(properties, 1, &chunk);
    const hid_t space = H5Screate_simple(1, &extent, &most);
    H5Dclose(H5Dcreate2(file, "t", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(properties);
  });
  EXPECT_SAYS(open_message(folder.file("large.h5")), "absurd");
}

TEST(UntrustedFile, DataElsewhere) {
  const ScratchFolder folder;
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

TEST(UntrustedFile, LinksAreRefusedByName) {
  const ScratchFolder folder;
  write_sample(folder.file("other.h5"));
  const auto says = [&](const char* part, const std::function<void(hid_t)>& link) {
    std::filesystem::remove(folder.file("linked.h5"));
    make_foreign(folder.file("linked.h5"), [&](hid_t file) {
      const hid_t group = H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      H5Gclose(group);
      link(file);
    });
    EXPECT_SAYS(open_message(folder.file("linked.h5")), part);
  };
  says("group/far: is a link to another file", [&](hid_t file) {
    H5Lcreate_external(folder.file("other.h5").c_str(), "/parameters", file, "group/far",
                       H5P_DEFAULT, H5P_DEFAULT);
  });
  says("soft: is a link to another name",
       [](hid_t file) { H5Lcreate_soft("/group", file, "soft", H5P_DEFAULT, H5P_DEFAULT); });
  says("group/none: is a link", [](hid_t file) {
    H5Lcreate_soft("/nowhere", file, "group/none", H5P_DEFAULT, H5P_DEFAULT);
  });
  says("twin: is a second name",
       [](hid_t file) { H5Lcreate_hard(file, "group", file, "twin", H5P_DEFAULT, H5P_DEFAULT); });
  says("group/loop: is a second name",
       [](hid_t file) { H5Lcreate_hard(file, "/", file, "group/loop", H5P_DEFAULT, H5P_DEFAULT); });
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
