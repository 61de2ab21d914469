// SPDX-License-Identifier: Apache-2.0
// Duplicates of small corpora against brute force, planted near ones, and independence of ranges.
#include "corpus/clean/deduplication.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "corpus/clean/min_hash.hpp"
#include "key_files.hpp"
#include "near_text.hpp"

namespace espalier {
namespace {

using namespace testing;

Pieces random_pieces(uint64_t seed) {
  Pieces pieces(1 + random_bits(seed, 1, 0) % 5);
  for (size_t piece = 0; piece < pieces.size(); ++piece) {
    const uint64_t documents = random_bits(seed, 2, piece) % 60;
    for (uint64_t d = 0; d < documents; ++d) {
      const uint64_t bits = random_bits(seed, 3 + piece, d);
      pieces[piece].push_back(random_text(bits, bits % 4, 3));
    }
  }
  return pieces;
}

TEST(Deduplication, ExactIsWhatBruteForceFinds) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Pieces pieces = random_pieces(seed);
    std::map<std::string, DocumentId> first;
    std::string expected;
    for (size_t p = 0; p < pieces.size(); ++p) {
      for (size_t d = 0; d < pieces[p].size(); ++d) {
        const DocumentId id{static_cast<int64_t>(p), static_cast<int64_t>(d)};
        if (!first.emplace(pieces[p][d], id).second)
          expected += std::to_string(p) + "." + std::to_string(d) + " ";
      }
    }
    EXPECT_EQ(as_text(dropped_of(dedup_config(Deduplication::exact), pieces)), expected) << seed;
    // All are shorter than a shingle, so near finds no more.
    EXPECT_EQ(as_text(dropped_of(dedup_config(Deduplication::near), pieces)), expected) << seed;
  }
}

// 120 originals in piece 0; piece 1 holds an edited copy of each.
Pieces edited_corpus(double edits) {
  Pieces pieces(2);
  for (uint64_t seed = 0; seed < 120; ++seed) {
    pieces[0].push_back(words_text(seed, 250));
    pieces[1].push_back(words_text(seed, 250, edits));
  }
  return pieces;
}

TEST(Deduplication, PlantedNearDuplicatesAreFoundAndOthersAreNot) {
  const struct {
    double edits, low, high;  // true similarity of all pairs
    double least, most;       // share of them that is to be found
  } cases[] = {{0.002, 0.95, 1.0, 0.99, 1.0},
               {0.02, 0.85, 0.99, 0.97, 1.0},
               {0.27, 0.30, 0.60, 0.0, 0.0},
               {1.0, 0.0, 0.05, 0.0, 0.0}};
  for (const auto& c : cases) {
    const Pieces pieces = edited_corpus(c.edits);
    int64_t in_band = 0;
    for (size_t i = 0; i < pieces[0].size(); ++i) {
      const double truth = true_similarity(pieces[0][i], pieces[1][i], 8);
      in_band += truth >= c.low && truth <= c.high ? 1 : 0;
    }
    EXPECT_GE(in_band, 114) << c.edits;
    const auto dropped = dropped_of(dedup_config(Deduplication::near), pieces);
    const double share = static_cast<double>(dropped.size()) / 120.0;
    EXPECT_GE(share, c.least) << c.edits;
    EXPECT_LE(share, c.most) << c.edits;
    for (const DroppedDocument& d : dropped) EXPECT_EQ(d.id.piece, 1) << "the first stays";
  }
}

TEST(Deduplication, SimilarityIsTheThreshold) {
  const Pieces pieces = edited_corpus(0.03);
  const auto found = [&](double similarity) {
    return dropped_of(dedup_config(Deduplication::near, similarity), pieces).size();
  };
  EXPECT_EQ(found(0.5), 120u);
  EXPECT_GT(found(0.8), 114u);
  EXPECT_LT(found(0.97), 12u);
  EXPECT_EQ(found(1.0), 0u);
}

// A few clusters of texts that chain from one to the next, exact copies, short texts.
Pieces mixed_corpus(uint64_t seed) {
  Pieces pieces(4);
  for (uint64_t d = 0; d < 160; ++d) {
    const uint64_t bits = random_bits(seed, 9, d);
    std::string text = bits % 5 == 0 ? random_text(bits % 7, 3, 3)
                                     : words_text(bits % 12, 60, 0.06, (bits >> 8) % 6);
    pieces[(bits >> 20) % 3].push_back(text);  // piece 3 stays empty
  }
  return pieces;
}

