// SPDX-License-Identifier: Apache-2.0
// What a schedule costs: played with the seconds of its stages, and by formula.
#include <algorithm>
#include <limits>
#include <numeric>

#include "blueprint/schedule_play.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

constexpr double kNotYet = -1;

/// When both ends of a message were posted.
struct Message {
  double sent = kNotYet, received = kNotYet;
  bool is_posted() const { return sent != kNotYet && received != kNotYet; }
};

class Player {
 public:
  Player(const Schedule& schedule, const std::vector<StageSeconds>& by_stage, double send_seconds)
      : s_(schedule), by_stage_(by_stage), send_seconds_(send_seconds) {
    const auto cells = static_cast<size_t>(s_.stages() * s_.micro_batches);
    forward_.resize(cells);
    backward_.resize(cells);
    clock_.assign(s_.by_rank.size(), 0.0);
    played_.begins.resize(s_.by_rank.size());
    played_.ends.resize(s_.by_rank.size());
    played_.reached.assign(s_.by_rank.size(), 0);
  }

  Played run() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (size_t rank = 0; rank < s_.by_rank.size(); ++rank)
        while (played_.reached[rank] < s_.by_rank[rank].size() && step(rank)) has_moved = true;
    }
    return std::move(played_);
  }

 private:
  /// The message that a stage receives for a micro-batch.
  Message& message(bool is_forward, int64_t stage, int64_t micro_batch) {
    return (is_forward ? forward_
                       : backward_)[static_cast<size_t>(stage * s_.micro_batches + micro_batch)];
  }

  // False: it must wait.
  bool step(size_t rank) {
    const auto r = static_cast<int64_t>(rank);
    const PipelineAction& a = s_.by_rank[rank][played_.reached[rank]];
    double begin = clock_[rank];
    if (is_compute(a.kind)) {
      const Message* needed = need(s_.stage(r, a.chunk), a);
      if (needed != nullptr && !needed->is_posted()) return false;
      if (needed != nullptr)
        begin = std::max(begin, std::max(needed->sent, needed->received) + send_seconds_);
    } else if (!sends_or_receives_outside(s_, r, a)) {
      const Peer peer = peer_of(s_, r, a);
      const bool is_forward =
          a.kind == ActionKind::send_forward || a.kind == ActionKind::recv_forward;
      if (is_send(a.kind))
        message(is_forward, s_.stage(peer.rank, peer.chunk), a.micro_batch).sent = begin;
      else
        message(is_forward, s_.stage(r, a.chunk), a.micro_batch).received = begin;
    }
    clock_[rank] = begin + seconds(s_.stage(r, a.chunk), a.kind);
    played_.begins[rank].push_back(begin);
    played_.ends[rank].push_back(clock_[rank]);
    ++played_.reached[rank];
    return true;
  }

  const Message* need(int64_t stage, const PipelineAction& a) {
    if (s_.ranks == 1 || a.kind == ActionKind::backward_weight) return nullptr;
    const bool is_forward = a.kind == ActionKind::forward;
    if (stage == (is_forward ? 0 : s_.stages() - 1)) return nullptr;
    return &message(is_forward, stage, a.micro_batch);
  }

  double seconds(int64_t stage, ActionKind kind) const {
    const StageSeconds& cost = by_stage_[static_cast<size_t>(stage)];
    switch (kind) {
      case ActionKind::forward: return cost.forward;
      case ActionKind::backward: return cost.backward_input + cost.backward_weight;
      case ActionKind::backward_input: return cost.backward_input;
      case ActionKind::backward_weight: return cost.backward_weight;
      default: return 0.0;
    }
  }

  const Schedule& s_;
  const std::vector<StageSeconds>& by_stage_;
  double send_seconds_;
  std::vector<Message> forward_, backward_;  // by receiving stage and micro-batch
  std::vector<double> clock_;                // of each rank
  Played played_;
};

}  // namespace

bool sends_or_receives_outside(const Schedule& s, int64_t rank, const PipelineAction& transfer) {
  const int64_t stage = s.stage(rank, transfer.chunk);
  const bool is_next =
      transfer.kind == ActionKind::send_forward || transfer.kind == ActionKind::recv_backward;
  return s.ranks == 1 || (is_next ? stage == s.stages() - 1 : stage == 0);
}

Played play(const Schedule& schedule, const std::vector<StageSeconds>& by_stage,
            double send_seconds) {
  return Player(schedule, by_stage, send_seconds).run();
}

ScheduleTiming simulate(const Schedule& s, const std::vector<StageSeconds>& by_stage,
                        double send_seconds) {
  ESPALIER_REQUIRE(static_cast<int64_t>(by_stage.size()) == s.stages(),
                   "seconds of {} stages for a schedule of {}", by_stage.size(), s.stages());
  const ScheduleCheck check = check_schedule(s);
  ESPALIER_REQUIRE(check.ok(), "the schedule is not sound: {}",
                   check.ok() ? "" : check.faults.front());
  Played played = play(s, by_stage, send_seconds);
  ScheduleTiming t;
  for (size_t rank = 0; rank < s.by_rank.size(); ++rank) {
    double busy = 0;
    for (size_t i = 0; i < played.ends[rank].size(); ++i)
      busy += played.ends[rank][i] - played.begins[rank][i];
    t.busy.push_back(busy);
    t.makespan = std::max(t.makespan, played.ends[rank].back());
  }
  for (const double busy : t.busy) t.idle.push_back(t.makespan - busy);
  t.begins = std::move(played.begins);
  t.ends = std::move(played.ends);
  if (t.makespan <= 0) return t;
  const double sum = std::accumulate(t.busy.begin(), t.busy.end(), 0.0);
  t.bubble = 1 - sum / (static_cast<double>(s.ranks) * t.makespan);
  t.slowest_bubble = 1 - *std::max_element(t.busy.begin(), t.busy.end()) / t.makespan;
  return t;
}

double bubble_formula(PipelineSchedule kind, int64_t ranks, int64_t chunks, int64_t micro_batches,
                      const StageSeconds& cost) {
  const auto waits = static_cast<double>(ranks - 1);
  const auto works = static_cast<double>(micro_batches);
  if (ranks == 1) return 0.0;
  if (kind == PipelineSchedule::interleaved)
    return waits / (static_cast<double>(chunks) * works + waits);
  if (kind != PipelineSchedule::zero_bubble) return waits / (works + waits);
  const double f = cost.forward, b = cost.backward_input;
  const double idle = waits * std::max({f + b - cost.backward_weight, f, b});
  return idle / (works * cost.total() + idle);
}

}  // namespace espalier
