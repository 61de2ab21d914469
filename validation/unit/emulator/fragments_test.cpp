// SPDX-License-Identifier: Apache-2.0
// Tensor-core fragments against loops over whole matrices, with the layouts written down as the PTX
// manual words them (group of four lanes, lane in the group), and asynchronous copies.
#include <random>

#include "cuda/primitives.cuh"
#include "on_device.hpp"

namespace espalier::emulator {
namespace {

using cuda::launch;
using cuda::shared_memory;

/// a, b, d: the registers of each lane.
template <class T>
__global__ void multiply_fragments(const uint32_t* a, const uint32_t* b, float* d) {
  const auto lane = static_cast<int>(threadIdx.x);
  uint32_t left[4];
  float sum[4];
  for (int i = 0; i < 4; ++i) left[i] = a[lane * 4 + i];
  for (int i = 0; i < 4; ++i) sum[i] = d[lane * 4 + i];
  cuda::mma_16x8x16<T>(sum, left, b[lane * 2], b[lane * 2 + 1]);
  for (int i = 0; i < 4; ++i) d[lane * 4 + i] = sum[i];
}

template <class T>
void check_product() {
  std::mt19937 random(5);
  const auto draw = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8) / 4; };
  float a[16][16], b[16][8], d[16][8];
  for (auto& row : a)
    for (float& x : row) x = draw();
  for (auto& row : b)
    for (float& x : row) x = draw();
  for (auto& row : d)
    for (float& x : row) x = draw();

  std::vector<uint32_t> a_words(32 * 4, 0), b_words(32 * 2, 0);
  std::vector<float> d_words(32 * 4);
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    const auto put = [&](std::vector<uint32_t>& words, int per_lane, int i, float x) {
      words[static_cast<size_t>(lane * per_lane + i / 2)] |= uint32_t{T(x).bits} << (i & 1) * 16;
    };
    for (int i = 0; i < 8; ++i) {
      const bool upper = i == 0 || i == 1 || i == 4 || i == 5;
      put(a_words, 4, i, a[upper ? group : group + 8][in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0)]);
    }
    for (int i = 0; i < 4; ++i)
      put(b_words, 2, i, b[in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0)][group]);
    for (int i = 0; i < 4; ++i)
      d_words[static_cast<size_t>(lane * 4 + i)] =
          d[i < 2 ? group : group + 8][in_group * 2 + (i & 1)];
  }
  const OnDevice<uint32_t> a_device(a_words), b_device(b_words);
  const OnDevice<float> d_device(d_words);
  launch("multiply_fragments", multiply_fragments<T>, dim3(1), dim3(32), 0, nullptr,
         a_device.data(), b_device.data(), d_device.data());
  const std::vector<float> got = d_device.values();
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = (lane >> 2) + (i < 2 ? 0 : 8), column = lane % 4 * 2 + (i & 1);
      float expected = d[row][column];  // quarters of small numbers: exact in any order
      for (int k = 0; k < 16; ++k) expected += a[row][k] * b[k][column];
      EXPECT_EQ(got[static_cast<size_t>(lane * 4 + i)], expected) << "row " << row << " " << column;
    }
}
TEST(Emulator, MultipliesFragmentsOfBf16) {
  check_product<bf16>();
}
TEST(Emulator, MultipliesFragmentsOfFp16) {
  check_product<fp16>();
}