TEST(Deduplication, RangesDoNotChangeTheOutcome) {
  for (const Deduplication kind : {Deduplication::exact, Deduplication::near}) {
    const CleanConfig config = dedup_config(kind);
    const TempFolder folder;
    std::vector<std::string> files = write_keys(folder, config, mixed_corpus(1));
    files.insert(files.begin() + 1, "");  // a piece without documents has no file
    const std::vector<DuplicatePair> whole = all_duplicates(config, files, 1);
    EXPECT_GT(whole.size(), 20u);
    for (const DuplicatePair& pair : whole) {
      EXPECT_TRUE(pair.first < pair.later);
      EXPECT_NE(pair.first.piece, 1);
    }
    for (const int64_t ranges : {2, 3, 7, 64, 1000})
      EXPECT_TRUE(all_duplicates(config, files, ranges) == whole) << ranges;
  }
}

// Groups are small here, so all pairs that share a band and are alike must be joined.
TEST(Deduplication, NearJoinsAllPairsThatShareABand) {
  const CleanConfig config = dedup_config(Deduplication::near);
  const BandChoice choice = choose_bands(config.similarity);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Pieces pieces = mixed_corpus(seed);
    struct Signed {
      DocumentId id;
      std::string text;
      Signature signature;
      std::vector<uint64_t> keys;
    };
    std::vector<Signed> all;
    MinHash hash(config.shingle);
    for (size_t p = 0; p < pieces.size(); ++p) {
      for (size_t d = 0; d < pieces[p].size(); ++d) {
        all.push_back({{static_cast<int64_t>(p), static_cast<int64_t>(d)}, pieces[p][d], {}, {}});
        Signed& s = all.back();
        if (hash.sign(s.text, s.signature)) band_keys(s.signature, choice, s.keys);
      }
    }
    std::vector<DuplicatePair> pairs;
    for (size_t a = 0; a < all.size(); ++a) {
      for (size_t b = a + 1; b < all.size(); ++b) {
        bool shared = false;
        for (size_t k = 0; k < all[a].keys.size() && !all[b].keys.empty(); ++k)
          shared = shared || all[a].keys[k] == all[b].keys[k];
        if (all[a].text == all[b].text) pairs.push_back({all[a].id, all[b].id, true});
        if (shared && estimate_similarity(all[a].signature, all[b].signature) >= 0.8)
          pairs.push_back({all[a].id, all[b].id, false});
      }
    }
    EXPECT_EQ(as_text(dropped_of(config, pieces)), as_text(choose_dropped(pairs))) << seed;
  }
}

TEST(Deduplication, ManyEqualKeysStayLinear) {
  const CleanConfig config = dedup_config(Deduplication::near);
  Pieces pieces(2);
  const std::string text = words_text(1, 40);
  for (int i = 0; i < 30000; ++i) pieces[static_cast<size_t>(i % 2)].push_back(text);
  // Texts behind them that are alike to each other, not to the many.
  pieces[1].push_back(words_text(2, 200));
  pieces[1].push_back(words_text(2, 200, 0.005));
  const TempFolder folder;
  const auto files = write_keys(folder, config, pieces);
  const auto start = std::chrono::steady_clock::now();
  const auto pairs = find_duplicates(config, files, 0, 1);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 20.0) << "all pairs of a band would take hours";
  EXPECT_EQ(pairs.size(), 2u * 29999 + 1) << "each document joins the first, exactly and nearly";
  const auto dropped = choose_dropped(pairs);
  EXPECT_EQ(dropped.size(), 30000u);
  EXPECT_FALSE(dropped.back().is_exact);
}

TEST(Deduplication, GroupsKeepTheirFirst) {
  const DocumentId a{0, 5}, b{1, 2}, c{1, 9}, d{3, 0}, e{4, 4};
  // A chain whose pairs come in any order, and a pair of its own.
  EXPECT_EQ(as_text(choose_dropped({{c, d, true}, {b, c, false}, {a, d, false}})),
            "1.2~ 1.9~ 3.0 ");
  EXPECT_EQ(as_text(choose_dropped({{a, e, true}, {b, c, false}})), "1.9~ 4.4 ");
  EXPECT_EQ(as_text(choose_dropped({{a, b, false}, {a, b, true}})), "1.2 ");
  EXPECT_EQ(as_text(choose_dropped({})), "");
}

TEST(Deduplication, EmptyPiecesAndSingleDocuments) {
  for (const Deduplication kind : {Deduplication::exact, Deduplication::near}) {
    const CleanConfig config = dedup_config(kind);
    EXPECT_EQ(as_text(dropped_of(config, {})), "");
    EXPECT_EQ(as_text(dropped_of(config, {{}, {}})), "");
    EXPECT_EQ(as_text(dropped_of(config, {{}, {"one document of some length"}})), "");
    EXPECT_EQ(as_text(dropped_of(config, {{""}, {"", "x"}})), "1.0 ");
    EXPECT_EQ(as_text(dropped_of(config, {{"The Tree  Grows Flat"}, {"the tree grows flat"}})),
              kind == Deduplication::near ? "1.0~ " : "");
  }
}

}  // namespace
}  // namespace espalier
