// SPDX-License-Identifier: Apache-2.0
// Batches from real stores: packed by their indexes, mixed by name, with plans kept in the store.
#include <gtest/gtest.h>

#include <set>

#include "../store/store_files.hpp"
#include "corpus/batch_source.hpp"

namespace espalier {
namespace {

using testing::random_text;
using testing::TempFolder;

std::vector<std::string> documents_of(char first, uint64_t seed, int count) {
  std::vector<std::string> documents;
  for (int i = 0; i < count; ++i)
    documents.push_back(first + random_text(seed * 1000 + static_cast<uint64_t>(i),
                                            random_bits(seed, 4, static_cast<uint64_t>(i)) % 90));
  return documents;
}

Config store_config(const std::string& store) {
  Config config;
  config.model.vocab_size = 257;
  config.batch = {32, 2, 4};
  config.data.train = config.data.validation = {store};
  return config;
}

// Every document of the training part, and none that is held out, once an epoch.
TEST(StoreBatch, PacksEachDocumentOnceAnEpoch) {
  const TempFolder folder;
  testing::StoreBuilder store(folder.at("store"));
  std::vector<std::string> documents = documents_of('A', 1, 80);
  const std::vector<std::string> more = documents_of('B', 2, 60);
  store.add("a", "en", documents);
  store.add("b", "de", more);
  store.manifest.sources[1].weight = store.manifest.sources[0].weight;
  store.finish();
  documents.insert(documents.end(), more.begin(), more.end());
  Config config = store_config(store.path());
  config.data.packing = Packing::best_fit;
  config.data.long_documents = LongDocuments::drop;
  config.batch = {96, 1, 1};
  std::multiset<std::string> expected, seen;
  for (const std::string& text : documents)
    if (!is_held_out(text, store.manifest.held_out, store.manifest.seed)) expected.insert(text);
  for (int again = 0; again < 2; ++again) {  // with the plans made, and with the plans mapped
    const BatchSource source(config, Stream::train);
    MicroBatch batch;
    seen.clear();
    for (int64_t p = 0; p < source.windows(); ++p) {
      source.fill(p, 0, batch);
      std::string text;
      for (int64_t i = 0; i < 96 - batch.padding; ++i) {
        const int32_t token = batch.inputs[static_cast<size_t>(i)];
        if (token != 256) {
          text += static_cast<char>(token);
          continue;
        }
        seen.insert(text);
        text.clear();
      }
      EXPECT_EQ(text, "");
    }
    EXPECT_TRUE(seen == expected);
    EXPECT_EQ(source.packing().dropped_documents, 0);
    EXPECT_TRUE(std::filesystem::exists(folder.at("store/packing/train-a-00001-96-drop.plan")));
  }
}

TEST(StoreBatch, MixesByNameAndByManifest) {
  const TempFolder folder;
  testing::StoreBuilder store(folder.at("store"));
  store.add("a", "en", documents_of('A', 1, 80));
  store.add("b", "de", documents_of('B', 2, 60));  // the builder's weights are 1 and 2
  store.finish();
  Config config = store_config(store.path());
  const BatchSource by_manifest(config, Stream::train);
  const auto uses = by_manifest.sources(0);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[1].name, "b");
  EXPECT_EQ(uses[1].language, "de");
  const double a = static_cast<double>(uses[0].tokens),
               b = 2.0 * static_cast<double>(uses[1].tokens);
  EXPECT_NEAR(uses[1].share, b / (a + b), 1e-4);
  config.data.weights = {"b = 1", "a = 3"};
  EXPECT_DOUBLE_EQ(BatchSource(config, Stream::train).sources(0)[0].share, 0.75);
  config.data.weights = {"a = 3", "c = 1"};
  EXPECT_THROW(BatchSource(config, Stream::train), DeckError);
  EXPECT_GE(BatchSource(config, Stream::validation).batches(), 1);  // never mixes
  EXPECT_TRUE(BatchSource(config, Stream::validation).mixture_at(0).names.empty());
}

}  // namespace
}  // namespace espalier
