// SPDX-License-Identifier: Apache-2.0
// The order of ranks, its table and its warnings, without MPI.
#include "grid/placement.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace espalier {
namespace {

GridConfig config(int64_t pp, int64_t dp, int64_t tp, const std::string& order = "pp,dp,cp,tp") {
  GridConfig c;
  c.pipeline_parallel = pp;
  c.data_parallel = dp;
  c.tensor_parallel = tp;
  c.rank_order = order;
  return c;
}

// host h<number> for each `ranks_a_host` successive ranks
std::vector<std::string> hosts(int64_t ranks, int64_t ranks_a_host) {
  std::vector<std::string> names;
  for (int64_t r = 0; r < ranks; ++r) names.push_back(fmt::format("h{}", r / ranks_a_host));
  return names;
}

int64_t lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST(Placement, TheLastAxisOfTheOrderRunsFastest) {
  const Placement usual(config(2, 2, 2), hosts(8, 8));
  EXPECT_EQ(usual.place_of(1).tensor, 1);
  EXPECT_EQ(usual.place_of(2).data, 1);
  EXPECT_EQ(usual.place_of(4).pipeline, 1);
  const Placement turned(config(2, 2, 2, "tp, cp, dp, pp"), hosts(8, 8));
  EXPECT_EQ(turned.place_of(1).pipeline, 1);
  EXPECT_EQ(turned.place_of(2).data, 1);
  EXPECT_EQ(turned.place_of(4).tensor, 1);
  EXPECT_EQ(turned.name_of(6), "rank 6 (pp 0, dp 1, cp 0, tp 1) on h0");
}

TEST(Placement, EveryOrderIsABijection) {
  for (const char* order : {"pp,dp,cp,tp", "tp,dp,cp,pp", "dp,tp,pp,cp", "cp,pp,tp,dp"}) {
    const Placement p(config(2, 3, 4, order), hosts(24, 24));
    std::vector<int> seen(24, 0);
    for (int64_t r = 0; r < 24; ++r) {
      const GridShape at = p.place_of(r);
      ASSERT_TRUE(at.pipeline < 2 && at.data < 3 && at.context == 0 && at.tensor < 4);
      ++seen[static_cast<size_t>((at.pipeline * 3 + at.data) * 4 + at.tensor)];
    }
    EXPECT_EQ(seen, std::vector<int>(24, 1)) << order;
  }
}

TEST(Placement, PrintsATable) {
  EXPECT_EQ(Placement(config(2, 2, 2), hosts(8, 4)).describe(),
            "8 ranks: pipeline 2 x data 2 x context 1 x tensor 2; the last of pp,dp,cp,tp runs "
            "fastest\n"
            "  rank        pp      dp      cp      tp      host\n"
            "  0-1         0       0       0       0-1     h0\n"
            "  2-3         0       1       0       0-1     h0\n"
            "  4-5         1       0       0       0-1     h1\n"
            "  6-7         1       1       0       0-1     h1");
  // A line ends where its host ends.
  EXPECT_EQ(lines(Placement(config(1, 8, 1), hosts(8, 8)).describe()), 2);
  EXPECT_EQ(lines(Placement(config(1, 8, 1), hosts(8, 2)).describe()), 5);
  EXPECT_NE(Placement(config(1, 1, 1), hosts(1, 1)).describe().find("1 rank:"), std::string::npos);
}

TEST(Placement, StaysShortOnManyRanks) {
  const std::string text = Placement(config(8, 16, 8), hosts(1024, 8)).describe();
  EXPECT_LE(lines(text), 33) << text;
  EXPECT_NE(text.find("\n  0-31        0       0-3     0       0-7     h0, h1 ... h3 (4 hosts)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  992-1023 "), std::string::npos) << text;
  EXPECT_LE(lines(Placement(config(1, 97, 1), hosts(97, 1)).describe()), 33);  // a prime
}

TEST(Placement, WarnsOfTensorGroupsThatLeaveTheirHost) {
  EXPECT_TRUE(Placement(config(2, 2, 2), hosts(8, 4)).warnings().empty());
  const auto found = Placement(config(2, 2, 2, "tp,pp,dp,cp"), hosts(8, 4)).warnings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].find("4 of 4 tensor-parallel groups leave their host, for example ranks 0, 4 "
                          "on h0, h1: "),
            0U)
      << found[0];
  EXPECT_NE(found[0].find("let tp stand last in grid.rank_order (now \"tp,pp,dp,cp\")"),
            std::string::npos);
  // Three ranks a host: only the groups across a border.
  const auto some = Placement(config(1, 3, 2), hosts(6, 3)).warnings();
  ASSERT_EQ(some.size(), 1U);
  EXPECT_EQ(some[0].find("1 of 3 tensor-parallel groups leave their host, for example ranks 2, 3 "),
            0U)
      << some[0];
}

TEST(Placement, WarnsOfShardGroupsOfHybridShardingThatLeaveTheirHost) {
  GridConfig c = config(1, 8, 1);
  c.zero_shards = 4;
  c.zero_stage = 3;
  EXPECT_TRUE(Placement(c, hosts(8, 4)).warnings().empty());
  const auto found = Placement(c, hosts(8, 2)).warnings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].find("2 of 2 shard groups leave their host, for example ranks 0, 1, 2, 3 on "
                          "h0, h1: "),
            0U)
      << found[0];
  c.zero_stage = 0;  // nothing is sharded
  EXPECT_TRUE(Placement(c, hosts(8, 2)).warnings().empty());
  c.zero_stage = 3;
  c.zero_shards = 0;  // over all ranks: not hybrid
  EXPECT_TRUE(Placement(c, hosts(8, 2)).warnings().empty());
}

TEST(Placement, RefusesShardsThatDoNotDivide) {
  GridConfig c = config(1, 8, 1);
  c.zero_shards = 3;
  try {
    Placement(c, hosts(8, 8));
    ADD_FAILURE() << "3 shards of 8 ranks";
  } catch (const LaunchError& error) {
    EXPECT_EQ(std::string(error.what()),
              "grid.zero_shards = 3 does not divide the 8 data-parallel ranks; set it to a divisor "
              "of them, or to 0 for all of them");
  }
}

}  // namespace
}  // namespace espalier
