// SPDX-License-Identifier: Apache-2.0
// State files: what was written comes back, and whatever does not fit is refused by name.
#include "checkpoint/state_file.hpp"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

#include "core/error.hpp"
#include "grid/comm.hpp"
#include "scratch_folder.hpp"
#include "state_problem.hpp"
#include "tensor/types.hpp"

namespace espalier {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

void expect_refused(const std::string& name, const std::function<void()>& action) {
  const std::string message = message_of(action);
  EXPECT_NE(message.find(name), std::string::npos) << "expected " << name << " in: " << message;
}

class StateFile : public ::testing::Test {
 protected:
  ScratchFolder scratch;
  StateProblem problem;
  std::string folder() const { return scratch.file("checkpoint"); }

  std::vector<StateFileEntry> write() {
    std::filesystem::create_directories(folder());
    return write_state(folder(), nullptr, problem.layout, problem.slabs, problem.progress,
                       problem.history);
  }
  /// A file of the given content beside what a state file must have.
  std::vector<StateFileEntry> write_by_hand(const std::function<void(TensorFileWriter&)>& add) {
    std::filesystem::create_directories(folder());
    TensorFileWriter file(folder() + "/state.h5", nullptr);
    add(file);
    file.close();
    return {{"state.h5", 0}};
  }
  static void add_head(TensorFileWriter& file, int64_t step) {
    file.set_attribute("", "format", "espalier state");
    for (const char* name : {"format_version", "files"}) file.set_attribute("", name, int64_t{1});
    file.set_attribute("", "file", int64_t{0});
    file.set_attribute("", "step", step);
    for (const char* name :
         {"consumed_tokens", "next_sequence", "seed", "optimizer_updates", "loss_scale_good_steps",
          "loss_scale_skipped_in_a_row", "loss_scale_skipped"})
      file.set_attribute("", name, int64_t{0});
    file.set_attribute("", "loss_scale", 1.0);
  }
};

TEST_F(StateFile, ComesBackWhole) {
  for (const int64_t count : {1, 2, 3, 6, 9}) {
    problem.layout.files = count;
    std::filesystem::remove_all(folder());
    const auto files = write();
    ASSERT_EQ(static_cast<int64_t>(files.size()), count);
    for (const StateFileEntry& f : files)
      EXPECT_EQ(f.bytes, static_cast<int64_t>(std::filesystem::file_size(folder() + "/" + f.name)));
    if (count > 6) continue;  // files without a tensor: see below
    StateReader reader(folder(), files, nullptr);
    const TrainingProgress &a = reader.progress(), &b = problem.progress;
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.consumed_tokens, b.consumed_tokens);
    EXPECT_EQ(a.next_sequence, b.next_sequence);
    EXPECT_EQ(a.seed, b.seed);
    EXPECT_EQ(a.optimizer_updates, b.optimizer_updates);
    EXPECT_EQ(a.loss_scale, b.loss_scale);
    EXPECT_EQ(a.loss_scale_skipped, b.loss_scale_skipped);
    EXPECT_EQ(reader.history().loss, problem.history.loss);
    EXPECT_EQ(reader.history().token_hash, problem.history.token_hash);
    EXPECT_EQ(reader.history().skipped, problem.history.skipped);
    EXPECT_EQ(reader.history().validation_step, problem.history.validation_step);
    reader.require(problem.layout.tensors, StoredType::fp32);
    reader.verify();
    const std::vector<float> expected = problem.values;
    std::fill(problem.values.begin(), problem.values.end(), 0.0f);
    reader.read(targets_of(problem.slabs));
    EXPECT_EQ(problem.values, expected);
    reader.require_intact(problem.slabs, Comm());
    problem.values[20] += 1.0f;
    expect_refused("optimizer/first_moment/norm.weight",
                   [&] { reader.require_intact(problem.slabs, Comm()); });
    problem.values = expected;
  }
}

TEST_F(StateFile, MoreFilesThanTensorsAreWhole) {
  problem.layout.files = 9;
  const auto files = write();
  StateReader reader(folder(), files, nullptr);
  reader.require(problem.layout.tensors, StoredType::fp32);
}

TEST_F(StateFile, PartsAreReadFromWhereTheyStand) {
  const auto files = write();
  StateReader reader(folder(), files, nullptr);
  float part[4] = {};
  reader.read({{"parameters/linear.weight", {1, 1}, {2, 2}, part}});
  const float* whole = problem.values.data() + 5;
  EXPECT_EQ(part[0], whole[4]);
  EXPECT_EQ(part[1], whole[5]);
  EXPECT_EQ(part[2], whole[7]);
  EXPECT_EQ(part[3], whole[8]);
}

