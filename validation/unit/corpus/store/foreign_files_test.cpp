// SPDX-License-Identifier: Apache-2.0
// Files of nanoGPT, llm.c and Megatron-LM, laid out as those programs write them, and damaged ones.
//
// Layouts   nanoGPT data/openwebtext/prepare.py (a bare array of uint16); llm.c
//           dev/data/data_common.py; Megatron-LM megatron/core/datasets/indexed_dataset.py
#include "corpus/store/foreign_files.hpp"

#include <gtest/gtest.h>

#include "store_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::ids_as;
using testing::kMegatronIds;
using testing::llmc_bytes;
using testing::MegatronParts;
using testing::read_all;
using testing::TempFolder;

using Tokens = std::vector<int32_t>;

const ForeignRules kRules{50257, 50256, VerifyData::full};
const ForeignRules kRulesOf9{10, 9, VerifyData::full};

TEST(ForeignFiles, NanoGpt) {
  const TempFolder folder;
  const std::string path = folder.write("train.bin", ids_as<uint16_t>({5, 50256, 0, 7, 50256}));
  EXPECT_EQ(find_kind(path), FileKind::nanogpt);
  const auto array = open_nanogpt(path, kRules);
  EXPECT_EQ(read_all(*array), (Tokens{5, 50256, 0, 7, 50256}));
  EXPECT_EQ(array->end_of_document(), 50256);
  EXPECT_EQ(array->vocab_size(), 0);
  EXPECT_EQ(array->tokenizer(), "");
  EXPECT_FALSE(array->has_index());
  int32_t one = 0;
  array->read(3, 1, &one);
  EXPECT_EQ(one, 7);
  EXPECT_THROW(array->read(4, 2, &one), InternalError);
  folder.write("odd.bin", "abc");
  EXPECT_CONTAINS(data_error([&] { open_nanogpt(folder.at("odd.bin"), kRules); }), "3 bytes");
  folder.write("none.bin", "");
  EXPECT_CONTAINS(data_error([&] { find_kind(folder.at("none.bin")); }), "is empty");
}

TEST(ForeignFiles, IdsAreHeldAgainstTheModel) {
  const TempFolder folder;
  const std::string path = folder.write("a.bin", ids_as<uint16_t>({5, 6, 50257, 7}));
  EXPECT_CONTAINS(data_error([&] { open_nanogpt(path, kRules); }), "token 2 has id 50257");
  const auto array = open_nanogpt(path, {50257, 50256, VerifyData::header});
  Tokens two(2);
  array->read(0, 2, two.data());
  EXPECT_EQ(two, (Tokens{5, 6}));
  EXPECT_CONTAINS(data_error([&] { array->read(1, 2, two.data()); }),
                  "token 2 has id 50257, but ids must be in [0, 50257), model.vocab_size");
  EXPECT_EQ(read_all(*open_nanogpt(path, {0, -1, VerifyData::full}))[2], 50257);
}

TEST(ForeignFiles, LlmcGpt2AndLlama3) {
  const TempFolder folder;
  const std::string gpt2 =
      folder.write("g.bin", llmc_bytes<uint16_t>(20240520, 1, {50256, 1, 2, 50256, 65535}));
  EXPECT_EQ(find_kind(gpt2), FileKind::llmc);
  EXPECT_EQ(read_all(*open_llmc(gpt2, {65536, 50256, VerifyData::full})),
            (Tokens{50256, 1, 2, 50256, 65535}));
  const std::string llama =
      folder.write("l.bin", llmc_bytes<uint32_t>(20240801, 7, {128000, 3, 128255}));
  EXPECT_EQ(find_kind(llama), FileKind::llmc);
  EXPECT_EQ(read_all(*open_llmc(llama, {128256, 128000, VerifyData::full})),
            (Tokens{128000, 3, 128255}));
  const std::string big = folder.write("b.bin", llmc_bytes<uint32_t>(20240801, 7, {4294967295}));
  EXPECT_CONTAINS(data_error([&] { open_llmc(big, {0, -1, VerifyData::full}); }), "4294967295");
}

