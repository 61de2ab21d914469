// SPDX-License-Identifier: Apache-2.0
// espalier checkpoint as users start it, on one rank and on several: output and exit codes.
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "../checkpoint/sample_manifest.hpp"
#include "../checkpoint/scratch_folder.hpp"
#include "checkpoint/checkpoint_store.hpp"
#include "checkpoint/state_file.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

namespace fs = std::filesystem;

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

struct Outcome {
  int code = -1;
  std::string text;  // both streams
};

/// Runs espalier-spmd checkpoint ARGUMENTS on so many ranks.
Outcome run(int ranks, const std::string& arguments) {
  const std::string start =
      ranks == 1 ? "" : fmt::format("{} {} ", std::getenv("ESPALIER_TEST_MPIEXEC"), ranks);
  const std::string command =
      start + std::getenv("ESPALIER_TEST_SPMD") + " checkpoint " + arguments + " 2>&1";
  Outcome outcome;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  char text[4096];
  while (const size_t bytes = std::fread(text, 1, sizeof(text), pipe))
    outcome.text.append(text, bytes);
  const int status = ::pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

constexpr int64_t kRows = 700, kColumns = 900;

/// The state after two steps, of a model of two tensors; `change` is added to one weight.
struct SampleState {
  std::vector<float> weights, bias, zeros;
  StateLayout layout;
  TrainingProgress progress;
  RunHistory history;

  explicit SampleState(float change)
      : weights(kRows * kColumns), bias(7, 0.5f), zeros(kRows * kColumns) {
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 1000) * 0.25f;
    weights[kColumns * 3 + 5] += change;
    layout.tensors = {{"bias", {7}, 0}, {"weight", {kRows, kColumns}, 7}};
    progress.optimizer_updates = 2;
  }
  std::vector<StateFileEntry> write(const std::string& folder, int64_t step) {
    const auto rows = static_cast<size_t>(step);
    for (auto* column :
         {&history.loss, &history.gradient_norm, &history.learning_rate, &history.loss_scale})
      column->assign(rows, 2.0);
    history.skipped.assign(rows, 0);
    for (auto* column : {&history.tokens, &history.token_hash}) column->assign(rows, 3);
    progress.step = step;
    TensorSlabs slabs;
    for (const char* group : {kParameterGroup, kFirstMomentGroup, kSecondMomentGroup}) {
      const bool is_parameter = group == kParameterGroup;
      slabs.push_back({std::string(group) + "/bias", {0}, {7}, bias.data()});
      slabs.push_back({std::string(group) + "/weight",
                       {0, 0},
                       {kRows, kColumns},
                       is_parameter ? weights.data() : zeros.data()});
    }
    return write_state(folder, nullptr, layout, slabs, progress, history);
  }
};

class CheckpointVerbs : public ::testing::Test {
 protected:
  void save(int64_t step, float change = 0.0f, int64_t files = 1) {
    CheckpointStore store(run_ + "/checkpoints");
    const std::string folder = store.begin(step);
    SampleState state(change);
    state.layout.files = files;
    if (files > 1) state.zeros.back() = change;  // every file differs
    CheckpointManifest m = sample_manifest(step);
    m.files = state.write(folder, step);
    m.state_digest = StateReader(folder, m.files, nullptr).digest();
    store.publish(step, m);
  }
  /// A state file alone.
  std::string state_file(const std::string& name, float change) {
    const std::string folder = scratch_.file(name);
    fs::create_directories(folder);
    SampleState(change).write(folder, 10);
    return folder + "/state.h5";
  }
  std::string folder(int64_t step) const { return run_ + "/checkpoints/" + checkpoint_name(step); }
  /// Flips a bit of the float that stands `at` bytes behind the first run of data of weight.
  void damage(int64_t step) const {
    const std::string path = folder(step) + "/state.h5";
    std::string bytes = file_bytes(path);
    const float row[] = {0.0f, 0.25f, 0.5f, 0.75f, 1.0f};
    const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(row), sizeof(row)));
    ASSERT_NE(at, std::string::npos);
    bytes[at + 9] = static_cast<char>(bytes[at + 9] ^ 4);
    write_bytes(path, bytes);
  }

  ScratchFolder scratch_;
  std::string run_ = scratch_.file("run");
};

