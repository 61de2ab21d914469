// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "cuda/optimizer.hpp"
#include "gpu/device_array.hpp"

namespace espalier {
namespace {

using gpu_test::DeviceArray;
using gpu_test::expect_same_bits;
using gpu_test::poisoned;
using gpu_test::Random;

int64_t cells_of(const cuda::NormRun& run) {
  return run.rows * ((run.row + run.cell - 1) / run.cell);
}

template <class Real>
std::vector<double> on_device(const std::vector<Real>& gradient,
                              const std::vector<cuda::NormRun>& runs, int64_t cells) {
  const DeviceArray<Real> values(gradient);
  const DeviceArray<cuda::NormRun> list(runs);
  const DeviceArray<double> partial(poisoned<double>(cells));
  cuda::square_sums(partial.data(), values.data(), list.data(), static_cast<int64_t>(runs.size()),
                    gpu_test::stream());
  return partial.values();
}

template <class Real>
void check_square_sums() {
  Random random(31);
  std::vector<cuda::NormRun> runs;
  int64_t offset = 1, cells = 2;  // cells 0 and 1 belong to nobody
  const auto add = [&](int64_t rows, int64_t row, int64_t cell) {
    runs.push_back({offset, rows, row, cell, cells});
    cells += cells_of(runs.back());
    offset += rows * row + random.below(5);
  };
  for (const int64_t row : {1, 2, 5, 16, 17, 64, 100, 129, 768}) add(1 + random.below(9), row, row);
  for (const int64_t cell : {1, 3, 4, 7, 32, 33, 96, 500}) add(3, 1000, cell);
  for (const int64_t row : {2047, 2048, 2049, 9001}) add(2, row, row);
  add(2, 7000, 3000);  // the last cell is short and by a warp, the others by a block
  add(1, 100, 5000);
  const auto gradient = random.values<Real>(offset, -100, 100);
  const auto sums = on_device(gradient, runs, cells);
  EXPECT_TRUE(std::isnan(sums[0]) && std::isnan(sums[1]));
  for (const auto& run : runs) {
    size_t at = static_cast<size_t>(run.first_cell);
    for (int64_t r = 0; r < run.rows; ++r)
      for (int64_t first = 0; first < run.row; first += run.cell, ++at) {
        long double want = 0;
        const int64_t size = std::min(run.cell, run.row - first);
        for (int64_t i = 0; i < size; ++i) {
          const auto g = static_cast<long double>(
              gradient[static_cast<size_t>(run.offset + r * run.row + first + i)]);
          want += g * g;
        }
        const auto exact = static_cast<double>(want);
        ASSERT_NEAR(sums[at], exact, 4e-16 * std::sqrt(static_cast<double>(size + 3)) * exact)
            << run.rows << " x " << run.row << ", cells of " << run.cell << ": cell "
            << at - static_cast<size_t>(run.first_cell);
      }
  }
}

TEST(SquareSums, AgreeWithLongDoubleFp32) {
  check_square_sums<float>();
}
TEST(SquareSums, AgreeWithLongDoubleFp64) {
  check_square_sums<double>();
}

// A cell has the same bits in whatever run it lies, at whatever address.
TEST(SquareSums, DependOnTheCellAlone) {
  constexpr int64_t kCells = 12;
  for (const int64_t cell : {3, 10, 64, 130, 700, 2048, 5000}) {
    Random random(32);
    auto values = random.values<float>(kCells * cell);
    for (float& x : values) x *= static_cast<float>(std::exp(random.uniform(-8, 8)));
    const auto behind = [&](int64_t start) {
      auto gradient = poisoned<float>(start + kCells * cell);
      std::copy(values.begin(), values.end(), gradient.begin() + start);
      return gradient;
    };
    const auto alone = on_device(behind(0), {{0, kCells, cell, cell, 0}}, kCells);
    for (const int64_t start : {0, 1, 2, 3}) {
      const auto gradient = behind(start);
      const std::string where = fmt::format("cells of {} at {}", cell, start);
      // One row of many cells; rows of three; each cell a run, of another length of cells.
      expect_same_bits(on_device(gradient, {{start, 1, kCells * cell, cell, 0}}, kCells), alone,
                       where);
      expect_same_bits(on_device(gradient, {{start, 4, 3 * cell, cell, 0}}, kCells), alone, where);
      std::vector<cuda::NormRun> runs;
      for (int64_t i = 0; i < kCells; ++i)
        runs.push_back({start + i * cell, 1, cell, cell + 977 * i, i});
      expect_same_bits(on_device(gradient, runs, kCells), alone, where + ", one by one");
    }
    // Another place in the cell is another order: or nothing would be shown.
    if (cell < 64) continue;
    auto turned = values;
    for (int64_t i = 0; i < kCells; ++i)
      std::rotate(turned.begin() + i * cell, turned.begin() + i * cell + 1,
                  turned.begin() + (i + 1) * cell);
    const auto other = on_device(turned, {{0, kCells, cell, cell, 0}}, kCells);
    EXPECT_NE(std::memcmp(other.data(), alone.data(), alone.size() * sizeof(double)), 0) << cell;
  }
}

TEST(SquareSums, ShowWhatIsNotFinite) {
  Random random(33);
  auto gradient = random.values<float>(4000);
  gradient[1500] = std::numeric_limits<float>::infinity();
  gradient[2999] = std::numeric_limits<float>::quiet_NaN();
  const auto sums = on_device(gradient, {{0, 4, 1000, 1000, 0}}, 4);
  EXPECT_TRUE(std::isfinite(sums[0]) && std::isfinite(sums[3]));
  EXPECT_TRUE(std::isinf(sums[1]));
  EXPECT_TRUE(std::isnan(sums[2]));
}

}  // namespace
}  // namespace espalier
