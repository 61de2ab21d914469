// SPDX-License-Identifier: Apache-2.0
// The model file and the gradient dump: round trips, and all that does not fit named at once.
#include <gtest/gtest.h>

#include "checkpoint/gradient_dump.hpp"
#include "checkpoint/model_attributes.hpp"
#include "checkpoint/model_file.hpp"
#include "core/error.hpp"
#include "deck/key_table.hpp"
#include "scratch_folder.hpp"
#include "tensor/types.hpp"

namespace espalier {
namespace {

// Offsets with gaps, as the parameter table pads them.
const std::vector<TensorRow> kRows{{"embedding.token.weight", {5, 3}, 0},
                                   {"layers.0.attention.norm.weight", {3}, 16},
                                   {"final_norm.weight", {3}, 32}};

template <class Real>
std::vector<Real> sample_values() {
  std::vector<Real> values(48);
  for (size_t i = 0; i < values.size(); ++i) values[i] = Real(0.1) * static_cast<Real>(i) - 2;
  return values;
}

ModelInfo sample_info() {
  ModelInfo info;
  info.program_version = "0.1.0";
  info.deck = "[run]\nseed = 9\n";
  info.step = 20;
  info.consumed_tokens = int64_t{1} << 40;
  info.seed = 9;
  return info;
}

template <class Real>
void check_round_trip() {
  const ScratchFolder folder;
  const std::string path = folder.file("model.h5");
  const std::vector<Real> values = sample_values<Real>();
  write_model(path, nullptr, kRows, StoredTypeOf<Real>::kType, whole_slabs(kRows, values.data()),
              sample_info());
  std::vector<Real> read(values.size(), Real(-99));
  const ModelInfo info = read_model(path, nullptr, kRows, read.data());
  EXPECT_EQ(info.deck, sample_info().deck);
  EXPECT_EQ(info.step, 20);
  EXPECT_EQ(info.consumed_tokens, int64_t{1} << 40);
  EXPECT_EQ(info.seed, 9);
  EXPECT_EQ(info.program_version, "0.1.0");
  EXPECT_EQ(info.config_hash.size(), 16u);
  size_t stored = 0;
  for (const TensorRow& row : kRows)
    for (int64_t i = row.offset; i < row.offset + shape_bytes(row.shape, 1); ++i, ++stored)
      EXPECT_EQ(read[static_cast<size_t>(i)], values[static_cast<size_t>(i)]);
  EXPECT_EQ(stored, 21u);
  EXPECT_EQ(read[15], Real(-99));  // padding stays untouched
  EXPECT_EQ(read_model_info(path, nullptr).config_hash, info.config_hash);
}

TEST(ModelFile, ReturnsWhatWasWrittenFloat) {
  check_round_trip<float>();
}
TEST(ModelFile, ReturnsWhatWasWrittenDouble) {
  check_round_trip<double>();
}

// The file of bf16 weights, for a reader that computes in fp32.
TEST(ModelFile, Bf16IsWidened) {
  const ScratchFolder folder;
  const std::string path = folder.file("model.h5");
  const std::vector<float> values = sample_values<float>();
  std::vector<bf16> narrow(values.begin(), values.end());
  TensorSlabs slabs = whole_slabs(kRows, values.data());
  for (size_t i = 0; i < kRows.size(); ++i) {
    slabs[i].data = narrow.data() + kRows[i].offset;
    slabs[i].type = StoredType::bf16;
  }
  write_model(path, nullptr, kRows, StoredType::bf16, slabs, sample_info());
  std::vector<float> read(values.size(), -99.0f);
  read_model(path, nullptr, kRows, read.data());
  for (const TensorRow& row : kRows)
    for (int64_t i = row.offset; i < row.offset + shape_bytes(row.shape, 1); ++i)
      EXPECT_EQ(read[static_cast<size_t>(i)], static_cast<float>(narrow[static_cast<size_t>(i)]));
  std::vector<double> wide(values.size());
  EXPECT_THROW(read_model(path, nullptr, kRows, wide.data()), DataError);
  // Slabs of another type than the file's are a fault of the program.
  EXPECT_THROW(write_model(path, nullptr, kRows, StoredType::fp32, slabs, sample_info()),
               InternalError);
}

TEST(ModelFile, ListsEveryTensorThatDoesNotFit) {
  const ScratchFolder folder;
  const std::string path = folder.file("model.h5");
  const std::vector<float> values = sample_values<float>();
  write_model(path, nullptr, kRows, StoredType::fp32, whole_slabs(kRows, values.data()),
              sample_info());
  const std::vector<TensorRow> other{{"embedding.token.weight", {5, 4}, 0},
                                     {"layers.1.attention.norm.weight", {3}, 32},
                                     {"final_norm.weight", {3}, 48}};
  std::vector<float> read(64, -1.0f);
  const std::string message =
      message_of<DataError>([&] { read_model(path, nullptr, other, read.data()); });
  for (const char* part :
       {"3 of the tensors", "embedding.token.weight: expected fp32 [5, 4], found fp32 [5, 3]",
        "layers.1.attention.norm.weight: missing, expected fp32 [3]",
        "layers.0.attention.norm.weight: extra, found fp32 [3]"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  for (const float x : read) EXPECT_EQ(x, -1.0f);
  std::vector<double> wide(64);
  const std::string type =
      message_of<DataError>([&] { read_model(path, nullptr, kRows, wide.data()); });
  EXPECT_NE(type.find("final_norm.weight: expected fp64 [3], found fp32 [3]"), std::string::npos)
      << type;
}

TEST(ModelFile, RefusesOtherFormatsAndDamagedDecks) {
  const ScratchFolder folder;
  {
    TensorFileWriter out(folder.file("foreign.h5"), nullptr);
    out.set_attribute("", "format", kGradientDumpFormat);
    out.close();
  }
  const std::string foreign =
      message_of<DataError>([&] { read_model_info(folder.file("foreign.h5"), nullptr); });
  EXPECT_NE(foreign.find("not a model file"), std::string::npos) << foreign;

  const std::string path = folder.file("model.h5");
  const std::vector<float> values = sample_values<float>();
  write_model(path, nullptr, kRows, StoredType::fp32, whole_slabs(kRows, values.data()),
              sample_info());
  std::string bytes = file_bytes(path);
  const size_t at = bytes.find("seed = 9");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 7] = '8';
  write_bytes(path, bytes);
  const std::string damaged = message_of<DataError>([&] { read_model_info(path, nullptr); });
  EXPECT_NE(damaged.find("deck: its checksum is"), std::string::npos) << damaged;
}

TEST(GradientDump, CarriesEveryModelKey) {
  const ScratchFolder folder;
  const std::string path = folder.file("dump.h5");
  Config config;
  config.model.vocab_size = 23;
  config.model.hidden_size = 12;
  config.model.num_layers = 2;
  config.model.num_heads = 4;
  config.model.num_kv_heads = 2;
  config.model.norm = NormKind::rmsnorm;
  config.model.position = PositionKind::rope;
  config.model.rope_style = RopeStyle::interleaved;
  config.model.rope_scaling = RopeScaling::llama3;
  config.model.rope_theta = 500000.5;
  config.model.activation = Activation::swiglu;
  config.model.residual = Residual::parallel;
  config.model.qk_norm = true;
  config.model.bias = false;
  const std::vector<int32_t> tokens{1, 2, 3, 4, 5, 6};
  const DumpTokens batch{2, 3, tokens.data(), tokens.data(), tokens.data(), tokens.data()};
  const std::vector<float> values = sample_values<float>();
  const TensorSlabs slabs = whole_slabs(kRows, values.data());
  write_gradient_dump(path, nullptr, kRows, {}, slabs, slabs, batch, config,
                      {"0.1.0", "[model]\n", 2.5});
  TensorFileReader in(path, nullptr);
  Config read;
  read_model_attributes(in, "model", read);
  size_t keys = 0;
  for (const Key& key : key_table()) {
    if (key.section != "model") continue;
    EXPECT_EQ(key.get(read), key.get(config)) << key.name;
    ++keys;
  }
  EXPECT_GE(keys, 26u);
  EXPECT_EQ(in.text_attribute("model", "activation"), "swiglu");
  EXPECT_EQ(in.read_values<double>("loss"), std::vector<double>{2.5});
  EXPECT_EQ(in.read_values<int32_t>("tokens/targets"), tokens);
  in.require("gradients/final_norm.weight", {3}, StoredType::fp32);
}

TEST(GradientDump, RefusesUnknownWordsAndValuesOutOfRange) {
  const ScratchFolder folder;
  const auto write = [&](const char* word, int64_t heads) {
    TensorFileWriter out(folder.file("a.h5"), nullptr);
    out.create_group("model");
    for (const Key& key : key_table()) {
      if (key.section != "model") continue;
      const KeyValue value = key.get(Config{});
      if (key.name == "activation")
        out.set_attribute("model", key.name, word);
      else if (key.name == "num_heads")
        out.set_attribute("model", key.name, heads);
      else if (key.type == KeyType::integer)
        out.set_attribute("model", key.name, int64_t{8});
      else if (key.type == KeyType::boolean)
        out.set_attribute("model", key.name, int64_t{1});
      else if (key.type == KeyType::real)
        out.set_attribute("model", key.name, std::get<double>(value));
      else
        out.set_attribute("model", key.name, std::get<std::string>(value));
    }
    out.close();
  };
  const auto message = [&] {
    return message_of<DataError>([&] {
      Config config;
      read_model_attributes(TensorFileReader(folder.file("a.h5"), nullptr), "model", config);
    });
  };
  write("gelu", 4);
  EXPECT_EQ(message(), "");
  write("relu", 4);
  EXPECT_NE(message().find("activation = relu: must be one of"), std::string::npos) << message();
  write("gelu", -4);
  EXPECT_NE(message().find("num_heads = -4"), std::string::npos) << message();
}

}  // namespace
}  // namespace espalier
