// SPDX-License-Identifier: Apache-2.0
// Whether a schedule can be played and does the work of a step, once and in order.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "blueprint/schedule_play.hpp"

namespace espalier {
namespace {

constexpr size_t kKinds = 8;
constexpr size_t kAbsent = static_cast<size_t>(-1);

const char* kind_text(ActionKind kind) {
  static const char* const names[kKinds] = {"forward",         "backward",        "input backward",
                                            "weight backward", "forward send",    "forward receive",
                                            "backward send",   "backward receive"};
  return names[static_cast<size_t>(kind)];
}

class Checker {
 public:
  explicit Checker(const Schedule& schedule) : s_(schedule) {}

  ScheduleCheck run() {
    if (!is_well_formed()) return std::move(check_);
    for (int64_t rank = 0; rank < s_.ranks; ++rank) read_rank(rank);
    for (int64_t stage = 0; stage < s_.stages(); ++stage)
      for (int64_t m = 0; m < s_.micro_batches; ++m) {
        check_work(stage, m);
        check_border(stage, m);
        check_hand_over(stage, m);
      }
    find_deadlock();
    return std::move(check_);
  }

 private:
  template <class... Args>
  void fault(int64_t rank, fmt::format_string<Args...> text, Args&&... args) {
    check_.faults.push_back(fmt::format("rank {}: ", rank) +
                            fmt::format(text, std::forward<Args>(args)...));
  }

  bool is_well_formed() {
    if (s_.ranks < 1 || s_.chunks < 1 || s_.micro_batches < 1 ||
        static_cast<int64_t>(s_.by_rank.size()) != s_.ranks) {
      check_.faults.push_back(fmt::format("{} lists for {} ranks, {} chunks and {} micro-batches",
                                          s_.by_rank.size(), s_.ranks, s_.chunks,
                                          s_.micro_batches));
      return false;
    }
    for (int64_t rank = 0; rank < s_.ranks; ++rank)
      for (const PipelineAction& a : s_.by_rank[static_cast<size_t>(rank)])
        if (static_cast<size_t>(a.kind) >= kKinds || a.chunk < 0 || a.chunk >= s_.chunks ||
            a.micro_batch < 0 || a.micro_batch >= s_.micro_batches)
          fault(rank, "micro-batch {}, chunk {} does not exist", a.micro_batch, a.chunk);
    places_.fill(std::vector<size_t>(static_cast<size_t>(s_.stages() * s_.micro_batches), kAbsent));
    return check_.ok();
  }

  size_t& place(ActionKind kind, int64_t stage, int64_t m) {
    return places_[static_cast<size_t>(kind)][static_cast<size_t>(stage * s_.micro_batches + m)];
  }
  bool has(ActionKind kind, int64_t stage, int64_t m) { return place(kind, stage, m) != kAbsent; }
  int64_t rank_of(int64_t stage) const { return stage % s_.ranks; }
  PipelineAction action(ActionKind kind, int64_t stage, int64_t m) const {
    return {kind, m, stage / s_.ranks};
  }

  // Doubled entries, transfers out of the model, and micro-batches that overtake each other.
  void read_rank(int64_t rank) {
    std::vector<int64_t> last(kKinds * static_cast<size_t>(s_.chunks), -1);
    const std::vector<PipelineAction>& list = s_.by_rank[static_cast<size_t>(rank)];
    for (size_t i = 0; i < list.size(); ++i) {
      const PipelineAction& a = list[i];
      if (!is_compute(a.kind) && sends_or_receives_outside(s_, rank, a))
        fault(rank, "{} has nobody at its other end", describe(a));
      size_t& where = place(a.kind, s_.stage(rank, a.chunk), a.micro_batch);
      if (where != kAbsent) {
        fault(rank, "{} stands twice", describe(a));
        continue;
      }
      where = i;
      int64_t& before = last[static_cast<size_t>(a.kind) * static_cast<size_t>(s_.chunks) +
                             static_cast<size_t>(a.chunk)];
      if (a.micro_batch < before)
        fault(rank, "{} stands behind that of micro-batch {}", describe(a), before);
      before = std::max(before, a.micro_batch);
    }
  }

  void require_before(ActionKind first, ActionKind second, int64_t stage, int64_t m) {
    if (!has(first, stage, m) || !has(second, stage, m)) return;
    if (place(first, stage, m) < place(second, stage, m)) return;
    fault(rank_of(stage), "{} stands before its {}", describe(action(second, stage, m)),
          kind_text(first));
  }

