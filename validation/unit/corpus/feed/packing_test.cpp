// SPDX-License-Identifier: Apache-2.0
// Best-fit packing against a naive one and the best possible one; plans kept in files.
#include "corpus/feed/packing.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "../corpus_files.hpp"
#include "corpus/feed/packing_file.hpp"
#include "memory_tokens.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::MemoryArray;
using testing::TempFolder;
namespace fs = std::filesystem;

std::vector<int32_t> random_lengths(uint64_t seed, size_t count, int64_t capacity) {
  std::vector<int32_t> lengths;
  for (size_t i = 0; i < count; ++i)
    lengths.push_back(
        1 + static_cast<int32_t>(random_bits(seed, 1, i) % static_cast<uint64_t>(capacity)));
  return lengths;
}

/// Space left in each bin; fails if one is overfull.
std::vector<int64_t> spaces_of(const std::vector<int32_t>& lengths,
                               const std::vector<int32_t>& bins, int64_t capacity) {
  std::vector<int64_t> left;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto bin = static_cast<size_t>(bins.at(i));
    if (bin >= left.size()) left.resize(bin + 1, capacity);
    left[bin] -= lengths[i];
    EXPECT_GE(left[bin], 0);
  }
  return left;
}

/// The multiset of spaces that best-fit-decreasing leaves, by looking at every bin.
std::multiset<int64_t> naive_spaces(std::vector<int32_t> lengths, int64_t capacity) {
  std::sort(lengths.rbegin(), lengths.rend());
  std::multiset<int64_t> left;
  for (const int32_t length : lengths) {
    const auto best = left.lower_bound(length);
    int64_t space = capacity;
    if (best != left.end()) {
      space = *best;
      left.erase(best);
    }
    left.insert(space - length);
  }
  return left;
}

size_t least_bins(const std::vector<int32_t>& lengths, int64_t capacity) {
  size_t best = lengths.size();
  std::vector<int64_t> left;
  const std::function<void(size_t)> place = [&](size_t i) {
    if (left.size() >= best && i < lengths.size()) return;
    if (i == lengths.size()) {
      best = std::min(best, left.size());
      return;
    }
    for (size_t bin = 0; bin < left.size(); ++bin) {
      if (left[bin] < lengths[i]) continue;
      left[bin] -= lengths[i];
      place(i + 1);
      left[bin] += lengths[i];
    }
    left.push_back(capacity - lengths[i]);
    place(i + 1);
    left.pop_back();
  };
  place(0);
  return best;
}

TEST(Packing, IsBestFitDecreasing) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const int64_t capacity = seed % 3 == 0 ? 5 : seed % 3 == 1 ? 100 : 70000;
    const auto lengths = random_lengths(seed, seed % 90, capacity);
    const auto bins = place_best_fit(lengths, capacity);
    ASSERT_EQ(bins.size(), lengths.size());
    const auto left = spaces_of(lengths, bins, capacity);
    EXPECT_EQ(std::multiset<int64_t>(left.begin(), left.end()), naive_spaces(lengths, capacity));
    EXPECT_EQ(bins, place_best_fit(lengths, capacity));
  }
  EXPECT_TRUE(place_best_fit({}, 10).empty());
  EXPECT_THROW(place_best_fit({11}, 10), InternalError);
  EXPECT_THROW(place_best_fit({0}, 10), InternalError);
}

// Its bound is 11/9 of the best and 6/9 of a bin (Dosa 2007; Johnson 1973 for best fit).
TEST(Packing, IsNearTheBestPossible) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const auto lengths = random_lengths(seed, 9, 20);
    const auto left = spaces_of(lengths, place_best_fit(lengths, 20), 20);
    const size_t best = least_bins(lengths, 20);
    EXPECT_GE(left.size(), best);
    EXPECT_LE(9 * left.size(), 11 * best + 6);
  }
}

