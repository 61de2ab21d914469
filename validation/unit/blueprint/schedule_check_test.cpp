// SPDX-License-Identifier: Apache-2.0
// The check of schedules finds what is wrong with a broken one; and the sound ones do with one
// buffer to send from.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "core/error.hpp"
#include "schedule_cases.hpp"

namespace espalier {
namespace {

TEST(ScheduleCheck, FindsAnyActionThatIsLeftOutOrDoubled) {
  for (const Kind kind : kKinds) {
    const Schedule sound = make_schedule(kind, 3, kind == Kind::interleaved ? 2 : 1, 3);
    for (size_t rank = 0; rank < 3; ++rank)
      for (size_t i = 0; i < sound.by_rank[rank].size(); ++i) {
        Schedule s = sound;
        const auto at = s.by_rank[rank].begin() + static_cast<std::ptrdiff_t>(i);
        s.by_rank[rank].insert(at, *at);
        EXPECT_TRUE(mentions(check_schedule(s), "stands twice"));
        s = sound;
        s.by_rank[rank].erase(s.by_rank[rank].begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_FALSE(check_schedule(s).ok()) << rank << " " << i;
      }
  }
}

TEST(ScheduleCheck, NamesADroppedSend) {
  Schedule s = make_schedule(Kind::one_forward_one_backward, 2, 1, 2);
  auto& list = s.by_rank[0];
  list.erase(std::find(list.begin(), list.end(), PipelineAction{ActionKind::send_forward, 1, 0}));
  const ScheduleCheck check = check_schedule(s);
  EXPECT_TRUE(mentions(check,
                       "rank 1: forward receive of micro-batch 1, chunk 0 has no send on "
                       "rank 0"));
  EXPECT_TRUE(mentions(check, "rank 1: deadlock: forward of micro-batch 1, chunk 0 (action "))
      << joined(check);
  EXPECT_TRUE(mentions(check, "waits for ever for rank 0"));
  EXPECT_THROW(simulate(s, equal_costs(s)), InternalError);
}

TEST(ScheduleCheck, FindsADeadlockOfSoundParts) {
  // Each rank does all its work in an order of its own, but the first wants the gradient of
  // micro-batch 0 before it sends micro-batch 1, which the second wants first.
  Schedule s = make_schedule(Kind::gpipe, 2, 1, 2);
  const auto order = [](std::initializer_list<PipelineAction> list) {
    return std::vector<PipelineAction>(list);
  };
  using K = ActionKind;
  s.by_rank[0] = order({{K::forward, 0, 0},
                        {K::send_forward, 0, 0},
                        {K::recv_backward, 0, 0},
                        {K::backward, 0, 0},
                        {K::forward, 1, 0},
                        {K::send_forward, 1, 0},
                        {K::recv_backward, 1, 0},
                        {K::backward, 1, 0}});
  const ScheduleCheck check = check_schedule(s);
  ASSERT_EQ(check.faults.size(), 2) << joined(check);
  EXPECT_EQ(check.faults[0],
            "rank 0: deadlock: backward of micro-batch 0, chunk 0 (action 3) waits for ever for "
            "rank 1");
  EXPECT_TRUE(mentions(check, "rank 1: deadlock: forward of micro-batch 1, chunk 0"));
}

TEST(ScheduleCheck, FindsWrongOrder) {
  for (const Kind kind : kKinds) {
    const Schedule sound = make_schedule(kind, 4, kind == Kind::interleaved ? 2 : 1, 4);
    for (size_t rank = 0; rank < 4; ++rank) {
      // The micro-batches from last to first.
      Schedule s = sound;
      for (PipelineAction& a : s.by_rank[rank]) a.micro_batch = 3 - a.micro_batch;
      EXPECT_TRUE(mentions(check_schedule(s), "stands behind that of micro-batch"));
      s = sound;
      std::reverse(s.by_rank[rank].begin(), s.by_rank[rank].end());
      EXPECT_TRUE(mentions(check_schedule(s), "stands before its forward"));
    }
  }
  Schedule s = make_schedule(Kind::zero_bubble, 2, 1, 2);
  auto& list = s.by_rank[1];
  std::swap(
      *std::find(list.begin(), list.end(), PipelineAction{ActionKind::backward_input, 1, 0}),
      *std::find(list.begin(), list.end(), PipelineAction{ActionKind::backward_weight, 1, 0}));
  EXPECT_TRUE(mentions(check_schedule(s),
                       "weight backward of micro-batch 1, chunk 0 stands before "
                       "its input backward"));
  s = make_schedule(Kind::interleaved, 1, 2, 1);
  std::swap(s.by_rank[0][0], s.by_rank[0][1]);
  EXPECT_TRUE(mentions(check_schedule(s), "stands before that of chunk 0"));
}

// Swapping two neighbours changes the order; wherever that matters it is reported, and what is not
// reported can still be played.
TEST(ScheduleCheck, JudgesEverySwapOfNeighbours) {
  int refused = 0;
  for (const Kind kind : kKinds) {
    const Schedule sound = make_schedule(kind, 3, kind == Kind::interleaved ? 2 : 1, 6);
    for (size_t rank = 0; rank < 3; ++rank)
      for (size_t i = 0; i + 1 < sound.by_rank[rank].size(); ++i) {
        Schedule s = sound;
        PipelineAction &a = s.by_rank[rank][i], &b = s.by_rank[rank][i + 1];
        // All but a send next to a receive, which have nothing to do with each other.
        const bool must_be_refused = a.micro_batch == b.micro_batch && a.chunk == b.chunk &&
                                     (is_compute(a.kind) || is_compute(b.kind));
        std::swap(a, b);
        const ScheduleCheck check = check_schedule(s);
        EXPECT_FALSE(must_be_refused && check.ok()) << rank << " " << i;
        if (check.ok())
          EXPECT_GT(simulate(s, equal_costs(s)).makespan, 0);
        else
          ++refused;
      }
  }
  EXPECT_GT(refused, 100);
}

TEST(ScheduleCheck, RefusesForeignWork) {
  Schedule s = make_schedule(Kind::gpipe, 2, 1, 2);
  s.by_rank[0].push_back({ActionKind::forward, 2, 0});
  EXPECT_TRUE(mentions(check_schedule(s), "rank 0: micro-batch 2, chunk 0 does not exist"));
  s.by_rank[0].back() = {ActionKind::recv_forward, 0, 0};
  EXPECT_TRUE(mentions(check_schedule(s), "has nobody at its other end"));
  s.by_rank[0].back() = {ActionKind::backward_weight, 0, 0};
  EXPECT_TRUE(mentions(check_schedule(s), "stands whole and in parts"));
  s.by_rank.pop_back();
  EXPECT_FALSE(check_schedule(s).ok());
}

/// A message by direction, receiving stage and micro-batch.
using MessageName = std::tuple<bool, int64_t, int64_t>;

/// Plays with one buffer a rank and direction to send from: the next send waits until the receive
/// of the one before was posted.
class OneBufferPlayer {
 public:
  explicit OneBufferPlayer(const Schedule& s)
      : s_(s), at_(s.by_rank.size(), 0), forward_(s.by_rank.size()), backward_(forward_) {}

  bool reaches_the_end() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (size_t rank = 0; rank < at_.size(); ++rank)
        while (at_[rank] < s_.by_rank[rank].size() && can_step(rank)) {
          ++at_[rank];
          has_moved = true;
        }
    }
    for (size_t rank = 0; rank < at_.size(); ++rank)
      if (at_[rank] < s_.by_rank[rank].size()) return false;
    return true;
  }