/// matrices [32 rows, 8]: row r of matrix i at row 8 i + r.
__global__ void load_fragments(const uint16_t* matrices, uint32_t* plain, uint32_t* transposed) {
  auto* const shared = shared_memory<uint16_t>();
  const auto lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 8; ++i) shared[lane * 8 + i] = matrices[lane * 8 + i];
  __syncwarp();
  uint32_t r[4];
  cuda::load_matrices(r, shared + lane * 8);
  for (int i = 0; i < 4; ++i) plain[lane * 4 + i] = r[i];
  cuda::load_matrices_transposed(r, shared + lane * 8);
  for (int i = 0; i < 4; ++i) transposed[lane * 4 + i] = r[i];
}
TEST(Emulator, LoadsMatrices) {
  std::vector<uint16_t> matrices(32 * 8);
  for (size_t i = 0; i < matrices.size(); ++i) matrices[i] = static_cast<uint16_t>(i * 37 + 11);
  const auto element = [&](int matrix, int row, int column) {
    return uint32_t{matrices[static_cast<size_t>((8 * matrix + row) * 8 + column)]};
  };
  const OnDevice<uint16_t> from(matrices);
  const OnDevice<uint32_t> plain(32 * 4), transposed(32 * 4);
  launch("load_fragments", load_fragments, dim3(1), dim3(32), 512, nullptr, from.data(),
         plain.data(), transposed.data());
  const std::vector<uint32_t> p = plain.values(), t = transposed.values();
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int group = lane >> 2, pair = lane % 4 * 2;
      const auto at = static_cast<size_t>(lane * 4 + i);
      EXPECT_EQ(p[at], element(i, group, pair) | element(i, group, pair + 1) << 16);
      EXPECT_EQ(t[at], element(i, pair, group) | element(i, pair + 1, group) << 16);
    }
}

/// Three groups of one copy each; what shared memory holds at each point goes to `seen`.
__global__ void copy_in_groups(const uint4* from, uint4* seen, unsigned* changed) {
  uint4* const shared = shared_memory<uint4>();
  const auto t = static_cast<int>(threadIdx.x);
  const auto look = [&](int moment) {
    for (int i = 0; i < 3; ++i) seen[(t * 4 + moment) * 3 + i] = shared[t * 3 + i];
  };
  for (int i = 0; i < 3; ++i) {
    cuda::copy_async_16(shared + t * 3 + i, from + t * 3 + i, i != 1);
    cuda::commit_copies();
  }
  look(0);
  cuda::wait_for_copies<2>();
  look(1);
  if (t == 0) *changed = 99;  // the third copy of thread 0 has not read it yet
  cuda::wait_for_copies<1>();
  look(2);
  cuda::wait_for_copies<0>();
  look(3);
}
TEST(Emulator, CopiesLate) {
  constexpr int kThreads = 40;
  std::vector<uint4> values(kThreads * 3);
  for (unsigned i = 0; i < values.size(); ++i) values[i] = make_uint4(i, i + 1, i + 2, i + 3);
  const OnDevice<uint4> from(values), seen(kThreads * 12);
  launch("copy_in_groups", copy_in_groups, dim3(1), dim3(kThreads), kThreads * 48, nullptr,
         from.data(), seen.data(), &from.data()[2].x);
  values[2].x = 99;
  const std::vector<uint4> got = seen.values();
  for (int t = 0; t < kThreads; ++t)
    for (int moment = 0; moment < 4; ++moment)
      for (int i = 0; i < 3; ++i) {
        const uint4 x = got[static_cast<size_t>((t * 4 + moment) * 3 + i)];
        const unsigned copied = i == 1 ? 0 : values[static_cast<size_t>(t * 3 + i)].x;
        EXPECT_EQ(x.x, i < moment ? copied : 0xffffffffu) << t << " " << moment << " " << i;
      }
}

TEST(Emulator, PacksPairs) {
  EXPECT_EQ(cuda::pack2<bf16>(1.0f, -2.0f), 0xc0003f80u);
  EXPECT_EQ(cuda::pack2<fp16>(1.0f, -2.0f), 0xc0003c00u);
  EXPECT_EQ(cuda::unpack2<bf16>(0xc0003f80u).y, -2.0f);
  EXPECT_EQ(cuda::unpack2<fp16>(0xc0003c00u).x, 1.0f);
  EXPECT_EQ(cuda::exp2_approximate(-127.0f), 0.0f);
  EXPECT_EQ(cuda::exp2_approximate(3.0f), 8.0f);
}

}  // namespace
}  // namespace espalier::emulator