// Parameters in bf16 beside moments in fp32: in their own width, and for a run with either master.
TEST_F(StateFile, Bf16ParametersComeBackInBothTypes) {
  std::vector<bf16> narrow(17);
  for (size_t i = 0; i < narrow.size(); ++i) narrow[i] = bf16(problem.values[i]);
  narrow[3].bits = 0x7fc1;  // a NaN keeps its bits
  for (size_t i = 0; i < 2; ++i) {
    problem.slabs[i].data = narrow.data() + (i == 0 ? 0 : 5);
    problem.slabs[i].type = StoredType::bf16;
  }
  problem.layout.types.parameters = StoredType::bf16;
  for (const int64_t count : {1, 3}) {
    problem.layout.files = count;
    std::filesystem::remove_all(folder());
    const auto files = write();
    StateReader reader(folder(), files, nullptr);
    EXPECT_EQ(reader.types().parameters, StoredType::bf16);
    EXPECT_EQ(reader.types().moments, StoredType::fp32);
    reader.require(problem.layout.tensors, StoredType::fp32);
    reader.verify();
    const std::vector<bf16> expected = narrow;
    std::fill(narrow.begin(), narrow.end(), bf16(0.0f));
    reader.read(targets_of(problem.slabs));
    EXPECT_EQ(std::memcmp(narrow.data(), expected.data(), 17 * sizeof(bf16)), 0);
    reader.require_intact(problem.slabs, Comm());
    narrow[7].bits ^= 1;
    expect_refused("parameters/linear.weight",
                   [&] { reader.require_intact(problem.slabs, Comm()); });
    narrow = expected;
    float wide[6] = {};
    reader.read({{"parameters/linear.weight", {1, 1}, {3, 2}, wide}});
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(wide[i],
                static_cast<float>(narrow[static_cast<size_t>(5 + 3 + i / 2 * 3 + 1 + i % 2)]));
    expect_refused("expected fp64",
                   [&] { reader.require(problem.layout.tensors, StoredType::fp64); });
  }
}

TEST_F(StateFile, Fp32ParametersAreRoundedForABf16Master) {
  problem.values[6] = 1.0f + 0x1p-8f + 0x1p-20f;  // nearest is up
  problem.values[7] = 1.0f + 0x1p-8f;             // a tie: to even, down
  const auto files = write();
  StateReader reader(folder(), files, nullptr);
  bf16 narrow[12];
  reader.read({{"parameters/linear.weight", {0, 0}, {4, 3}, narrow, StoredType::bf16}});
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(narrow[i].bits, bf16(problem.values[5 + i]).bits) << i;
  EXPECT_EQ(static_cast<float>(narrow[1]), 1.0f + 0x1p-7f);
  EXPECT_EQ(static_cast<float>(narrow[2]), 1.0f);
}