TEST_F(CheckpointVerbs, ListShowsWholeVerifiedAndDamagedOnes) {
  for (const int64_t step : {10, 20, 30}) save(step);
  CheckpointStore(run_ + "/checkpoints").mark_verified(10);
  fs::resize_file(folder(20) + "/state.h5", 100);
  const Outcome outcome = run(2, "list " + run_);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_SAYS(outcome.text, "*           30");
  EXPECT_SAYS(outcome.text, "8 (dp 2, tp 4)");
  EXPECT_SAYS(outcome.text, "DAMAGED: state.h5 has 100 bytes");
  EXPECT_SAYS(outcome.text, "verified");
  const Outcome none = run(1, "list " + scratch_.file("no"));
  EXPECT_EQ(none.code, 4);
  EXPECT_SAYS(none.text, "holds no checkpoints");
}

TEST_F(CheckpointVerbs, InspectShowsTheTree) {
  save(10);
  for (const std::string& path : {run_, folder(10), folder(10) + "/", folder(10) + "/state.h5"}) {
    const Outcome outcome = run(1, "inspect " + path);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_SAYS(outcome.text, "@step = 10");
    EXPECT_SAYS(outcome.text, "fp32 [700, 900]");
    EXPECT_SAYS(outcome.text, "fp64 [10]");
  }
  EXPECT_SAYS(run(1, "inspect " + run_).text, "pp 1 dp 2 cp 1 tp 4");
  EXPECT_SAYS(run(1, "inspect --deck " + run_).text, "[run]\nsteps = 20");
}

TEST_F(CheckpointVerbs, VerifyFindsAFlippedBitAndMarksWholeOnes) {
  for (const int64_t step : {10, 20}) save(step);
  for (const int ranks : {1, 3}) {
    const Outcome outcome = run(ranks, "verify " + run_);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_SAYS(outcome.text, "verified");
  }
  CheckpointStore store(run_ + "/checkpoints");
  EXPECT_TRUE(store.find("20").is_verified);
  EXPECT_FALSE(store.find("10").is_verified);
  damage(10);
  for (const int ranks : {1, 3}) {
    const Outcome outcome = run(ranks, "verify --all " + run_);
    EXPECT_EQ(outcome.code, 4);
    EXPECT_SAYS(outcome.text, folder(10) + "/state.h5: parameters/weight: its checksum is");
    EXPECT_SAYS(outcome.text, "1 of 2 damaged");
    EXPECT_EQ(outcome.text.find("parameters/bias"), std::string::npos);
  }
  EXPECT_FALSE(store.find("10").is_verified);
  EXPECT_EQ(run(2, "verify " + folder(20) + "/state.h5").code, 0);
  write_bytes(folder(20) + "/manifest.json", "{}");
  const Outcome broken = run(1, "verify " + folder(20));
  EXPECT_EQ(broken.code, 4);
  EXPECT_SAYS(broken.text, "manifest");
}

