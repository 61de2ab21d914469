// SPDX-License-Identifier: Apache-2.0
// Emulated device: what the lanes of a warp compute together.
#include <utility>

#include "emulator/primitives.hpp"

namespace espalier::emulator {
namespace {

void finish_vote(void* const* slots) {
  unsigned result = 0;
  for (int l = 0; l < kLanes; ++l)
    if (static_cast<const VoteSlot*>(slots[l])->value) result |= 1u << l;
  for (int l = 0; l < kLanes; ++l) static_cast<VoteSlot*>(slots[l])->result = result;
}
void finish_nothing(void* const*) {}

/// Matrices i = 0..3: row j by lane 8 i + j; element e of lane l's two goes where `at` says.
template <class At>
void spread(void* const* slots, const At& at) {
  for (int l = 0; l < kLanes; ++l) {
    for (int i = 0; i < 4; ++i) {
      uint32_t word = 0;
      for (int e = 0; e < 2; ++e) {
        const auto [row, column] = at(l, e);
        word |= uint32_t{static_cast<const MatrixSlot*>(slots[8 * i + row])->row[column]} << 16 * e;
      }
      static_cast<MatrixSlot*>(slots[l])->r[i] = word;
    }
  }
}

}  // namespace

unsigned vote(const char* what, unsigned mask, bool value, Site site) {
  VoteSlot slot{value, 0};
  meet_warp(what, mask, &slot, &finish_vote, site);
  return slot.result;
}
void join_warp(unsigned mask, Site site) {
  meet_warp("__syncwarp", mask, nullptr, &finish_nothing, site);
}

void check_matrix_row(const void* row) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0)
    die("load_matrices from a row that is not 16-byte aligned");
  if (!is_shared(row, 16)) die("load_matrices from outside of the block's shared memory");
}
void finish_load_matrices(void* const* slots) {
  spread(slots, [](int l, int e) { return std::pair(l / 4, 2 * (l % 4) + e); });
}
void finish_load_matrices_transposed(void* const* slots) {
  spread(slots, [](int l, int e) { return std::pair(2 * (l % 4) + e, l / 4); });
}

template <class T>
void finish_mma(void* const* slots) {
  float a[16][16], b[16][8], sum[16][8] = {};
  for (int l = 0; l < kLanes; ++l) {
    const auto& slot = *static_cast<const MmaSlot*>(slots[l]);
    const int g = l / 4, c = 2 * (l % 4);
    for (int i = 0; i < 4; ++i) {
      const int row = g + 8 * (i % 2), column = c + 8 * (i / 2);
      a[row][column] = widened<T>(slot.a[i] & 0xffffu);
      a[row][column + 1] = widened<T>(slot.a[i] >> 16);
    }
    for (int i = 0; i < 2; ++i) {
      b[c + 8 * i][g] = widened<T>(slot.b[i] & 0xffffu);
      b[c + 8 * i + 1][g] = widened<T>(slot.b[i] >> 16);
    }
  }
  for (int m = 0; m < 16; ++m)
    for (int k = 0; k < 16; ++k)
      for (int n = 0; n < 8; ++n) sum[m][n] += a[m][k] * b[k][n];
  for (int l = 0; l < kLanes; ++l) {
    float* const d = static_cast<const MmaSlot*>(slots[l])->d;
    const int g = l / 4, c = 2 * (l % 4);
    for (int i = 0; i < 4; ++i) d[i] += sum[g + 8 * (i / 2)][c + i % 2];
  }
}
template void finish_mma<bf16>(void* const*);
template void finish_mma<fp16>(void* const*);

}  // namespace espalier::emulator