// A tensor larger than the buffer that it is converted through.
TEST_F(StateFile, ConvertsLargeTensorsPieceByPiece) {
  constexpr int64_t kRows = 700, kColumns = 900;
  std::vector<float> values(kRows * kColumns), zeros(values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.37f * static_cast<float>(i % 7919);
  problem.layout.tensors = {{"w", {kRows, kColumns}, 0}};
  problem.slabs.clear();
  for (const char* group : {kParameterGroup, kFirstMomentGroup, kSecondMomentGroup})
    problem.slabs.push_back({std::string(group) + "/w",
                             {0, 0},
                             {kRows, kColumns},
                             group == kParameterGroup ? values.data() : zeros.data()});
  const auto files = write();
  StateReader reader(folder(), files, nullptr);
  std::vector<bf16> part((kRows - 3) * (kColumns - 5));
  reader.read({{"parameters/w", {2, 4}, {kRows - 3, kColumns - 5}, part.data(), StoredType::bf16}});
  int64_t wrong = 0;
  for (int64_t r = 0; r < kRows - 3; ++r)
    for (int64_t c = 0; c < kColumns - 5; ++c)
      wrong += part[static_cast<size_t>(r * (kColumns - 5) + c)].bits !=
               bf16(values[static_cast<size_t>((r + 2) * kColumns + c + 4)]).bits;
  EXPECT_EQ(wrong, 0);
}

TEST_F(StateFile, OtherTypesAreRefused) {
  const auto refuse = [&](StoredType parameters, StoredType moments, const std::string& what) {
    std::filesystem::remove_all(folder());
    const auto files = write_by_hand([&](TensorFileWriter& file) {
      add_head(file, 0);
      const std::vector<double> any(2);
      file.create_dataset("parameters/a", {2}, parameters);
      file.create_dataset("optimizer/first_moment/a", {2}, moments);
      file.create_dataset("optimizer/second_moment/a", {2}, moments);
      for (const char* name :
           {"parameters/a", "optimizer/first_moment/a", "optimizer/second_moment/a"})
        file.write_replicated(name, any.data());
    });
    expect_refused(what, [&] { StateReader(folder(), files, nullptr); });
  };
  refuse(StoredType::fp16, StoredType::fp32, "parameters/a is stored as fp16, expected fp32");
  refuse(StoredType::fp32, StoredType::bf16, "first_moment/a is stored as bf16, expected fp32");
  refuse(StoredType::bf16, StoredType::fp64, "its parameters are stored as bf16, its moments as");
  refuse(StoredType::fp32, StoredType::fp64, "its parameters are stored as fp32, its moments as");
}

TEST_F(StateFile, AnotherModelIsRefusedTensorByTensor) {
  const auto files = write();
  StateReader reader(folder(), files, nullptr);
  auto rows = problem.layout.tensors;
  rows[0].shape = {6};
  rows.push_back({"output.weight", {2, 2}, 0});
  const std::string message = message_of([&] { reader.require(rows, StoredType::fp32); });
  for (const char* part : {"parameters/norm.weight: expected fp32 [6], found fp32 [5]",
                           "optimizer/second_moment/output.weight: missing", "6 of its tensors"})
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  rows.resize(1);
  rows[0].shape = {5};
  expect_refused("parameters/linear.weight: extra",
                 [&] { reader.require(rows, StoredType::fp32); });
  expect_refused("expected fp64",
                 [&] { reader.require(problem.layout.tensors, StoredType::fp64); });
}

TEST_F(StateFile, FilesOfTwoCheckpointsAreRefused) {
  problem.layout.files = 2;
  auto files = write();
  std::filesystem::rename(folder() + "/" + files[0].name, scratch.file("kept"));
  problem.progress.consumed_tokens += 1;
  write();
  std::filesystem::rename(scratch.file("kept"), folder() + "/" + files[0].name);
  expect_refused("two checkpoints", [&] { StateReader(folder(), files, nullptr); });
  std::swap(files[0], files[1]);
  expect_refused("file 2 of 2", [&] { StateReader(folder(), files, nullptr); });
}

TEST_F(StateFile, ForeignContentIsRefused) {
  const float value[2] = {1.0f, 2.0f};
  const int32_t number[2] = {1, 2};
  const auto refuse = [&](const std::string& name, int64_t step,
                          const std::function<void(TensorFileWriter&)>& add) {
    std::filesystem::remove_all(folder());
    const auto files = write_by_hand([&](TensorFileWriter& file) {
      add_head(file, step);
      add(file);
    });
    expect_refused(name, [&] { StateReader(folder(), files, nullptr); });
  };
  refuse("holds no tensors", 0, [](TensorFileWriter&) {});
  refuse("surprise", 0, [&](TensorFileWriter& f) { f.write_tensor("surprise", {2}, value); });
  refuse("parameters/x is stored as int32", 0,
         [&](TensorFileWriter& f) { f.write_tensor("parameters/x", {2}, number); });
  refuse("parameters/x has the shape", 0, [&](TensorFileWriter& f) {
    f.write_tensor("parameters/x", {2, 1, 1}, value);
  });
  refuse("parameters/x has the shape", 0,
         [&](TensorFileWriter& f) { f.write_tensor("parameters/x", {}, value); });
  const auto with_moments = [&](TensorFileWriter& f) {
    for (const char* group : {kParameterGroup, kFirstMomentGroup, kSecondMomentGroup})
      f.write_tensor(std::string(group) + "/x", {2}, value);
  };
  refuse("history/loss is missing", 3, with_moments);
  refuse("optimizer/first_moment/x is missing", 0,
         [&](TensorFileWriter& f) { f.write_tensor("parameters/x", {2}, value); });
  refuse("optimizer/second_moment/x has the shape [1]", 0, [&](TensorFileWriter& f) {
    f.write_tensor("parameters/x", {2}, value);
    f.write_tensor("optimizer/first_moment/x", {2}, value);
    f.write_tensor("optimizer/second_moment/x", {1}, value);
  });
  refuse("attribute colour is no part", 0, [&](TensorFileWriter& f) {
    with_moments(f);
    f.set_attribute("", "colour", "blue");
  });
  refuse("step is 1000000001", 1000000001, with_moments);
  refuse("step is -1", -1,
         [&](TensorFileWriter& f) { f.write_tensor("parameters/x", {2}, value); });
}

TEST_F(StateFile, ProgressThatCannotBeIsRefused) {
  const auto refuse = [&](const std::string& what, const std::function<void()>& change) {
    problem = StateProblem();
    change();
    const auto files = write();
    expect_refused(what, [&] { StateReader(folder(), files, nullptr); });
  };
  refuse("optimizer_updates is 6", [&] { problem.progress.optimizer_updates = 6; });
  refuse("consumed_tokens is -1", [&] { problem.progress.consumed_tokens = -1; });
  refuse("next_sequence is 1152921504606846977",
         [&] { problem.progress.next_sequence = (int64_t{1} << 60) + 1; });
  refuse("loss_scale is nan", [&] { problem.progress.loss_scale = std::nan(""); });
}

// Whatever the files look like, a state has one digest; another bit anywhere gives another one.
TEST_F(StateFile, DigestsAreOfTheStateAlone) {
  const auto digest = [&] {
    std::filesystem::remove_all(folder());
    const auto files = write();
    return StateReader(folder(), files, nullptr).digest();
  };
  const std::string first = digest();
  EXPECT_EQ(first.size(), 16u);
  for (const int64_t count : {2, 3, 9}) {
    problem.layout.files = count;
    EXPECT_EQ(digest(), first) << count;
  }
  problem.layout.options.layout = StorageLayout::chunked;
  problem.layout.options.chunk_bytes = 16;
  EXPECT_EQ(digest(), first);
  const auto differs = [&](auto& value, auto other) {
    const auto before = std::exchange(value, other);
    EXPECT_NE(digest(), first);
    value = before;
  };
  differs(problem.values.back(), problem.values.back() + 1.0f);
  differs(problem.progress.next_sequence, int64_t{41});
  differs(problem.progress.loss_scale, std::nextafter(512.0, 600.0));
  differs(problem.history.token_hash[1], int64_t{77});
  differs(problem.history.validation_loss[0], 3.0);
  EXPECT_EQ(digest(), first);
}

TEST_F(StateFile, TheDigestIsAsDocumented) {
  const auto files = write();
  std::string text =
      "step=5\nconsumed_tokens=1234\nnext_sequence=40\nseed=-7\noptimizer_updates=4\n"
      "loss_scale=4080000000000000\nloss_scale_good_steps=0\nloss_scale_skipped_in_a_row=0\n"
      "loss_scale_skipped=1\n";
  const TensorFileReader file(folder() + "/state.h5", nullptr);
  for (const auto& [name, info] : file.datasets())
    text += fmt::format("{}={:016x}\n", name, *info.checksum);
  const StateReader reader(folder(), files, nullptr);
  EXPECT_EQ(reader.digest(), fmt::format("{:016x}", XXH3_64bits(text.data(), text.size())));
  reader.require_those_of(5, reader.digest());
  expect_refused("state.h5: its state files are not those",
                 [&] { reader.require_those_of(5, "0123456789abcdef"); });
  expect_refused("two checkpoints", [&] { reader.require_those_of(6, reader.digest()); });
}

// The second file of another run at the same step, with the same progress.
TEST_F(StateFile, AFileOfAnotherRunChangesTheDigest) {
  problem.layout.files = 2;
  const auto files = write();
  const std::string digest = StateReader(folder(), files, nullptr).digest();
  std::filesystem::rename(folder() + "/" + files[0].name, scratch.file("kept"));
  for (float& value : problem.values) value += 1.0f;
  write();
  std::filesystem::rename(scratch.file("kept"), folder() + "/" + files[0].name);
  StateReader mixed(folder(), files, nullptr);
  EXPECT_TRUE(mixed.damaged_tensors().empty());
  expect_refused("state.1of2.h5 to state.2of2.h5: its state files are not those",
                 [&] { mixed.require_those_of(5, digest); });
}

TEST_F(StateFile, HistoryThatDoesNotFitIsRefused) {
  problem.history.loss.pop_back();
  auto files = write();
  expect_refused("history/loss", [&] { StateReader(folder(), files, nullptr); });
  problem = StateProblem();
  problem.history.validation_step = {4, 2};
  files = write();
  expect_refused("history/validation_step", [&] { StateReader(folder(), files, nullptr); });
  problem.history.validation_step = {2, 9};
  files = write();
  expect_refused("history/validation_step", [&] { StateReader(folder(), files, nullptr); });
}

TEST_F(StateFile, OtherFilesAreRefused) {
  const float value[2] = {1.0f, 2.0f};
  const auto files = write_by_hand([&](TensorFileWriter& file) {
    file.set_attribute("", "format", "espalier model");
    file.write_tensor("parameters/x", {2}, value);
  });
  expect_refused("is not a state file", [&] { StateReader(folder(), files, nullptr); });
  expect_refused("no state file", [&] { StateReader(folder(), {}, nullptr); });
}

}  // namespace
}  // namespace espalier
