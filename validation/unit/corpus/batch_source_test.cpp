// SPDX-License-Identifier: Apache-2.0
// Micro-batches against windows worked out by hand, and the promise that no grouping changes them.
#include "corpus/batch_source.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "corpus/hash.hpp"
#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::random_text;
using testing::TempFolder;
using testing::write_documents;

Config small_config(const std::vector<std::string>& train, int64_t seq_length, int64_t micro,
                    int64_t global) {
  Config config;
  config.model.vocab_size = 257;
  config.batch = {seq_length, micro, global};
  config.data.train = train;
  config.data.validation = train;
  return config;
}

using Numbers = std::vector<int32_t>;

TEST(BatchSource, DocumentsInAWindow) {
  const TempFolder folder;
  // Tokens: a b # c d e # # f g h i #, windows of 6 (and one more): two of them.
  const auto path = write_documents(folder.at("a"), {"ab", "cde", "", "fghi"});
  Config config = small_config({path}, 6, 2, 2);
  MicroBatch batch;
  BatchSource(config, Stream::validation).fill(0, 0, batch);
  EXPECT_EQ(batch.sequences, 2);
  EXPECT_EQ(batch.length, 6);
  EXPECT_EQ(batch.inputs, (Numbers{'a', 'b', 256, 'c', 'd', 'e', 256, 256, 'f', 'g', 'h', 'i'}));
  EXPECT_EQ(batch.targets, (Numbers{'b', 256, -1, 'd', 'e', 256, -1, -1, 'g', 'h', 'i', 256}));
  EXPECT_EQ(batch.document_start, (Numbers{0, 0, 0, 3, 3, 3, 0, 1, 2, 2, 2, 2}));
  EXPECT_EQ(batch.positions, (Numbers{0, 1, 2, 0, 1, 2, 0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(batch.valid_tokens, 9);

  config.data.reset_positions = false;
  BatchSource(config, Stream::validation).fill(0, 0, batch);
  EXPECT_EQ(batch.positions, (Numbers{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(batch.document_start, (Numbers{0, 0, 0, 3, 3, 3, 0, 1, 2, 2, 2, 2}));

  config.data.reset_positions = true;
  config.data.document_mask = false;  // one document, and everything is predicted
  BatchSource(config, Stream::validation).fill(0, 0, batch);
  EXPECT_EQ(batch.targets, (Numbers{'b', 256, 'c', 'd', 'e', 256, 256, 'f', 'g', 'h', 'i', 256}));
  EXPECT_EQ(batch.positions, (Numbers{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(batch.document_start, Numbers(12, 0));
  EXPECT_EQ(batch.valid_tokens, 12);
}

std::vector<std::string> two_files(const TempFolder& folder) {
  std::vector<std::string> documents, more;
  for (uint64_t i = 0; i < 40; ++i) documents.push_back(random_text(i, 10 + i * 3));
  for (uint64_t i = 40; i < 60; ++i) more.push_back(random_text(i, 100));
  return {write_documents(folder.at("a"), documents), write_documents(folder.at("b"), more)};
}

/// Everything of a step, sequence by sequence, whatever the micro-batches.
MicroBatch whole_step(const BatchSource& source, int64_t step) {
  MicroBatch all, batch;
  for (int64_t m = 0; m < source.micro_batches(); ++m) {
    source.fill(step, m, batch);
    all.inputs.insert(all.inputs.end(), batch.inputs.begin(), batch.inputs.end());
    all.targets.insert(all.targets.end(), batch.targets.begin(), batch.targets.end());
    all.positions.insert(all.positions.end(), batch.positions.begin(), batch.positions.end());
    all.document_start.insert(all.document_start.end(), batch.document_start.begin(),
                              batch.document_start.end());
    all.valid_tokens += batch.valid_tokens;
    all.token_hash += batch.token_hash;
  }
  return all;
}

bool operator==(const MicroBatch& a, const MicroBatch& b) {
  return a.inputs == b.inputs && a.targets == b.targets && a.positions == b.positions &&
         a.document_start == b.document_start && a.valid_tokens == b.valid_tokens &&
         a.token_hash == b.token_hash;
}

TEST(BatchSource, GroupingChangesNothing) {
  const TempFolder folder;
  const auto files = two_files(folder);
  for (const DataSource kind : {DataSource::files, DataSource::random}) {
    for (const Stream stream : {Stream::train, Stream::validation}) {
      Config config = small_config(files, 12, 24, 24);
      config.data.source = kind;
      const BatchSource whole(config, stream);
      for (const int64_t micro : {1, 2, 3, 4, 6, 8, 12}) {
        config.batch.micro_batch_size = micro;
        const BatchSource cut(config, stream);
        for (const int64_t step : {0, 1, 7}) {
          EXPECT_TRUE(whole_step(cut, step) == whole_step(whole, step)) << micro;
        }
      }
    }
  }
}

// Another global batch size cuts the same stream of sequences.
TEST(BatchSource, GlobalBatchSizeCutsTheSameStream) {
  const TempFolder folder;
  Config config = small_config(two_files(folder), 12, 2, 4);
  const BatchSource small(config, Stream::train);
  config.batch.global_batch_size = 12;
  const BatchSource large(config, Stream::train);
  MicroBatch three;
  for (int64_t step = 15; step < 18; ++step) {
    const MicroBatch part = whole_step(small, step);
    three.inputs.insert(three.inputs.end(), part.inputs.begin(), part.inputs.end());
    three.token_hash += part.token_hash;
  }
  EXPECT_EQ(whole_step(large, 5).inputs, three.inputs);
  EXPECT_EQ(whole_step(large, 5).token_hash, three.token_hash);
}

TEST(BatchSource, HashIsAsDefinedAndSeesEveryChange) {
  const TempFolder folder;
  Config config = small_config(two_files(folder), 12, 3, 6);
  const BatchSource source(config, Stream::train);
  MicroBatch batch;
  source.fill(4, 1, batch);
  uint64_t expected = 0;
  for (int64_t row = 0; row < 3; ++row) {
    Numbers tokens(batch.inputs.begin() + row * 12, batch.inputs.begin() + (row + 1) * 12);
    tokens.push_back(batch.targets[static_cast<size_t>(row * 12 + 11)]);
    expected +=
        hash_bytes(tokens.data(), tokens.size() * 4, static_cast<uint64_t>(4 * 6 + 3 + row));
  }
  EXPECT_EQ(batch.token_hash, expected);
  std::set<uint64_t> hashes;
  for (int64_t step = 0; step < 500; ++step) hashes.insert(whole_step(source, step).token_hash);
  EXPECT_EQ(hashes.size(), 500u);  // epochs repeat windows, but at other positions
}

TEST(BatchSource, EachWindowOnceAnEpoch) {
  const TempFolder folder;
  Config config = small_config(two_files(folder), 12, 1, 1);
  config.data.validation = config.data.train;
  config.monitor.validation_batches = 1000000;
  const BatchSource train(config, Stream::train), plain(config, Stream::validation);
  const int64_t n = train.windows();
  ASSERT_EQ(plain.batches(), n);
  std::multiset<Numbers> windows;
  std::vector<Numbers> order[2];
  MicroBatch batch;
  for (int64_t p = 0; p < n; ++p) {
    plain.fill(p, 0, batch);
    windows.insert(batch.inputs);
  }
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::multiset<Numbers> seen;
    for (int64_t p = 0; p < n; ++p) {
      train.fill(epoch * n + p, 0, batch);
      seen.insert(batch.inputs);
      order[epoch].push_back(batch.inputs);
    }
    EXPECT_TRUE(seen == windows);
  }
  EXPECT_NE(order[0], order[1]);
  EXPECT_DOUBLE_EQ(train.epochs(n), 1.0);
  config.run.seed = 2;
  const BatchSource other(config, Stream::train);
  other.fill(0, 0, batch);
  MicroBatch second;
  other.fill(1, 0, second);
  EXPECT_FALSE(batch.inputs == order[0][0] && second.inputs == order[0][1]);
}

// Windows of two files: none crosses, and the plain order is file by file.
TEST(BatchSource, WindowsDoNotCrossFiles) {
  const TempFolder folder;
  const auto a = write_documents(folder.at("a"), {"aaaaaaaaaaa"});  // 12 tokens: 2 windows of 5
  const auto b = write_documents(folder.at("b"), {"bbbbbbbbb"});    // 10 tokens: 1 window
  Config config = small_config({a, b}, 5, 1, 1);
  const BatchSource source(config, Stream::validation);
  EXPECT_EQ(source.windows(), 3);
  EXPECT_EQ(source.tokens(), 22);
  MicroBatch batch;
  for (int64_t p = 0; p < 3; ++p) {
    source.fill(p, 0, batch);
    EXPECT_EQ(batch.inputs, Numbers(5, p < 2 ? 'a' : 'b'));
  }
}

TEST(BatchSource, ValidationNeverWraps) {
  const TempFolder folder;
  Config config = small_config(two_files(folder), 12, 4, 16);
  config.monitor.validation_batches = 1000000;
  const BatchSource all(config, Stream::validation);
  EXPECT_EQ(all.batches(), all.windows() / 16);
  MicroBatch batch;
  EXPECT_THROW(all.fill(all.batches(), 0, batch), InternalError);
  EXPECT_THROW(all.fill(0, 4, batch), InternalError);
  EXPECT_THROW(all.fill(-1, 0, batch), InternalError);
  config.monitor.validation_batches = 3;
  EXPECT_EQ(BatchSource(config, Stream::validation).batches(), 3);
}

// A short validation sees the whole of the held-out text, not its first language alone.
TEST(BatchSource, ValidationIsSpreadOverTheFiles) {
  const TempFolder folder;
  std::string text;
  for (char letter = 'a'; letter <= 'h'; ++letter) text += std::string(100, letter);
  Config config;
  config.model.vocab_size = 257;
  config.batch = {10, 1, 4};
  config.data.train = {write_documents(folder.at("t"), {"x" + random_text(1, 5000)})};
  config.data.validation = {write_documents(folder.at("v"), {text})};
  config.monitor.validation_batches = 2;
  const BatchSource source(config, Stream::validation);
  MicroBatch batch;
  for (int64_t i = 0; i < 8; ++i) {
    source.fill(i / 4, i % 4, batch);
    EXPECT_EQ(batch.inputs.front(), 'a' + i);
  }
  EXPECT_EQ(spread_window(3, 8, int64_t{1} << 60), 3 * (int64_t{1} << 57));
}

TEST(BatchSource, RefusesBadFiles) {
  const TempFolder folder;
  const auto good = write_documents(folder.at("good"), {random_text(1, 200)});
  const auto little = write_documents(folder.at("short"), {"abcd"});
  const auto source = [](const Config& config, Stream stream) {
    return data_error([&] { BatchSource(config, stream); });
  };
  Config config = small_config({good, little}, 10, 1, 1);
  EXPECT_CONTAINS(source(config, Stream::train), little + ": 5 tokens, but one sequence needs 11");
  config = small_config({good}, 10, 1, 1);
  config.model.vocab_size = 256;
  EXPECT_CONTAINS(source(config, Stream::train), "has 257 ids, but model.vocab_size = 256");
  config = small_config({good}, 10, 32, 32);
  EXPECT_CONTAINS(source(config, Stream::validation), "20 windows of 10 tokens in 1 file(s)");
  EXPECT_CONTAINS(source(config, Stream::validation), "takes 32");
  EXPECT_EQ(source(config, Stream::train), "no exception");  // training wraps
  config.data.train = {folder.at("none")};
  EXPECT_CONTAINS(source(config, Stream::train), "cannot be opened");
  config.data.train.clear();
  EXPECT_THROW(BatchSource(config, Stream::train), DeckError);
}

TEST(BatchSource, DamageIsFoundWhenVerifyingFullOrWhenRead) {
  const TempFolder folder;
  std::string bytes = testing::read_bytes(write_documents(folder.at("a"), {random_text(1, 200)}));
  bytes[128 + 2 * 33 + 1] = 3;
  Config config = small_config({folder.write("bad", bytes)}, 10, 1, 1);
  EXPECT_CONTAINS(data_error([&] { BatchSource(config, Stream::train); }), "are damaged");
  config.data.verify = VerifyData::header;
  const BatchSource source(config, Stream::train);
  MicroBatch batch;
  EXPECT_CONTAINS(data_error([&] {
                    for (int64_t step = 0; step < 20; ++step) source.fill(step, 0, batch);
                  }),
                  "token 33 has id");
}

TEST(BatchSource, RandomTokens) {
  Config config = small_config({}, 90, 10, 10);
  config.data.source = DataSource::random;
  config.model.vocab_size = 33;
  const BatchSource train(config, Stream::train), validation(config, Stream::validation);
  EXPECT_EQ(train.end_of_document(), 32);
  EXPECT_EQ(validation.batches(), 8);
  std::vector<int64_t> counts(33);
  MicroBatch batch;
  for (int64_t step = 0; step < 200; ++step) {
    train.fill(step, 0, batch);
    for (const int32_t token : batch.inputs) counts.at(static_cast<size_t>(token)) += 1;
  }
  // 180,000 tokens; each bound is five deviations.
  EXPECT_NEAR(static_cast<double>(counts[32]), 180000.0 / 30, 5 * std::sqrt(6000.0));
  for (size_t id = 0; id < 32; ++id) {
    EXPECT_NEAR(static_cast<double>(counts[id]), 174000.0 / 32, 5 * std::sqrt(5438.0));
  }
  EXPECT_FALSE(whole_step(train, 0).inputs == whole_step(validation, 0).inputs);
  // Neighbouring windows share a token, as in files.
  train.fill(0, 0, batch);
  EXPECT_TRUE(batch.targets[89] == batch.inputs[90] || batch.inputs[89] == 32);
  train.fill(int64_t{1} << 50, 0, batch);  // endless
  config.run.seed = 7;
  EXPECT_FALSE(whole_step(BatchSource(config, Stream::train), 0).inputs ==
               whole_step(train, 0).inputs);
  config.model.vocab_size = 1;
  EXPECT_THROW(BatchSource(config, Stream::train), DeckError);
}

}  // namespace
}  // namespace espalier