TEST_F(CheckpointVerbs, DiffTellsHowMuch) {
  save(10);
  save(20, 0.5f);
  const std::string same_file = state_file("same", 0.0f), other_file = state_file("other", 0.5f);
  for (const int ranks : {1, 3}) {
    const Outcome same = run(ranks, fmt::format("diff {} {}", folder(10), same_file));
    EXPECT_EQ(same.code, 0) << same.text;
    EXPECT_SAYS(same.text, "the same");
    const Outcome differ = run(ranks, fmt::format("diff {} {}", folder(10), other_file));
    EXPECT_EQ(differ.code, 5) << differ.text;
    EXPECT_SAYS(differ.text, "5.000e-01");
    EXPECT_SAYS(differ.text, "1 of 16 tensors and 1 of 1890091 elements differ");
    EXPECT_SAYS(differ.text, "DIFFERENT");
    EXPECT_EQ(run(ranks, fmt::format("diff --tolerance 0.1 {} {}", folder(10), other_file)).code,
              0);
  }
  const Outcome steps = run(1, fmt::format("diff {} {}", folder(10), folder(20)));
  EXPECT_EQ(steps.code, 5);
  EXPECT_SAYS(steps.text, "@step: 10 against 20");
  EXPECT_SAYS(steps.text, "history/loss: fp64 [10] against fp64 [20]");
  EXPECT_EQ(run(1, "diff " + same_file + " " + other_file).code, 5);
  TensorFileWriter out(scratch_.file("few.h5"), nullptr);
  const std::vector<double> bias(7);
  out.set_attribute("", "format", "espalier state");
  out.write_tensor("parameters/bias", {7}, bias.data());
  out.close();
  const Outcome few = run(1, "diff --tolerance 1 " + folder(10) + " " + scratch_.file("few.h5"));
  EXPECT_EQ(few.code, 5);
  EXPECT_SAYS(few.text, "parameters/bias: fp32 [7] against fp64 [7]");
  EXPECT_SAYS(few.text, "parameters/weight: only in");
}

// The same state in other files, and the parameters alone as another program's file holds them.
TEST_F(CheckpointVerbs, DiffOfOtherFilesAndFormats) {
  save(10);
  const std::string spread = scratch_.file("spread");
  fs::rename(run_, spread);
  save(10, 0.0f, 3);
  const std::string one = spread + "/checkpoints/" + checkpoint_name(10);
  const Outcome same = run(2, "diff " + folder(10) + " " + one);
  EXPECT_EQ(same.code, 0) << same.text;
  const auto write_model = [&](const std::string& name, float change) {
    const SampleState state(change);
    TensorFileWriter out(scratch_.file(name), nullptr);
    out.set_attribute("", "format", "espalier model");
    out.set_attribute("", "step", int64_t{10});
    out.write_tensor("parameters/bias", {7}, state.bias.data());
    out.write_tensor("parameters/weight", {kRows, kColumns}, state.weights.data());
    out.write_text("deck", "text");
    out.close();
    return scratch_.file(name);
  };
  const Outcome model = run(1, "diff " + one + " " + write_model("model.h5", 0.0f));
  EXPECT_EQ(model.code, 0) << model.text;
  EXPECT_SAYS(model.text, "different formats (espalier state and espalier model)");
  EXPECT_SAYS(model.text, "the 15 datasets that only one side has are left out");
  EXPECT_SAYS(model.text, "0 of 2 tensors");
  EXPECT_EQ(run(1, "diff " + one + " " + write_model("other.h5", 0.5f)).code, 5);
  TensorFileWriter none(scratch_.file("none.h5"), nullptr);
  none.write_text("deck", "text");
  none.close();
  const Outcome nothing = run(1, "diff " + one + " " + scratch_.file("none.h5"));
  EXPECT_EQ(nothing.code, 4);
  EXPECT_SAYS(nothing.text, "no tensor in common");
}

TEST_F(CheckpointVerbs, NumbersOutOfRange) {
  for (const char* value : {"nan", "inf", "-1", "much"}) {
    const Outcome outcome = run(1, fmt::format("diff --tolerance {} a b", value));
    EXPECT_EQ(outcome.code, 2) << outcome.text;
    EXPECT_SAYS(outcome.text, "is not a finite number of at least 0");
    EXPECT_LT(outcome.text.size(), 400u) << outcome.text;
  }
  const Outcome most = run(1, "diff --most 0 a b");
  EXPECT_EQ(most.code, 2);
  EXPECT_SAYS(most.text, "0 is not an integer of at least 1");
  EXPECT_SAYS(run(1, "prune --keep-last 0 a").text, "0 is not an integer of at least 1");
}