 private:
  bool can_step(size_t rank) {
    const auto r = static_cast<int64_t>(rank);
    const PipelineAction& a = s_.by_rank[rank][at_[rank]];
    const int64_t stage = s_.stage(r, a.chunk);
    if (is_receive(a.kind))
      return posted_.insert({a.kind == ActionKind::recv_forward, stage, a.micro_batch}), true;
    if (is_send(a.kind)) {
      const bool is_forward = a.kind == ActionKind::send_forward;
      auto& before = is_forward ? forward_[rank] : backward_[rank];
      if (before && posted_.count(*before) == 0) return false;
      const Peer peer = peer_of(s_, r, a);
      before = MessageName{is_forward, s_.stage(peer.rank, peer.chunk), a.micro_batch};
      return sent_.insert(*before), true;
    }
    const bool is_forward = a.kind == ActionKind::forward;
    if (s_.ranks == 1 || a.kind == ActionKind::backward_weight) return true;
    if (stage == (is_forward ? 0 : s_.stages() - 1)) return true;
    const MessageName needed{is_forward, stage, a.micro_batch};
    return posted_.count(needed) != 0 && sent_.count(needed) != 0;
  }

  const Schedule& s_;
  std::vector<size_t> at_;
  std::vector<std::optional<MessageName>> forward_, backward_;  // sent last, by rank
  std::set<MessageName> posted_, sent_;
};

// So an executor may wait for its last send before it reuses the buffer.
TEST(Schedule, OneSendBufferADirectionIsEnough) {
  for_all([](const Schedule& s) { EXPECT_TRUE(OneBufferPlayer(s).reaches_the_end()); });
}

}  // namespace
}  // namespace espalier
