// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as data: for every rank the list of what it computes, sends and receives. They
// are printed, drawn, checked, priced and played from the same lists.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deck/config.hpp"

namespace espalier {

/// `backward` is the whole backward pass of a stage. Split, `backward_input` makes the gradient of
/// the stage's input (which the stage before waits for) and `backward_weight` those of its weights.
/// Transfers are nonblocking: a receive is posted where it stands and waited for by the compute
/// action that needs it; a send is posted behind the compute action that made its content.
enum class ActionKind {
  forward,
  backward,
  backward_input,
  backward_weight,
  send_forward,
  recv_forward,
  send_backward,
  recv_backward
};

/// One entry of a rank's list. `chunk` is always the acting rank's own, also of a send.
struct PipelineAction {
  ActionKind kind = ActionKind::forward;
  int64_t micro_batch = 0, chunk = 0;
};

inline bool operator==(const PipelineAction& a, const PipelineAction& b) {
  return a.kind == b.kind && a.micro_batch == b.micro_batch && a.chunk == b.chunk;
}

/// Stage g of the model is chunk g / ranks of rank g % ranks.
struct Schedule {
  PipelineSchedule kind = PipelineSchedule::one_forward_one_backward;
  int64_t ranks = 1, chunks = 1, micro_batches = 1;  // chunks of one rank
  std::vector<std::vector<PipelineAction>> by_rank;
  int64_t stages() const { return ranks * chunks; }
  int64_t stage(int64_t rank, int64_t chunk) const { return chunk * ranks + rank; }
};

bool is_compute(ActionKind kind);
bool is_send(ActionKind kind);
bool is_receive(ActionKind kind);

/// The rank at the other end of a transfer, and its chunk: a message is matched by direction
/// (forward or backward), micro-batch and the chunk of the receiver.
struct Peer {
  int64_t rank = 0, chunk = 0;
};
Peer peer_of(const Schedule& schedule, int64_t rank, const PipelineAction& transfer);
/// The chunk of the receiver, whichever end `transfer` stands at.
int64_t receiver_chunk(const Schedule& schedule, int64_t rank, const PipelineAction& transfer);

/// The schedule of `kind`. One rank alone works a micro-batch off before it begins the next,
/// whatever the kind, and hands over from chunk to chunk without transfers. The backward passes of
/// a chunk go in the order of the micro-batches, as the sums of gradients need.
///
/// A receive stands one compute action ahead of the one that needs it, so that it overlaps. One
/// buffer a direction is enough to send from: to wait for the last send before the next one is
/// posted cannot deadlock.
///
/// Throws InternalError for what the deck's rules refuse: chunks other than 1 when not interleaved,
/// interleaved micro-batches that are no multiple of the ranks.
///
/// Sources  gpipe: Huang et al. 2019, arXiv:1811.06965 (all forward passes, then all backward)
///          1f1b and interleaved: Narayanan et al. 2021, arXiv:2104.04473, section 2.2
///          zero_bubble: the schedule ZB-H1 of Qi et al. 2023, arXiv:2401.10241, section 2
Schedule make_schedule(PipelineSchedule kind, int64_t ranks, int64_t chunks, int64_t micro_batches);

/// Most micro-batches of which a chunk keeps activations at the same time: from the forward pass to
/// the end of the backward pass (of the weights, where it is split).
int64_t slots(const Schedule& schedule, int64_t rank, int64_t chunk);

/// Most receives of that kind posted and not yet used up, the one in use included: the buffers that
/// a rank needs for what arrives.
int64_t receive_slots(const Schedule& schedule, int64_t rank, ActionKind receive);

struct ScheduleCheck {
  std::vector<std::string> faults;  // a line each; empty: sound
  bool ok() const { return faults.empty(); }
};

/// Looks for missing, doubled or foreign work, wrong order, transfers without a partner, and, by
/// playing the lists with nonblocking transfers, for deadlock. Never throws on a faulty schedule.
ScheduleCheck check_schedule(const Schedule& schedule);

/// What a stage takes for one micro-batch.
struct StageSeconds {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double total() const { return forward + backward_input + backward_weight; }
};

struct ScheduleTiming {
  double makespan = 0;                            // seconds, first begin to last end
  std::vector<double> busy, idle;                 // seconds, by rank
  std::vector<std::vector<double>> begins, ends;  // seconds, by rank and action
  /// Part of the ranks' time in which they wait: 1 - mean busy / makespan. Unequal stages count.
  double bubble = 0;
  /// The same of the busiest rank: what the schedule alone costs.
  double slowest_bubble = 0;
};

/// Plays a sound schedule; `by_stage` has the seconds of each global stage. A transfer takes
/// `send_seconds` from when both ends have posted it, and no time of the ranks. Throws
/// InternalError when the schedule is not sound or `by_stage` has another length.
ScheduleTiming simulate(const Schedule& schedule, const std::vector<StageSeconds>& by_stage,
                        double send_seconds = 0);

/// The bubble of equal stages with free transfers, as a part of the makespan; `cost` is that of one
/// stage and matters to zero_bubble only:
///   gpipe, 1f1b   (p - 1) / (m + p - 1)
///   interleaved   (p - 1) / (v m + p - 1)
///   zero_bubble   (p - 1) X / (m (F + B + W) + (p - 1) X)   from p micro-batches on
/// with B and W for backward_input and backward_weight and X = max(F + B - W, F, B), which is the
/// F + B - W of the paper while W is the least of the three; no rank can begin before p - 1 forward
/// passes, nor the first end before p - 1 backward ones. Sources as of make_schedule.
double bubble_formula(PipelineSchedule kind, int64_t ranks, int64_t chunks, int64_t micro_batches,
                      const StageSeconds& cost = {});

/// "F3", "B3" (backward, or of the input), "W3" (of the weights); "<F3" received, "F3>" sent; the
/// chunk behind a point where a rank has several: "F3.1".
std::string action_text(const Schedule& schedule, const PipelineAction& action);

/// The list of one rank in these words, in lines of at most `width` columns, each indented.
std::string action_list(const Schedule& schedule, int64_t rank, int64_t width = 100);

/// Time to the right, a row a rank (and chunk), at most `width` columns; a cell too narrow for its
/// number keeps its letter only. Ends with a line on what is drawn.
std::string draw_schedule(const Schedule& schedule, const ScheduleTiming& timing,
                          int64_t width = 100);

}  // namespace espalier
