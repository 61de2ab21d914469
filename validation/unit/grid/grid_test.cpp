// SPDX-License-Identifier: Apache-2.0
// The grid's extents, places and axes, and the check that all ranks agree.
#include "grid/grid.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "mpi_main.hpp"

namespace espalier {
namespace {

GridConfig config(int64_t pp, int64_t dp, int64_t cp, int64_t tp) {
  GridConfig c;
  c.pipeline_parallel = pp;
  c.data_parallel = dp;
  c.context_parallel = cp;
  c.tensor_parallel = tp;
  return c;
}

std::string refusal(const GridConfig& c, int64_t ranks) {
  try {
    fit_grid(c, ranks);
  } catch (const LaunchError& error) {
    return error.what();
  }
  return "";
}

TEST(FitGrid, FillsDataParallelWithWhatIsLeft) {
  EXPECT_EQ(fit_grid(config(1, 0, 1, 1), 6).data, 6);
  EXPECT_EQ(fit_grid(config(2, 0, 3, 2), 24).data, 2);
  EXPECT_EQ(fit_grid(config(2, 2, 3, 2), 24).ranks(), 24);
}

TEST(FitGrid, SaysWhatWouldFit) {
  EXPECT_EQ(refusal(config(1, 3, 1, 1), 8),
            "grid.data_parallel = 3 with pipeline_parallel * context_parallel * tensor_parallel = "
            "1 * 1 * 1 = 1 needs 3 ranks, but 8 were started; start 3 ranks, or set "
            "grid.data_parallel = 8");
  EXPECT_EQ(refusal(config(1, 3, 1, 3), 8),
            "grid.data_parallel = 3 with pipeline_parallel * context_parallel * tensor_parallel = "
            "1 * 1 * 3 = 3 needs 9 ranks, but 8 were started; start 9 ranks");
  EXPECT_EQ(refusal(config(1, 0, 1, 3), 8),
            "grid.pipeline_parallel * context_parallel * tensor_parallel = 1 * 1 * 3 = 3 does not "
            "divide the 8 ranks that were started; start 6 or 9 ranks, or lower one of these keys");
}

// Sums each axis and compares with the places that share it; every shape of the ranks in use.
TEST(GridTest, AxesHoldTheRanksThatDifferInOnePlace) {
  const int ranks = test_session().size();
  for (int pp = 1; pp <= ranks; ++pp)
    for (int cp = 1; pp * cp <= ranks; ++cp)
      for (int tp = 1; pp * cp * tp <= ranks; ++tp) {
        if (ranks % (pp * cp * tp) != 0) continue;
        const Grid grid = Grid::create(test_session(), config(pp, 0, cp, tp));
        const GridShape& here = grid.place();
        const int me = grid.world().rank();
        EXPECT_EQ(me, test_session().rank());
        EXPECT_EQ(grid.dp().size(), ranks / (pp * cp * tp));
        // tensor is the fastest axis
        EXPECT_EQ(me, ((here.pipeline * grid.shape().data + here.data) * cp + here.context) * tp +
                          here.tensor);
        int64_t sums[4] = {me, me, me, me}, expected[4] = {};
        const Comm* axes[4] = {&grid.pp(), &grid.dp(), &grid.cp(), &grid.tp()};
        for (int a = 0; a < 4; ++a) axes[a]->all_reduce(&sums[a], 1, ReduceOp::sum);
        for (int r = 0; r < ranks; ++r) {
          const GridShape p = grid.place_of(r);
          const bool same[4] = {p.pipeline == here.pipeline, p.data == here.data,
                                p.context == here.context, p.tensor == here.tensor};
          for (int a = 0; a < 4; ++a) {
            bool shares = true;
            for (int b = 0; b < 4; ++b) shares = shares && (a == b || same[b]);
            expected[a] += shares ? r : 0;
          }
        }
        for (int a = 0; a < 4; ++a) EXPECT_EQ(sums[a], expected[a]) << axes[a]->axis();
      }
}

// The world ranks of an axis, gathered by it, are those whose places differ in that axis alone.
std::vector<int> members(const Comm& axis, int me) {
  std::vector<int> found(static_cast<size_t>(axis.size()));
  axis.all_gather(&me, 1, found.data());
  return found;
}

TEST(GridTest, FollowsTheOrderOfTheDeck) {
  const int ranks = test_session().size(), me = test_session().rank();
  for (const char* order : {"pp,dp,cp,tp", "tp,dp,cp,pp", "dp,tp,pp,cp", "cp,pp,tp,dp"}) {
    if (ranks % 2 != 0) continue;
    GridConfig c = config(ranks % 4 == 0 ? 2 : 1, 0, 1, 2);
    c.rank_order = order;
    const Grid grid = Grid::create(test_session(), c);
    EXPECT_EQ(grid.world().rank(), me);
    const GridShape here = grid.place_of(me);
    EXPECT_EQ(here.pipeline, grid.pp().rank()) << order;
    EXPECT_EQ(here.data, grid.dp().rank()) << order;
    EXPECT_EQ(here.context, grid.cp().rank()) << order;
    EXPECT_EQ(here.tensor, grid.tp().rank()) << order;
    const std::vector<int> tensor = members(grid.tp(), me);
    for (size_t t = 0; t < tensor.size(); ++t) {
      const GridShape there = grid.place_of(tensor[t]);
      EXPECT_EQ(there.tensor, static_cast<int64_t>(t)) << order;
      EXPECT_EQ(there.pipeline, here.pipeline) << order;
      EXPECT_EQ(there.data, here.data) << order;
    }
  }
}

TEST(GridTest, CutsDataParallelIntoShardsAndReplicas) {
  const int ranks = test_session().size(), me = test_session().rank();
  for (int shards = 0; shards <= ranks; ++shards) {
    if (shards > 0 && ranks % shards != 0) continue;
    GridConfig c = config(1, 0, 1, 1);
    c.zero_stage = 1;
    c.zero_shards = shards;
    const Grid grid = Grid::create(test_session(), c);
    const int size = shards == 0 ? ranks : shards;
    std::vector<int> shard, replica;
    for (int i = 0; i < size; ++i) shard.push_back(me / size * size + i);
    for (int i = 0; i < ranks / size; ++i) replica.push_back(i * size + me % size);
    EXPECT_EQ(members(grid.shard(), me), shard) << shards;
    EXPECT_EQ(members(grid.replica(), me), replica) << shards;
    EXPECT_STREQ(grid.shard().axis(), "shard");
    EXPECT_STREQ(grid.replica().axis(), "replica");
  }
}

TEST(GridTest, CountsWhatEveryAxisSends) {
  const Grid grid = Grid::create(test_session(), config(1, 0, 1, 1));
  std::set<std::string> names;
  for (const Comm* comm : grid.comms()) {
    EXPECT_EQ(comm->take_stats().calls, 0) << comm->axis();
    names.insert(comm->axis());
  }
  EXPECT_EQ(names, (std::set<std::string>{"world", "pp", "dp", "cp", "tp", "shard", "replica"}));
  grid.shard().all_reduce(1.0, ReduceOp::sum);
  int64_t bytes = 0;
  for (const Comm* comm : grid.comms()) bytes += comm->take_stats().bytes;
  EXPECT_EQ(bytes > 0, test_session().size() > 1);
}

TEST(GridTest, WarnsByTheHostsOfTheRanks) {
  if (test_session().size() != 8) return;
  ::setenv("ESPALIER_TEST_HOST_OF_RANK", "a,a,b,b,a,a,c,c", 1);
  const Grid close = Grid::create(test_session(), config(2, 2, 1, 2));
  const Grid far = Grid::create(test_session(), config(1, 2, 1, 4));
  ::unsetenv("ESPALIER_TEST_HOST_OF_RANK");
  EXPECT_EQ(close.host_of(2), "b");
  EXPECT_EQ(close.host_count(), 3);
  EXPECT_TRUE(close.placement_warnings().empty());
  const auto found = far.placement_warnings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].find("2 of 2 tensor-parallel groups leave their host, for example ranks 0, 1, "
                          "2, 3 on a, b: "),
            0U)
      << found[0];
}

