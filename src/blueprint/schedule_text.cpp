// SPDX-License-Identifier: Apache-2.0
// Schedules for the eye: lists in short words, and a drawing over time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "blueprint/schedule.hpp"

namespace espalier {
namespace {

char letter(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
    case ActionKind::send_forward:
    case ActionKind::recv_forward: return 'F';
    case ActionKind::backward_weight: return 'W';
    default: return 'B';
  }
}

std::string row_label(const Schedule& s, int64_t rank, int64_t chunk) {
  return s.chunks == 1 ? fmt::format("rank {} ", rank)
                       : fmt::format("rank {} chunk {} ", rank, chunk);
}

/// One row of the drawing: cells over a line of idle time.
class Row {
 public:
  Row(int64_t columns, double per_second)
      : text_(static_cast<size_t>(columns), '.'), per_second_(per_second) {}

  void draw(const PipelineAction& a, double begin, double end) {
    const auto first = static_cast<size_t>(std::lround(begin * per_second_));
    const size_t last = std::min(text_.size(), static_cast<size_t>(std::lround(end * per_second_)));
    if (last <= first) return;
    std::string cell = fmt::format("{}{}", letter(a.kind), a.micro_batch);
    // A number that is cut short would be another number.
    if (cell.size() > last - first) cell.resize(1);
    cell.resize(last - first, '-');
    text_.replace(first, cell.size(), cell);
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  double per_second_;
};

// Columns a second at which every number can be read, or the most there is room for.
double columns_per_second(const Schedule& s, const ScheduleTiming& t, int64_t columns) {
  double shortest = t.makespan;
  for (size_t rank = 0; rank < s.by_rank.size(); ++rank)
    for (size_t i = 0; i < s.by_rank[rank].size(); ++i)
      if (const double length = t.ends[rank][i] - t.begins[rank][i]; length > 0)
        shortest = std::min(shortest, length);
  const auto digits = std::to_string(s.micro_batches - 1).size();
  const double readable = static_cast<double>(digits + 1) / shortest;
  return std::min(readable, static_cast<double>(columns) / t.makespan);
}

}  // namespace

std::string action_text(const Schedule& s, const PipelineAction& a) {
  std::string text = fmt::format("{}{}", letter(a.kind), a.micro_batch);
  if (s.chunks > 1) text += fmt::format(".{}", a.chunk);
  if (is_receive(a.kind)) return "<" + text;
  return is_send(a.kind) ? text + ">" : text;
}

std::string action_list(const Schedule& s, int64_t rank, int64_t width) {
  std::string out, line = " ";
  for (const PipelineAction& a : s.by_rank[static_cast<size_t>(rank)]) {
    const std::string word = " " + action_text(s, a);
    if (static_cast<int64_t>(line.size() + word.size()) > width && line.size() > 1) {
      out += line + "\n";
      line = " ";
    }
    line += word;
  }
  return out + line + "\n";
}

std::string draw_schedule(const Schedule& s, const ScheduleTiming& t, int64_t width) {
  if (t.makespan <= 0) return "";
  const size_t label = row_label(s, s.ranks - 1, s.chunks - 1).size();
  const int64_t columns = std::max<int64_t>(1, width - static_cast<int64_t>(label));
  const double per_second = columns_per_second(s, t, columns);
  const auto drawn = static_cast<int64_t>(std::ceil(t.makespan * per_second - 1e-9));
  std::string out;
  for (int64_t rank = 0; rank < s.ranks; ++rank)
    for (int64_t chunk = 0; chunk < s.chunks; ++chunk) {
      Row row(std::min(drawn, columns), per_second);
      const auto r = static_cast<size_t>(rank);
      for (size_t i = 0; i < s.by_rank[r].size(); ++i) {
        const PipelineAction& a = s.by_rank[r][i];
        if (is_compute(a.kind) && a.chunk == chunk) row.draw(a, t.begins[r][i], t.ends[r][i]);
      }
      std::string name = row_label(s, rank, chunk);
      name.resize(label, ' ');
      out += name + row.text() + "\n";
    }
  return out + "time to the right; F forward, B backward, W gradients of the weights, . waiting\n";
}

}  // namespace espalier