struct Piece {
  int64_t begin, length;
  bool goes_on;
};
std::vector<Piece> pieces_of(const PackingPlan& plan) {
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < plan.counts().items; ++i)
    pieces.push_back({plan.items()[i].begin, plan.items()[i].length, plan.items()[i].goes_on != 0});
  return pieces;
}

TEST(Packing, NothingIsLost) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const int64_t length = 1 + static_cast<int64_t>(seed * seed % 50);
    auto lengths = testing::skewed_lengths(seed, static_cast<int64_t>(seed * 3), 20);
    if (seed % 4 == 0) lengths.push_back(0);  // a document without any token
    const MemoryArray array("a", lengths);
    for (const LongDocuments rule : {LongDocuments::split, LongDocuments::drop}) {
      const auto plan = pack_documents(array, {length, rule});
      const PackingCounts& c = plan->counts();
      std::vector<int> seen(static_cast<size_t>(array.tokens()), 0);
      int64_t split = 0, dropped = 0, dropped_tokens = 0;
      for (int64_t s = 0; s < c.sequences; ++s) {
        int64_t filled = 0;
        EXPECT_LT(plan->first()[s], plan->first()[s + 1]);  // no empty sequence
        for (int64_t i = plan->first()[s]; i < plan->first()[s + 1]; ++i)
          filled += plan->items()[i].length;
        EXPECT_LE(filled, length);
      }
      for (const Piece& piece : pieces_of(*plan)) {
        for (int64_t t = piece.begin; t < piece.begin + piece.length; ++t)
          ++seen[static_cast<size_t>(t)];
        if (piece.goes_on) {
          EXPECT_EQ(piece.length, length);
        }
        EXPECT_EQ(array.all()[static_cast<size_t>(piece.begin + piece.length - 1)] == 0,
                  !piece.goes_on);
      }
      for (int64_t d = 0; d < array.documents(); ++d) {
        const int64_t own = array.document_begin(d + 1) - array.document_begin(d);
        const bool is_dropped = own > length && rule == LongDocuments::drop;
        split += own > length && !is_dropped ? 1 : 0;
        dropped += is_dropped ? 1 : 0;
        dropped_tokens += is_dropped ? own : 0;
        for (int64_t t = array.document_begin(d); t < array.document_begin(d + 1); ++t)
          ASSERT_EQ(seen[static_cast<size_t>(t)], is_dropped ? 0 : 1);
      }
      EXPECT_EQ(c.documents, array.documents());
      EXPECT_EQ(c.split_documents, split);
      EXPECT_EQ(c.dropped_documents, dropped);
      EXPECT_EQ(c.dropped_tokens, dropped_tokens);
      EXPECT_EQ(c.tokens, array.tokens() - dropped_tokens);
      EXPECT_EQ(c.padding, c.sequences * length - c.tokens);
    }
  }
}

TEST(Packing, PadsLittle) {
  const MemoryArray array("a", testing::skewed_lengths(1, 20000, 300));
  const auto plan = pack_documents(array, {2048, LongDocuments::split});
  // No document is shorter than 89 tokens, so the last gap of a sequence stays open.
  EXPECT_LT(plan->counts().padding_share(), 0.01);
  EXPECT_EQ(PackingCounts{}.padding_share(), 0.0);
}

bool are_equal(const PackingPlan& a, const PackingPlan& b) {
  const PackingCounts &x = a.counts(), &y = b.counts();
  return x.items == y.items && x.sequences == y.sequences && x.padding == y.padding &&
         std::memcmp(a.items(), b.items(), static_cast<size_t>(x.items) * 16) == 0 &&
         std::memcmp(a.first(), b.first(), static_cast<size_t>(x.sequences + 1) * 8) == 0;
}

