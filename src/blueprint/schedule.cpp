// SPDX-License-Identifier: Apache-2.0
// The order in which each schedule computes, and the transfers that follow from it.
#include "blueprint/schedule.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace espalier {
namespace {

using Actions = std::vector<PipelineAction>;

// One rank: a micro-batch through all chunks and back.
Actions order_alone(const Schedule& s) {
  Actions list;
  for (int64_t m = 0; m < s.micro_batches; ++m) {
    for (int64_t c = 0; c < s.chunks; ++c) list.push_back({ActionKind::forward, m, c});
    for (int64_t c = s.chunks - 1; c >= 0; --c) list.push_back({ActionKind::backward, m, c});
  }
  return list;
}

Actions order_gpipe(const Schedule& s) {
  Actions list;
  for (int64_t m = 0; m < s.micro_batches; ++m) list.push_back({ActionKind::forward, m, 0});
  for (int64_t m = 0; m < s.micro_batches; ++m) list.push_back({ActionKind::backward, m, 0});
  return list;
}

// Forward k of a rank with chunks: groups of `ranks` micro-batches go through one chunk after the
// other. Backward likewise, from the last chunk.
PipelineAction interleaved_action(const Schedule& s, ActionKind kind, int64_t k) {
  const int64_t group = s.ranks * s.chunks;
  const int64_t chunk = k % group / s.ranks;
  return {kind, k / group * s.ranks + k % s.ranks,
          kind == ActionKind::forward ? chunk : s.chunks - 1 - chunk};
}

// As many forward passes ahead as it takes until the first gradient can be back, then one backward
// pass for each forward pass. With one chunk interleaved_action counts micro-batches.
Actions order_one_for_one(const Schedule& s, int64_t rank) {
  const int64_t all = s.micro_batches * s.chunks, behind = s.ranks - 1 - rank;
  const int64_t ahead =
      std::min(all, s.chunks == 1 ? behind : 2 * behind + (s.chunks - 1) * s.ranks);
  Actions list;
  for (int64_t k = 0; k < ahead; ++k) list.push_back(interleaved_action(s, ActionKind::forward, k));
  for (int64_t k = 0; k < all; ++k) {
    if (k + ahead < all) list.push_back(interleaved_action(s, ActionKind::forward, k + ahead));
    list.push_back(interleaved_action(s, ActionKind::backward, k));
  }
  return list;
}

// As 1f1b, but the gradients of the weights stay behind by as many micro-batches as the rank has
// ranks before it: every rank then keeps as many micro-batches as the first one does, and what is
// left fills the end, where 1f1b waits.
Actions order_zero_bubble(const Schedule& s, int64_t rank) {
  const int64_t all = s.micro_batches, ahead = std::min(all, s.ranks - 1 - rank);
  Actions list;
  for (int64_t m = 0; m < ahead; ++m) list.push_back({ActionKind::forward, m, 0});
  for (int64_t m = 0; m < all; ++m) {
    if (m + ahead < all) list.push_back({ActionKind::forward, m + ahead, 0});
    list.push_back({ActionKind::backward_input, m, 0});
    if (m >= rank) list.push_back({ActionKind::backward_weight, m - rank, 0});
  }
  for (int64_t m = std::max<int64_t>(0, all - rank); m < all; ++m)
    list.push_back({ActionKind::backward_weight, m, 0});
  return list;
}

Actions compute_order(const Schedule& s, int64_t rank) {
  if (s.ranks == 1) return order_alone(s);
  switch (s.kind) {
    case PipelineSchedule::gpipe: return order_gpipe(s);
    case PipelineSchedule::one_forward_one_backward:
    case PipelineSchedule::interleaved: return order_one_for_one(s, rank);
    case PipelineSchedule::zero_bubble: return order_zero_bubble(s, rank);
  }
  throw InternalError("there is no such pipeline schedule");
}

bool is_backward(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}

void add_receive(const Schedule& s, int64_t rank, const PipelineAction& a, Actions& list) {
  const int64_t stage = s.stage(rank, a.chunk);
  if (a.kind == ActionKind::forward && stage > 0)
    list.push_back({ActionKind::recv_forward, a.micro_batch, a.chunk});
  if (is_backward(a.kind) && stage < s.stages() - 1)
    list.push_back({ActionKind::recv_backward, a.micro_batch, a.chunk});
}

void add_send(const Schedule& s, int64_t rank, const PipelineAction& a, Actions& list) {
  const int64_t stage = s.stage(rank, a.chunk);
  if (a.kind == ActionKind::forward && stage < s.stages() - 1)
    list.push_back({ActionKind::send_forward, a.micro_batch, a.chunk});
  if (is_backward(a.kind) && stage > 0)
    list.push_back({ActionKind::send_backward, a.micro_batch, a.chunk});
}

Actions with_transfers(const Schedule& s, int64_t rank, const Actions& computes) {
  if (s.ranks == 1) return computes;
  Actions list;
  add_receive(s, rank, computes[0], list);
  for (size_t i = 0; i < computes.size(); ++i) {
    if (i + 1 < computes.size()) add_receive(s, rank, computes[i + 1], list);
    list.push_back(computes[i]);
    add_send(s, rank, computes[i], list);
  }
  return list;
}

}  // namespace

