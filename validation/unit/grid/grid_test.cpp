// SPDX-License-Identifier: Apache-2.0
// The grid's extents, places and axes, and the check that all ranks agree.
#include "grid/grid.hpp"

#include <gtest/gtest.h>

#include <string>

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

TEST(GridTest, RefusesOnAllRanksAlike) {
  EXPECT_THROW(Grid::create(test_session(), config(1, test_session().size() + 1, 1, 1)),
               LaunchError);
}

TEST(GridTest, DescribesItself) {
  const Grid grid = Grid::create(test_session(), config(1, 0, 1, 1));
  const std::string text = grid.describe();
  const int ranks = test_session().size();
  EXPECT_NE(text.find(fmt::format("{} ranks: pipeline 1 x data {} x", ranks, ranks)),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(test_session().host()), std::string::npos) << text;
  if (grid.host_count() == 1) {
    EXPECT_EQ(grid.ranks_on_this_host(), ranks);
    EXPECT_NE(text.find(ranks == 1 ? "rank 0" : fmt::format("ranks 0-{}", ranks - 1)),
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
