// SPDX-License-Identifier: Apache-2.0
// The one way kernels walk a matrix: a body a row, and inside it loops over the row's elements.
// On the host a row is a plain vectorised loop, on a device a team of threads.
#pragma once

#include <type_traits>

#include "tensor/launch.hpp"
#include "tensor/types.hpp"

namespace espalier {

/// Lanes of a sum over a row. Fixed, so that the order of additions, and so every bit of the
/// result, depends neither on the vector width nor on how a compiler unrolls.
constexpr int kSumLanes = 16;

/// One row on the host.
class HostRow {
 public:
  explicit HostRow(int64_t index) : index_(index) {}
  int64_t index() const { return index_; }

  /// f(j) for j in [0, n); the iterations must be independent.
  template <class F>
  void each(int64_t n, const F& f) const {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) f(j);
  }

  /// Sum of f(j) over j in [0, n) in kSumLanes interleaved lanes, added pairwise at the end.
  template <class S, class F>
  S sum(int64_t n, const F& f) const {
    S lanes[kSumLanes] = {};
    const int64_t whole = n / kSumLanes * kSumLanes;
    for (int64_t j = 0; j < whole; j += kSumLanes) {
#pragma GCC ivdep
      for (int l = 0; l < kSumLanes; ++l) lanes[l] += f(j + l);
    }
    for (int64_t j = whole; j < n; ++j) lanes[j - whole] += f(j);
    for (int width = kSumLanes / 2; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
    return lanes[0];
  }

  /// Maximum of f(j) over j in [0, n), `least` if n = 0.
  template <class S, class F>
  S max(int64_t n, S least, const F& f) const {
    S lanes[kSumLanes];
    for (int l = 0; l < kSumLanes; ++l) lanes[l] = least;
    const int64_t whole = n / kSumLanes * kSumLanes;
    for (int64_t j = 0; j < whole; j += kSumLanes) {
#pragma GCC ivdep
      for (int l = 0; l < kSumLanes; ++l) {
        const S x = f(j + l);
        lanes[l] = x > lanes[l] ? x : lanes[l];
      }
    }
    for (int64_t j = whole; j < n; ++j) {
      const S x = f(j);
      lanes[0] = x > lanes[0] ? x : lanes[0];
    }
    for (int l = 1; l < kSumLanes; ++l) lanes[0] = lanes[l] > lanes[0] ? lanes[l] : lanes[0];
    return lanes[0];
  }

 private:
  int64_t index_;
};

using TeamMember = Kokkos::TeamPolicy<Exec>::member_type;

/// One row on a device: a team of threads, each of which must reach every call.
class TeamRow {
 public:
  KOKKOS_INLINE_FUNCTION explicit TeamRow(const TeamMember& team) : team_(team) {}
  KOKKOS_INLINE_FUNCTION int64_t index() const { return team_.league_rank(); }

  /// Memory of the team for n values, from what for_each_team() was asked for; taken once.
  template <class S>
  KOKKOS_INLINE_FUNCTION S* scratch(int64_t n) const {
    return static_cast<S*>(team_.team_scratch(0).get_shmem(n * static_cast<int64_t>(sizeof(S))));
  }

  template <class F>
  KOKKOS_INLINE_FUNCTION void each(int64_t n, const F& f) const {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team_, static_cast<int>(n)),
                         [&](const int j) { f(int64_t{j}); });
    team_.team_barrier();
  }
  template <class S, class F>
  KOKKOS_INLINE_FUNCTION S sum(int64_t n, const F& f) const {
    S total = S(0);
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team_, static_cast<int>(n)),
        [&](const int j, S& part) { part += f(int64_t{j}); }, total);
    return total;
  }
  template <class S, class F>
  KOKKOS_INLINE_FUNCTION S max(int64_t n, S least, const F& f) const {
    S greatest = least;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team_, static_cast<int>(n)),
        [&](const int j, S& part) {
          const S x = f(int64_t{j});
          if (x > part) part = x;
        },
        Kokkos::Max<S>(greatest));
    return greatest > least ? greatest : least;
  }

 private:
  const TeamMember& team_;
};

/// What a body takes. A concrete type, since nvcc takes no generic lambda across the device border.
using Row = std::conditional_t<kOnHost, HostRow, TeamRow>;

/// Runs body(const Row&) for every row; `label` names the kernel for profilers. `body` is a
/// KOKKOS_LAMBDA.
template <class Body>
void for_each_row(const char* label, int64_t rows, const Body& body) {
  if (rows == 0) return;
  if constexpr (kOnHost) {
    launch_detail::start(label, IndexRange(exec(), 0, rows),
                         [=](const int64_t i) { body(HostRow(i)); });
  } else {
    launch_detail::start(
        label, Kokkos::TeamPolicy<Exec>(exec(), static_cast<int>(rows), Kokkos::AUTO),
        KOKKOS_LAMBDA(const TeamMember& team) { body(TeamRow(team)); });
  }
}

/// Runs body(const TeamRow&) for every row on a device, each with `scratch` bytes of team memory.
template <class Body>
void for_each_team(const char* label, int64_t rows, int64_t scratch, const Body& body) {
  if (rows == 0) return;
  launch_detail::start(
      label,
      Kokkos::TeamPolicy<Exec>(exec(), static_cast<int>(rows), Kokkos::AUTO)
          .set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(scratch))),
      KOKKOS_LAMBDA(const TeamMember& team) { body(TeamRow(team)); });
}

/// Columns a body of for_each_column_tile owns: a vectorised run on the host, one of many threads
/// on a device.
constexpr int64_t kColumnTile = kOnHost ? 128 : 1;

/// Runs body(first, last) over tiles of columns: sums over rows, each tile in row order.
template <class Body>
void for_each_column_tile(const char* label, int64_t columns, const Body& body) {
  const int64_t tiles = (columns + kColumnTile - 1) / kColumnTile;
  for_each(
      label, tiles, KOKKOS_LAMBDA(const int64_t t) {
        const int64_t first = t * kColumnTile;
        const int64_t last = first + kColumnTile < columns ? first + kColumnTile : columns;
        body(first, last);
      });
}

}  // namespace espalier
