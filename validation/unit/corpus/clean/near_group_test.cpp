// SPDX-License-Identifier: Apache-2.0
// The comparisons within one band, with made-up signatures.
#include "corpus/clean/near_group.hpp"

#include <gtest/gtest.h>

#include "key_files.hpp"

namespace espalier {
namespace {

using namespace testing;

// Two kinds of the same `family` agree in 128 - 2 |difference of kind| values.
Signature made_up(uint16_t family, uint16_t kind) {
  Signature signature;
  signature.fill(static_cast<uint16_t>(1000 * family + 1));
  for (size_t i = 0; i < 2u * kind; ++i) ++signature[i];
  return signature;
}

std::vector<DuplicatePair> pairs_of(const std::vector<Signature>& signatures, double similarity) {
  std::vector<DuplicatePair> pairs;
  NearGroup group(similarity, pairs);
  for (size_t i = 0; i < signatures.size(); ++i)
    group.add({0, static_cast<int64_t>(i)}, signatures[i].data());
  return pairs;
}

std::string dropped_of_all_pairs(const std::vector<Signature>& signatures, double similarity) {
  std::vector<DuplicatePair> pairs;
  for (size_t a = 0; a < signatures.size(); ++a) {
    for (size_t b = a + 1; b < signatures.size(); ++b) {
      if (estimate_similarity(signatures[a], signatures[b]) >= similarity)
        pairs.push_back({{0, static_cast<int64_t>(a)}, {0, static_cast<int64_t>(b)}, false});
    }
  }
  return as_text(choose_dropped(pairs));
}

TEST(NearGroup, JoinsWhatAllPairsJoin) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<Signature> signatures;
    const uint64_t documents = 2 + random_bits(seed, 1, 0) % 200;
    for (uint64_t i = 0; i < documents; ++i) {
      const uint64_t bits = random_bits(seed, 2, i);
      // At most 3 x 10 different ones, in chains whose links come in any order.
      signatures.push_back(made_up(static_cast<uint16_t>(bits % 3),
                                   static_cast<uint16_t>((bits >> 8) % 10 * (1 + seed % 3))));
    }
    for (const double similarity : {0.5, 0.9, 0.98, 1.0}) {
      const std::vector<DuplicatePair> pairs = pairs_of(signatures, similarity);
      EXPECT_EQ(as_text(choose_dropped(pairs)), dropped_of_all_pairs(signatures, similarity))
          << seed << " at " << similarity;
      EXPECT_LT(pairs.size(), signatures.size());
    }
  }
}

TEST(NearGroup, CopiesDoNotCrowdOthersOut) {
  std::vector<Signature> signatures(1000, made_up(1, 0));
  signatures.push_back(made_up(2, 0));
  signatures.push_back(made_up(2, 1));
  const std::vector<DuplicatePair> pairs = pairs_of(signatures, 0.9);
  ASSERT_EQ(pairs.size(), 1000u);
  EXPECT_TRUE(pairs.back() == (DuplicatePair{{0, 1000}, {0, 1001}, false}));
}

TEST(NearGroup, ComparesWithTheFirstOnesOnly) {
  std::vector<Signature> signatures;
  for (uint16_t family = 0; family < 40; ++family) signatures.push_back(made_up(family, 0));
  for (uint16_t family = 0; family < 40; ++family) signatures.push_back(made_up(family, 1));
  EXPECT_EQ(static_cast<int64_t>(pairs_of(signatures, 0.9).size()), kMostCompared);
}

TEST(NearGroup, EmptyBinsOfBothDoNotCount) {
  Signature a{}, b{};
  a[0] = b[0] = 7;
  a[1] = b[1] = 9;
  a[2] = 1;
  EXPECT_EQ(pairs_of({a, b}, 0.66).size(), 1u);
  EXPECT_EQ(pairs_of({a, b}, 0.67).size(), 0u);
}

}  // namespace
}  // namespace espalier