TEST(ForeignFiles, LlmcThatIsNotRight) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& bytes) {
    const std::string path = folder.write("a.bin", bytes);
    EXPECT_EQ(find_kind(path), FileKind::llmc);
    return data_error([&] { open_llmc(path, kRules); });
  };
  const std::string good = llmc_bytes<uint16_t>(20240520, 1, {1, 2});
  EXPECT_EQ(refusal(good), "no exception");
  EXPECT_CONTAINS(refusal(llmc_bytes<uint16_t>(20240520, 2, {1, 2})), "version 2");
  EXPECT_CONTAINS(refusal(llmc_bytes<uint32_t>(20240801, 1, {1, 2})), "version 1");
  EXPECT_CONTAINS(refusal(good.substr(0, 1026)), "counts 2 tokens");
  EXPECT_CONTAINS(refusal(good + "x"), "counts 2 tokens");
  EXPECT_CONTAINS(refusal(good.substr(0, 1024)), "no more than the header");
  EXPECT_CONTAINS(refusal(good.substr(0, 6)), "no more than the header");
  std::string negative = good;
  negative[11] = '\xff';
  EXPECT_CONTAINS(refusal(negative), "its header counts -");
  folder.write("eval.bin", llmc_bytes<uint16_t>(20240522, 1, {1, 2}));
  EXPECT_EQ(find_kind(folder.at("eval.bin")), FileKind::llmc_evaluation);
}

template <class Stored>
void expect_megatron(uint8_t type) {
  const TempFolder folder;
  folder.write("m.bin", ids_as<Stored>(kMegatronIds));
  folder.write("m.idx", MegatronParts::golden(type, sizeof(Stored)).bytes());
  for (const char* name : {"m", "m.idx", "m.bin"}) {
    for (const VerifyData verify : {VerifyData::full, VerifyData::header}) {
      const auto array = open_megatron(folder.at(name), {10, 9, verify});
      EXPECT_EQ(read_all(*array), (Tokens{1, 2, 3, 4, 9, 5, 9}));
      EXPECT_TRUE(array->has_index());
      ASSERT_EQ(array->documents(), 3);
      EXPECT_EQ(array->document_begin(0), 0);
      EXPECT_EQ(array->document_begin(1), 5);
      EXPECT_EQ(array->document_begin(2), 5);
      EXPECT_EQ(array->document_begin(3), 7);
      EXPECT_EQ(array->path(), folder.at("m.bin"));
    }
  }
  EXPECT_EQ(find_kind(folder.at("m.idx")), FileKind::megatron);
  EXPECT_EQ(find_kind(folder.at("m.bin")), FileKind::megatron);
}

TEST(ForeignFiles, MegatronOfEveryType) {
  expect_megatron<uint8_t>(1);
  expect_megatron<int8_t>(2);
  expect_megatron<int16_t>(3);
  expect_megatron<int32_t>(4);
  expect_megatron<int64_t>(5);
  expect_megatron<uint16_t>(8);
}

class MegatronTest : public ::testing::Test {
 protected:
  std::string refusal(VerifyData verify = VerifyData::full) const {
    folder_.write("m.idx", parts_.bytes());
    return data_error([&] {
      const auto array = open_megatron(folder_.at("m"), {10, 9, verify});
      for (int64_t i = 0; i <= array->documents(); ++i) array->document_begin(i);
    });
  }
  TempFolder folder_;
  MegatronParts parts_ = MegatronParts::golden(4, 4);
  std::string ids_ = folder_.write("m.bin", ids_as<int32_t>(kMegatronIds));
};

TEST_F(MegatronTest, GoodOnesPass) {
  EXPECT_EQ(refusal(), "no exception");
  EXPECT_EQ(refusal(VerifyData::header), "no exception");
}

TEST_F(MegatronTest, HeaderAndTypes) {
  parts_.version = 2;
  EXPECT_CONTAINS(refusal(), "version 2");
  parts_.version = 1;
  parts_.type = 7;
  EXPECT_CONTAINS(refusal(), "floating-point");
  parts_.type = 9;
  EXPECT_CONTAINS(refusal(), "type code 9");
  parts_.type = 4;
  parts_.modes = std::string(3, '\1');
  EXPECT_CONTAINS(refusal(), "multimodal");
  parts_.modes = "x";
  EXPECT_CONTAINS(refusal(), "its counts make");
  folder_.write("m.idx", std::string("TNTIDX\0\0", 8) + std::string(100, '\0'));
  EXPECT_CONTAINS(data_error([&] { open_megatron(folder_.at("m"), kRulesOf9); }), "MMIDIDX");
}