TEST(PackingFile, IsMadeOnceAndMapped) {
  const TempFolder folder;
  fs::create_directories(folder.at("store/train"));
  folder.write("store/manifest.json", "{}");
  const MemoryArray array(folder.at("store/train/web-00000.tok"),
                          testing::skewed_lengths(1, 500, 30));
  const PackingRule rule{64, LongDocuments::split};
  const std::string path = folder.at("store/packing/train-web-00000-64-split.plan");
  EXPECT_EQ(packing_path(array, rule), path);
  const auto direct = pack_documents(array, rule);
  EXPECT_TRUE(are_equal(*direct, *open_packing_plan(array, rule, VerifyData::full)));
  const std::string bytes = testing::read_bytes(path);
  const auto written = fs::last_write_time(path);
  for (const VerifyData verify : {VerifyData::full, VerifyData::header})
    EXPECT_TRUE(are_equal(*direct, *open_packing_plan(array, rule, verify)));
  EXPECT_EQ(fs::last_write_time(path), written);  // read, not made again
  EXPECT_EQ(open_packing_plan(array, {64, LongDocuments::drop}, VerifyData::full)->counts().items,
            pack_documents(array, {64, LongDocuments::drop})->counts().items);

  // Damage anywhere is found, by VerifyData::full, and mended.
  for (const size_t at : {size_t{0}, size_t{9}, size_t{80}, size_t{300}, bytes.size() - 3}) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    folder.write("store/packing/train-web-00000-64-split.plan", bad);
    EXPECT_TRUE(are_equal(*direct, *open_packing_plan(array, rule, VerifyData::full)));
    EXPECT_EQ(testing::read_bytes(path), bytes);
  }
  for (const size_t size : {size_t{0}, size_t{7}, size_t{136}, bytes.size() - 1}) {
    folder.write("store/packing/train-web-00000-64-split.plan", bytes.substr(0, size));
    EXPECT_TRUE(are_equal(*direct, *open_packing_plan(array, rule, VerifyData::header)));
    EXPECT_EQ(testing::read_bytes(path), bytes);
  }
  // Another index under the same name, of as many documents and tokens.
  auto lengths = testing::skewed_lengths(1, 500, 30);
  std::swap(lengths[3], lengths[4]);
  ASSERT_NE(lengths[3], lengths[4]);
  const MemoryArray other(array.path(), lengths);
  EXPECT_TRUE(
      are_equal(*pack_documents(other, rule), *open_packing_plan(other, rule, VerifyData::header)));
  EXPECT_NE(testing::read_bytes(path), bytes);
}

TEST(PackingFile, ManyMakeItAtOnce) {
  const TempFolder folder;
  const MemoryArray array(folder.at("a.tok"), testing::skewed_lengths(1, 3000, 30));
  const PackingRule rule{64, LongDocuments::split};
  const auto direct = pack_documents(array, rule);
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<const PackingPlan>> plans(8);
  for (auto& plan : plans)
    threads.emplace_back(
        [&array, &plan, rule] { plan = open_packing_plan(array, rule, VerifyData::full); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& plan : plans) EXPECT_TRUE(are_equal(*direct, *plan));
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.at("packing")))
    names.push_back(entry.path().filename());
  EXPECT_EQ(names, std::vector<std::string>{"a-64-split.plan"});  // and no part of one
}

TEST(PackingFile, StaysInMemoryWhereItCannotBeWritten) {
  const TempFolder folder;
  folder.write("packing", "a file where the folder would be");
  MemoryArray array(folder.at("a.tok"), {5, 9, 30});
  const PackingRule rule{16, LongDocuments::split};
  ::testing::internal::CaptureStdout();
  const auto plan = open_packing_plan(array, rule, VerifyData::full);
  EXPECT_CONTAINS(::testing::internal::GetCapturedStdout(), "the plan stays in memory");
  EXPECT_TRUE(are_equal(*plan, *pack_documents(array, rule)));
  array.forget_index();
  const std::string error = data_error([&] { open_packing_plan(array, rule, VerifyData::full); });
  EXPECT_CONTAINS(error, "has no index of its documents");
  EXPECT_CONTAINS(error, "data.packing = \"chunk\"");
}

}  // namespace
}  // namespace espalier