bool is_compute(ActionKind kind) {
  return !is_send(kind) && !is_receive(kind);
}

bool is_send(ActionKind kind) {
  return kind == ActionKind::send_forward || kind == ActionKind::send_backward;
}

bool is_receive(ActionKind kind) {
  return kind == ActionKind::recv_forward || kind == ActionKind::recv_backward;
}

Peer peer_of(const Schedule& s, int64_t rank, const PipelineAction& transfer) {
  ESPALIER_REQUIRE(!is_compute(transfer.kind), "only a transfer has another end");
  const bool is_next =
      transfer.kind == ActionKind::send_forward || transfer.kind == ActionKind::recv_backward;
  const int64_t stage = s.stage(rank, transfer.chunk) + (is_next ? 1 : -1);
  ESPALIER_REQUIRE(stage >= 0 && stage < s.stages(), "stage {} of {} does not exist", stage,
                   s.stages());
  return {stage % s.ranks, stage / s.ranks};
}

int64_t receiver_chunk(const Schedule& s, int64_t rank, const PipelineAction& transfer) {
  return is_send(transfer.kind) ? peer_of(s, rank, transfer).chunk : transfer.chunk;
}

Schedule make_schedule(PipelineSchedule kind, int64_t ranks, int64_t chunks,
                       int64_t micro_batches) {
  ESPALIER_REQUIRE(ranks >= 1 && chunks >= 1 && micro_batches >= 1,
                   "a schedule of {} ranks, {} chunks and {} micro-batches", ranks, chunks,
                   micro_batches);
  const bool is_interleaved = kind == PipelineSchedule::interleaved;
  ESPALIER_REQUIRE(chunks == 1 || is_interleaved, "{} chunks a rank without interleaving", chunks);
  ESPALIER_REQUIRE(!is_interleaved || micro_batches % ranks == 0,
                   "{} micro-batches cannot interleave over {} ranks", micro_batches, ranks);
  Schedule s{kind, ranks, chunks, micro_batches, {}};
  for (int64_t rank = 0; rank < ranks; ++rank)
    s.by_rank.push_back(with_transfers(s, rank, compute_order(s, rank)));
  return s;
}

int64_t slots(const Schedule& s, int64_t rank, int64_t chunk) {
  int64_t live = 0, most = 0;
  for (const PipelineAction& a : s.by_rank[static_cast<size_t>(rank)]) {
    if (a.chunk != chunk) continue;
    if (a.kind == ActionKind::forward) most = std::max(most, ++live);
    if (a.kind == ActionKind::backward || a.kind == ActionKind::backward_weight) --live;
  }
  return most;
}

int64_t receive_slots(const Schedule& s, int64_t rank, ActionKind receive) {
  const bool is_forward = receive == ActionKind::recv_forward;
  int64_t live = 0, most = 0;
  for (const PipelineAction& a : s.by_rank[static_cast<size_t>(rank)]) {
    if (a.kind == receive) most = std::max(most, ++live);
    const int64_t stage = s.stage(rank, a.chunk);
    if (s.ranks == 1 || stage == (is_forward ? 0 : s.stages() - 1)) continue;
    if (is_forward ? a.kind == ActionKind::forward : is_backward(a.kind)) --live;
  }
  return most;
}

}  // namespace espalier