TEST_F(MegatronTest, EveryTruncationIsRefused) {
  const std::string good = parts_.bytes();
  for (size_t size = 0; size < good.size(); ++size) {
    folder_.write("m.idx", good.substr(0, size));
    EXPECT_CONTAINS(data_error([&] {
                      open_megatron(folder_.at("m"), {10, 9, VerifyData::header});
                    }),
                    "m.idx: ");
  }
}

TEST_F(MegatronTest, PointersThatLeaveGapsAreRefused) {
  parts_.pointers = {0, 16, 24};
  parts_.lengths = {3, 2, 1};
  EXPECT_CONTAINS(refusal(), "sequence 1 is at byte 16 of the .bin, not at 12");
  parts_.lengths = {3, 2, 2};
  parts_.pointers = {8, 0, 20};
  EXPECT_CONTAINS(refusal(), "only sequences in order and without gaps are read");
  EXPECT_CONTAINS(refusal(VerifyData::header), "only sequences in order");
  parts_.pointers = {0, -4, 20};
  EXPECT_CONTAINS(refusal(), "is at byte -4");
  parts_.pointers = {0, 12, 20};
  parts_.lengths = {3, 2, 3};
  EXPECT_CONTAINS(refusal(VerifyData::header), "its sequences end at token 8");
  parts_.lengths = {3, -2, 2};
  EXPECT_CONTAINS(refusal(VerifyData::header), "has -2 tokens");
}

TEST_F(MegatronTest, DocumentsAreChecked) {
  parts_.documents = {0, 2, 2, 2};
  EXPECT_CONTAINS(refusal(VerifyData::header), "its documents do not begin with the first");
  parts_.documents = {0, 2, 4, 3};
  EXPECT_CONTAINS(refusal(VerifyData::header), "begins with sequence 4 of 3");
  parts_.documents = {0, 3, 2, 3};
  EXPECT_CONTAINS(refusal(), "begins at token 7 and ends at 5");
  parts_.documents = {0};
  EXPECT_CONTAINS(refusal(), "or empty");
  parts_.documents = {0, 1, 2, 3};  // the first now ends with 3
  EXPECT_CONTAINS(refusal(VerifyData::header), "document 0 ends with id 3");
  folder_.write("m.bin", ids_as<int32_t>({1, 2, 9, 4, 3, 5, 9}));
  EXPECT_EQ(refusal(VerifyData::header), "no exception");  // only the ends are looked at
  EXPECT_CONTAINS(refusal(), "document 1 ends with id 3, not with data.end_of_document = 9");
}

TEST_F(MegatronTest, IdsAndSizesOfTheBin) {
  folder_.write("m.bin", ids_as<int32_t>({1, 2, -3, 4, 9, 5, 9}));
  EXPECT_CONTAINS(refusal(), "token 2 has id -3");
  folder_.write("m.bin", ids_as<int32_t>({1, 2, 3, 10, 9, 5, 9}));
  EXPECT_CONTAINS(refusal(), "token 3 has id 10");
  folder_.write("m.bin", ids_as<int32_t>({1, 2, 3, 4, 9, 5, 9, 9}));
  EXPECT_CONTAINS(refusal(), "its sequences end at token 7");
  folder_.write("m.bin", ids_as<int32_t>(kMegatronIds) + "x");
  EXPECT_CONTAINS(refusal(), "29 bytes are no multiple");
  std::filesystem::remove(folder_.at("m.bin"));
  EXPECT_CONTAINS(refusal(), "m.bin: cannot be opened");
}

TEST_F(MegatronTest, LargeIdsOf64Bits) {
  parts_ = MegatronParts::golden(5, 8);
  folder_.write("m.bin", ids_as<int64_t>({1, 2, int64_t{1} << 32, 4, 9, 5, 9}));
  EXPECT_CONTAINS(refusal(), "token 2 has id 4294967296");
}

}  // namespace
}  // namespace espalier