TEST(GridTest, RefusesOnAllRanksAlike) {
  EXPECT_THROW(Grid::create(test_session(), config(1, test_session().size() + 1, 1, 1)),
               LaunchError);
}

TEST(GridTest, DescribesItself) {
  const Grid grid = Grid::create(test_session(), config(1, 0, 1, 1));
  const std::string text = grid.describe();
  const int ranks = test_session().size();
  EXPECT_NE(text.find(fmt::format("{} rank{}: pipeline 1 x data {} x", ranks, ranks == 1 ? "" : "s",
                                  ranks)),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(test_session().host()), std::string::npos) << text;
  if (grid.host_count() == 1) {
    EXPECT_EQ(grid.ranks_on_this_host(), ranks);
    EXPECT_NE(text.find(ranks == 1 ? "\n  0 " : fmt::format("\n  0-{} ", ranks - 1)),
              std::string::npos)
        << text;
  }
}

TEST(GridTest, NamesTheRanksThatDisagree) {
  const Grid grid = Grid::create(test_session(), config(1, 0, 1, 1));
  const int ranks = test_session().size(), me = test_session().rank();
  grid.require_consistent(42, "the deck");
  if (ranks < 3) return;
  try {
    grid.require_consistent(me == ranks - 1 ? 43 : 42, "the deck");
    ADD_FAILURE() << "rank " << ranks - 1 << " differs unseen";
  } catch (const LaunchError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("the deck is not the same on all ranks"), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("\n  {}", grid.name_of(ranks - 1))), std::string::npos) << text;
    EXPECT_EQ(text.find(fmt::format("\n  {}", grid.name_of(0))), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace espalier
