// SPDX-License-Identifier: Apache-2.0
// Shares of slabs that several ranks hold, their sums, and their snapshot.
#include "checkpoint/state_slabs.hpp"

#include <gtest/gtest.h>

#include <set>

namespace espalier {
namespace {

/// A matrix [5, 7] and vectors [11] and [1], one behind the other.
struct Content {
  std::vector<float> values;
  TensorSlabs slabs;
  Content() : values(5 * 7 + 12) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5f * static_cast<float>(i) + 1.0f;
    slabs = {{"a", {2, 3}, {5, 7}, values.data()},
             {"b", {4}, {11}, values.data() + 35},
             {"c", {0}, {1}, values.data() + 46}};
  }
};

// Every element as (tensor, row, column, value).
std::multiset<std::tuple<std::string, int64_t, int64_t, float>> elements(const TensorSlabs& slabs) {
  std::multiset<std::tuple<std::string, int64_t, int64_t, float>> all;
  for (const TensorSlab& s : slabs) {
    const bool vector = s.extent.size() == 1;
    const int64_t rows = vector ? 1 : s.extent[0], columns = s.extent.back();
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        all.insert({s.name, vector ? 0 : s.offset[0] + r, s.offset.back() + c,
                    static_cast<const float*>(s.data)[r * columns + c]});
  }
  return all;
}

TEST(StateSlabs, SharesAreDisjointAndTogetherTheWhole) {
  const Content content;
  for (int64_t parts = 1; parts <= 9; ++parts) {
    TensorSlabs together;
    int64_t most = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const TensorSlabs share = share_of_slabs(content.slabs, part, parts);
      most = std::max(most, slab_bytes(share));
      together.insert(together.end(), share.begin(), share.end());
    }
    EXPECT_EQ(elements(together), elements(content.slabs)) << parts << " parts";
    // As even as rows of seven allow.
    EXPECT_LE(most, 4 * (47 / parts + 1 + 7)) << parts << " parts";
  }
}

TEST(StateSlabs, SumsOfSharesAddUp) {
  const Content content;
  const auto whole = sum_slabs(content.slabs);
  std::map<std::string, uint64_t> sum;
  for (int64_t part = 0; part < 3; ++part)
    for (const auto& [name, s] : sum_slabs(share_of_slabs(content.slabs, part, 3))) sum[name] += s;
  EXPECT_EQ(sum, whole);
  TensorSlabs moved = content.slabs;
  moved[0].offset[0] += 1;
  EXPECT_NE(sum_slabs(moved)["a"], sum_slabs(content.slabs)["a"]);
}

TEST(StateSlabs, TargetsAreWhereTheSlabsStand) {
  Content content;
  const TensorTargets targets = targets_of(content.slabs);
  ASSERT_EQ(targets.size(), 3u);
  static_cast<float*>(targets[1].data)[2] = 99.0f;
  EXPECT_EQ(content.values[37], 99.0f);
  EXPECT_EQ(targets[1].offset, content.slabs[1].offset);
}

TEST(StateSlabs, SnapshotKeepsTheValuesOfItsTime) {
  Content content;
  SlabSnapshot snapshot;
  const auto before = elements(content.slabs);
  const TensorSlabs copy = snapshot.take(content.slabs);
  const int64_t bytes = snapshot.bytes();
  EXPECT_EQ(bytes, 47 * 4);
  for (float& v : content.values) v = -1.0f;
  EXPECT_EQ(elements(copy), before);
  EXPECT_EQ(elements(snapshot.take(content.slabs)), elements(content.slabs));
  EXPECT_EQ(snapshot.bytes(), bytes);
}

TEST(StateSlabs, GroupsStandBeforeNames) {
  Content content;
  add_group(content.slabs, "optimizer/first_moment");
  EXPECT_EQ(content.slabs[2].name, "optimizer/first_moment/c");
}

}  // namespace
}  // namespace espalier
