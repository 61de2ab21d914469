// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules: sound for every size, with the slots and the bubbles that the papers say.
#include "blueprint/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.hpp"
#include "schedule_cases.hpp"

namespace espalier {
namespace {

TEST(Schedule, IsSoundForEverySize) {
  int seen = 0;
  for_all([&](const Schedule& s) {
    ++seen;
    EXPECT_EQ(joined(check_schedule(s)), "");
  });
  EXPECT_GT(seen, 180);
}

TEST(Schedule, RefusesWhatTheRulesRefuse) {
  EXPECT_THROW(make_schedule(Kind::gpipe, 0, 1, 1), InternalError);
  EXPECT_THROW(make_schedule(Kind::gpipe, 2, 1, 0), InternalError);
  EXPECT_THROW(make_schedule(Kind::one_forward_one_backward, 2, 2, 4), InternalError);
  EXPECT_THROW(make_schedule(Kind::interleaved, 4, 2, 6), InternalError);
}

std::string computes(const Schedule& s, size_t rank) {
  std::string text;
  for (const PipelineAction& a : s.by_rank[rank])
    if (is_compute(a.kind)) text += (text.empty() ? "" : " ") + action_text(s, a);
  return text;
}

// Written down by hand after the figures of the papers.
TEST(Schedule, ListsByHand) {
  const Schedule f = make_schedule(Kind::one_forward_one_backward, 2, 1, 3);
  EXPECT_EQ(action_list(f, 0), "  F0 F0> <B0 F1 F1> B0 <B1 F2 F2> <B2 B1 B2\n");
  EXPECT_EQ(action_list(f, 1), "  <F0 F0 <F1 B0 B0> F1 <F2 B1 B1> F2 B2 B2>\n");
  EXPECT_EQ(computes(make_schedule(Kind::gpipe, 2, 1, 3), 0), "F0 F1 F2 B0 B1 B2");
  const Schedule z = make_schedule(Kind::zero_bubble, 3, 1, 4);
  EXPECT_EQ(computes(z, 0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  EXPECT_EQ(computes(z, 1), "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
  EXPECT_EQ(computes(z, 2), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
  const Schedule i = make_schedule(Kind::interleaved, 2, 2, 4);
  EXPECT_EQ(computes(i, 0),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(computes(i, 1),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
}

TEST(Schedule, OneRankWorksAMicroBatchOff) {
  for (const Kind kind : kKinds) {
    const Schedule s = make_schedule(kind, 1, 1, 3);
    EXPECT_EQ(action_list(s, 0), "  F0 B0 F1 B1 F2 B2\n");
    EXPECT_EQ(slots(s, 0, 0), 1);
  }
  EXPECT_EQ(action_list(make_schedule(Kind::interleaved, 1, 2, 2), 0),
            "  F0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0\n");
}

TEST(Schedule, BackwardPassesKeepTheOrderOfMicroBatches) {
  for_all([](const Schedule& s) {
    for (const auto& list : s.by_rank)
      for (const ActionKind kind :
           {ActionKind::backward, ActionKind::backward_input, ActionKind::backward_weight})
        for (int64_t chunk = 0; chunk < s.chunks; ++chunk) {
          int64_t last = -1;
          for (const PipelineAction& a : list)
            if (a.kind == kind && a.chunk == chunk) {
              EXPECT_EQ(a.micro_batch, last + 1);
              last = a.micro_batch;
            }
        }
  });
}

TEST(Schedule, KeepsAsManyMicroBatchesAsThePapersSay) {
  for_all([](const Schedule& s) {
    const int64_t p = s.ranks, m = s.micro_batches;
    for (int64_t rank = 0; rank < p; ++rank)
      for (int64_t chunk = 0; chunk < s.chunks; ++chunk) {
        const int64_t kept = slots(s, rank, chunk);
        if (p == 1)
          EXPECT_EQ(kept, 1);
        else if (s.kind == Kind::gpipe)
          EXPECT_EQ(kept, m);
        else if (s.kind == Kind::zero_bubble)
          EXPECT_EQ(kept, std::min(m, p));
        else if (s.chunks == 1)
          EXPECT_EQ(kept, std::min(m, p - rank));
        else
          EXPECT_LE(kept, std::min(m, 2 * p));
      }
  });
}

TEST(Schedule, ReceivesAtMostTwoAhead) {
  for_all([](const Schedule& s) {
    for (int64_t rank = 0; rank < s.ranks; ++rank)
      for (const ActionKind kind : {ActionKind::recv_forward, ActionKind::recv_backward}) {
        const bool has_none =
            s.ranks == 1 ||
            (s.chunks == 1 && rank == (kind == ActionKind::recv_forward ? 0 : s.ranks - 1));
        EXPECT_LE(receive_slots(s, rank, kind), has_none ? 0 : 2);
        EXPECT_GE(receive_slots(s, rank, kind), has_none ? 0 : 1);
      }
  });
}

TEST(Schedule, PeersSeeEachOther) {
  const Schedule s = make_schedule(Kind::interleaved, 3, 2, 3);
  const Peer wrap = peer_of(s, 2, {ActionKind::send_forward, 0, 0});
  EXPECT_EQ(wrap.rank, 0);
  EXPECT_EQ(wrap.chunk, 1);
  EXPECT_EQ(receiver_chunk(s, 2, {ActionKind::send_forward, 0, 0}), 1);
  EXPECT_EQ(receiver_chunk(s, 0, {ActionKind::recv_forward, 0, 1}), 1);
  EXPECT_EQ(receiver_chunk(s, 0, {ActionKind::send_backward, 0, 1}), 0);
  EXPECT_THROW(peer_of(s, 0, {ActionKind::recv_forward, 0, 0}), InternalError);
  EXPECT_THROW(peer_of(s, 0, {ActionKind::forward, 0, 0}), InternalError);
}

TEST(ScheduleTiming, BubblesOfEqualStagesAreThoseOfTheFormulas) {
  const StageSeconds costs[] = {{1, 1, 1},        {1, 2, 1},      {2, 3, 1},
                                {1.5, 1.5, 1.25}, {1, 0.5, 0.75}, {0.7, 1, 2.5}};
  for_all([&](const Schedule& s) {
    if (s.kind == Kind::zero_bubble && s.micro_batches < s.ranks) return;
    for (const StageSeconds& cost : costs) {
      const ScheduleTiming t = simulate(s, equal_costs(s, cost));
      const double formula = bubble_formula(s.kind, s.ranks, s.chunks, s.micro_batches, cost);
      EXPECT_NEAR(t.bubble, formula, 1e-12);
      EXPECT_NEAR(t.slowest_bubble, formula, 1e-12);
      for (size_t rank = 0; rank < t.busy.size(); ++rank) {
        EXPECT_NEAR(t.busy[rank], cost.total() * static_cast<double>(s.chunks * s.micro_batches),
                    1e-9);
        EXPECT_NEAR(t.busy[rank] + t.idle[rank], t.makespan, 1e-9);
      }
    }
  });
}

TEST(ScheduleTiming, ZeroBubbleIsNeverSlowerThan1f1b) {
  for (int64_t p = 2; p <= 8; ++p)
    for (int64_t m = 1; m <= 20; ++m) {
      const Schedule zero = make_schedule(Kind::zero_bubble, p, 1, m);
      const Schedule plain = make_schedule(Kind::one_forward_one_backward, p, 1, m);
      for (const StageSeconds& cost : {StageSeconds{1, 1, 1}, StageSeconds{1, 1.2, 0.8}})
        EXPECT_LT(simulate(zero, equal_costs(zero, cost)).makespan,
                  simulate(plain, equal_costs(plain, cost)).makespan + 1e-9)
            << p << " " << m;
    }
}

TEST(ScheduleTiming, ASlowStageAndSlowTransfersCount) {
  const Schedule s = make_schedule(Kind::one_forward_one_backward, 2, 1, 8);
  std::vector<StageSeconds> costs = equal_costs(s);
  costs[1] = {2, 2, 2};
  const ScheduleTiming t = simulate(s, costs);
  EXPECT_DOUBLE_EQ(t.makespan,
                   1 + 8 * 6 + 2);  // F0 of the first, all of the second, B7 of the first
  EXPECT_DOUBLE_EQ(t.busy[0], 24);
  EXPECT_DOUBLE_EQ(t.busy[1], 48);
  EXPECT_GT(t.bubble, t.slowest_bubble);
  EXPECT_DOUBLE_EQ(simulate(make_schedule(Kind::gpipe, 2, 1, 1),
                            equal_costs(make_schedule(Kind::gpipe, 2, 1, 1)), 0.5)
                       .makespan,
                   2 * 3 + 2 * 0.5);
  EXPECT_THROW(simulate(s, {StageSeconds{}}), InternalError);
}

// A transfer is free where the receiver is still busy.
TEST(ScheduleTiming, TransfersHideBehindCompute) {
  const Schedule s = make_schedule(Kind::gpipe, 2, 1, 8);
  EXPECT_DOUBLE_EQ(simulate(s, equal_costs(s), 0.5).makespan,
                   simulate(s, equal_costs(s)).makespan + 2 * 0.5);
}

TEST(ScheduleText, DrawsARowARank) {
  const Schedule s = make_schedule(Kind::one_forward_one_backward, 2, 1, 2);
  EXPECT_EQ(draw_schedule(s, simulate(s, equal_costs(s, {1, 0.5, 0.5}))),
            "rank 0 F0F1..B0..B1\n"
            "rank 1 ..F0B0F1B1..\n"
            "time to the right; F forward, B backward, W gradients of the weights, . waiting\n");
}

TEST(ScheduleText, KeepsToTheWidth) {
  for_all([](const Schedule& s) {
    const std::string text = draw_schedule(s, simulate(s, equal_costs(s)), 100);
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      EXPECT_LE(end - begin, 100u) << text;
  });
}

}  // namespace
}  // namespace espalier