  // The kind that makes the gradient of the stage's input, if there is any.
  std::optional<ActionKind> backward_kind(int64_t stage, int64_t m) {
    if (has(ActionKind::backward, stage, m)) return ActionKind::backward;
    if (has(ActionKind::backward_input, stage, m)) return ActionKind::backward_input;
    return std::nullopt;
  }

  void check_work(int64_t stage, int64_t m) {
    const auto missing = [&](ActionKind kind) {
      if (!has(kind, stage, m))
        fault(rank_of(stage), "{} is missing", describe(action(kind, stage, m)));
    };
    missing(ActionKind::forward);
    const bool has_input = has(ActionKind::backward_input, stage, m);
    const bool has_weight = has(ActionKind::backward_weight, stage, m);
    if (!has_input && !has_weight) {
      missing(ActionKind::backward);
    } else if (has(ActionKind::backward, stage, m)) {
      fault(rank_of(stage), "{} stands whole and in parts",
            describe(action(ActionKind::backward, stage, m)));
    } else {
      missing(ActionKind::backward_input);
      missing(ActionKind::backward_weight);
    }
    require_before(ActionKind::forward, ActionKind::backward, stage, m);
    require_before(ActionKind::forward, ActionKind::backward_input, stage, m);
    require_before(ActionKind::backward_input, ActionKind::backward_weight, stage, m);
  }

  // The messages across the border between a stage and the next one.
  void check_border(int64_t stage, int64_t m) {
    if (s_.ranks == 1 || stage == s_.stages() - 1) return;
    check_message(ActionKind::send_forward, stage, ActionKind::recv_forward, stage + 1, m);
    check_message(ActionKind::send_backward, stage + 1, ActionKind::recv_backward, stage, m);
    require_before(ActionKind::forward, ActionKind::send_forward, stage, m);
    require_before(ActionKind::recv_forward, ActionKind::forward, stage + 1, m);
    if (const auto kind = backward_kind(stage, m))
      require_before(ActionKind::recv_backward, *kind, stage, m);
    if (const auto kind = backward_kind(stage + 1, m))
      require_before(*kind, ActionKind::send_backward, stage + 1, m);
  }

  void check_message(ActionKind send, int64_t from, ActionKind receive, int64_t to, int64_t m) {
    const bool is_sent = has(send, from, m), is_received = has(receive, to, m);
    if (is_sent && !is_received)
      fault(rank_of(from), "{} has no receive on rank {}", describe(action(send, from, m)),
            rank_of(to));
    if (!is_sent && is_received)
      fault(rank_of(to), "{} has no send on rank {}", describe(action(receive, to, m)),
            rank_of(from));
    if (!is_sent && !is_received)
      fault(rank_of(from), "{} is missing, and its receive on rank {}",
            describe(action(send, from, m)), rank_of(to));
  }

  // Chunks of one rank alone hand over without messages.
  void check_hand_over(int64_t stage, int64_t m) {
    if (s_.ranks > 1 || stage == s_.stages() - 1) return;
    const auto check = [&](ActionKind kind, int64_t first, int64_t second) {
      if (has(kind, first, m) && has(kind, second, m) &&
          place(kind, first, m) > place(kind, second, m))
        fault(0, "{} stands before that of chunk {}", describe(action(kind, second, m)), first);
    };
    check(ActionKind::forward, stage, stage + 1);
    if (const auto kind = backward_kind(stage, m)) check(*kind, stage + 1, stage);
  }

  void find_deadlock() {
    const std::vector<StageSeconds> costs(static_cast<size_t>(s_.stages()));
    const Played played = play(s_, costs, 0);
    for (int64_t rank = 0; rank < s_.ranks; ++rank) {
      const auto& list = s_.by_rank[static_cast<size_t>(rank)];
      const size_t at = played.reached[static_cast<size_t>(rank)];
      if (at == list.size()) continue;
      const PipelineAction& a = list[at];
      const int64_t stage = s_.stage(rank, a.chunk);
      const int64_t source = rank_of(a.kind == ActionKind::forward ? stage - 1 : stage + 1);
      fault(rank, "deadlock: {} (action {}) waits for ever for rank {}", describe(a), at, source);
    }
  }

  const Schedule& s_;
  std::array<std::vector<size_t>, kKinds> places_;  // by kind: of a stage and micro-batch in a list
  ScheduleCheck check_;
};

}  // namespace

std::string describe(const PipelineAction& a) {
  return fmt::format("{} of micro-batch {}, chunk {}", kind_text(a.kind), a.micro_batch, a.chunk);
}

ScheduleCheck check_schedule(const Schedule& schedule) {
  return Checker(schedule).run();
}

}  // namespace espalier