// What a run refuses to go on from, verify refuses too, and it marks nothing.
TEST_F(CheckpointVerbs, VerifyRefusesWhatResumeRefuses) {
  const auto refuses = [&](const std::string& what, const std::function<void(hid_t)>& change) {
    save(10);
    const std::string path = folder(10) + "/state.h5";
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    change(file);
    H5Fclose(file);
    // The size is told first; here it is to be another fault.
    CheckpointManifest m = CheckpointStore(run_ + "/checkpoints").find("10").manifest;
    m.files = {{"state.h5", static_cast<int64_t>(fs::file_size(path))}};
    write_bytes(folder(10) + "/manifest.json", manifest_json(m));
    for (const int ranks : {1, 2}) {
      const Outcome outcome = run(ranks, "verify " + folder(10));
      EXPECT_EQ(outcome.code, 4) << what;
      EXPECT_SAYS(outcome.text, "state.h5");
      EXPECT_SAYS(outcome.text, what);
    }
    EXPECT_FALSE(CheckpointStore(run_ + "/checkpoints").find("10").is_verified);
  };
  const auto set = [](const char* name, hid_t type, const auto& value) {
    return [=](hid_t file) {
      const hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
      H5Awrite(attribute, type, &value);
      H5Aclose(attribute);
    };
  };
  refuses("history/loss is missing",
          [](hid_t file) { H5Ldelete(file, "history/loss", H5P_DEFAULT); });
  refuses("optimizer/first_moment/bias is missing",
          [](hid_t file) { H5Ldelete(file, "optimizer", H5P_DEFAULT); });
  refuses("parameters/bias: is a link", [](hid_t file) {
    H5Lmove(file, "parameters/bias", file, "kept", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/kept", file, "parameters/bias", H5P_DEFAULT, H5P_DEFAULT);
  });
  refuses("attribute next_sequence", [](hid_t file) { H5Adelete(file, "next_sequence"); });
  refuses("consumed_tokens is -5", set("consumed_tokens", H5T_NATIVE_INT64, int64_t{-5}));
  refuses("loss_scale is nan", set("loss_scale", H5T_NATIVE_DOUBLE, std::nan("")));
  refuses("not those that the manifest", set("next_sequence", H5T_NATIVE_INT64, int64_t{7}));
}

TEST_F(CheckpointVerbs, FilesOfAnotherRunAreNotTaken) {
  save(10, 0.5f, 2);
  const std::string other = scratch_.file("other");
  fs::rename(run_, other);
  const auto exchange = [&](const std::string& name) {
    fs::copy_file(other + "/checkpoints/" + checkpoint_name(10) + "/" + name,
                  folder(10) + "/" + name, fs::copy_options::overwrite_existing);
    for (const int ranks : {1, 2}) {
      const Outcome outcome = run(ranks, "verify " + run_);
      EXPECT_EQ(outcome.code, 4) << outcome.text;
      EXPECT_SAYS(outcome.text, "its state files are not those that the manifest was written for");
    }
  };
  for (const char* name : {"state.1of2.h5", "state.2of2.h5"}) {
    save(10, 0.0f, 2);
    EXPECT_EQ(run(1, "verify " + run_).code, 0);
    exchange(name);
  }
  fs::remove_all(run_);
  save(10, 0.5f);
  fs::remove_all(other);
  fs::rename(run_, other);
  save(10);
  exchange("state.h5");
}

TEST_F(CheckpointVerbs, PruneKeepsWhatItIsTold) {
  for (int64_t step = 10; step <= 50; step += 10) save(step);
  const std::string options = "prune --keep-last 1 --keep-every 20 " + run_;
  const Outcome dry = run(1, options + " --dry-run");
  EXPECT_EQ(dry.code, 0);
  EXPECT_SAYS(dry.text, "would remove step-0000000010");
  EXPECT_TRUE(fs::exists(folder(10)));
  const Outcome outcome = run(2, options);
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  for (const int64_t step : {10, 30}) EXPECT_FALSE(fs::exists(folder(step)));
  for (const int64_t step : {20, 40, 50}) EXPECT_TRUE(fs::exists(folder(step)));
  // The deck of the sample is no whole deck.
  const Outcome without = run(1, "prune " + run_);
  EXPECT_EQ(without.code, 4);
  EXPECT_SAYS(without.text, "give --keep-last and --keep-every");
}

}  // namespace
}  // namespace espalier
