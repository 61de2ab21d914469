// SPDX-License-Identifier: Apache-2.0
// The tuned gradients of norms against plain sums in double.
#include "blueprint/activation_plan.hpp"
#include "gpu/norm_rows.hpp"

namespace espalier {
namespace {

using namespace gpu_test;

template <class T>
class TunedNormBackward : public testing::Test {};
using Types = testing::Types<float, bf16, fp16>;
TYPED_TEST_SUITE(TunedNormBackward, Types);

struct Problem {
  RowShape x, dy, dx;
  int64_t start = 0;  // of weight, dw, db
  bool centred = true, bias = true, accumulate = false, in_place = false;
  uint64_t seed = 1;

  std::string text() const {
    return fmt::format("x {}; dy {}; dx {}; centred {}, bias {}, accumulate {}, in place {}",
                       x.text(), dy.text(), dx.text(), centred, bias, accumulate, in_place);
  }
};

template <class T>
struct Data {
  explicit Data(const Problem& p) {
    Random random(p.seed);
    const int64_t n = p.x.columns;
    x = draw_rows<T>(random, p.x.rows, n);
    dy = draw_rows<T>(random, p.x.rows, n);
    dx = draw_rows<T>(random, p.x.rows, n);
    weight = random.values<T>(n, -2, 2);
    dw = random.values<float>(n);
    db = random.values<float>(n);
    for (int64_t r = 0; r < p.x.rows; ++r) {
      const Moments m = moments(x.data() + r * n, n, p.centred, 1e-3);
      statistics.push_back(static_cast<float>(m.mean));
      statistics.push_back(static_cast<float>(m.rstd));
    }
  }
  std::vector<T> x, dy, dx, weight;
  std::vector<float> statistics, dw, db;
};

template <class T>
struct Gradients {
  std::vector<T> dx;
  std::vector<float> dw, db;
};

template <class T>
Gradients<T> run(const Problem& p, const Data<T>& d, std::string& fault) {
  const int64_t n = p.x.columns, chunks = (p.x.rows + kNormChunk - 1) / kNormChunk;
  const RowShape vector = dense(1, n, p.start), scratch = dense(chunks, 2 * n);
  const DeviceArray<T> x(placed(p.x, d.x)), dy(placed(p.dy, d.dy)),
      weight(placed(vector, d.weight));
  const DeviceArray<T> dx(p.accumulate ? placed(p.dx, d.dx) : poisoned<T>(p.dx.size()));
  const DeviceArray<float> statistics(placed(dense(p.x.rows, 2), d.statistics));
  const DeviceArray<float> dw(placed(vector, d.dw)), db(placed(vector, d.db));
  const DeviceArray<float> partials(poisoned<float>(scratch.size()));
  cuda::NormBackward<T> call;
  call.dx = rows_at<T>(p.in_place ? dy.data() : dx.data(), p.in_place ? p.dy : p.dx);
  call.accumulate = p.accumulate;
  call.dw = dw.data() + p.start;
  if (p.bias) call.db = db.data() + p.start;
  call.dy = rows_at<const T>(dy.data(), p.dy);
  call.x = rows_at<const T>(x.data(), p.x);
  call.statistics = statistics.data();
  call.weight = weight.data() + p.start;
  call.partials = partials.data();
  call.centred = p.centred;
  cuda::norm_backward(call, stream());
  Gradients<T> out;
  out.dx = p.in_place ? taken(p.dy, dy.values(), fault) : taken(p.dx, dx.values(), fault);
  out.dw = taken(vector, dw.values(), fault);
  out.db = taken(vector, db.values(), fault);
  taken(scratch, partials.values(), fault);
  return out;
}

/// Against double. `scale`: what the gradient of y is multiplied by here, 1 unless the comparison
/// itself is on trial.
template <class T>
std::string check(const Problem& p, double scale) {
  std::string fault;
  const Data<T> d(p);
  const auto got = run(p, d, fault);
  const int64_t n = p.x.columns;
  const auto columns = static_cast<size_t>(n);
  std::vector<double> dx, dx_slack, dw(columns), db(columns), dw_slack(columns), db_slack(columns);
  for (int64_t j = 0; j < n; ++j) {
    dw[static_cast<size_t>(j)] = static_cast<double>(d.dw[static_cast<size_t>(j)]);
    db[static_cast<size_t>(j)] = static_cast<double>(d.db[static_cast<size_t>(j)]);
  }
  std::vector<double> xhat(columns), g(columns), w(columns);
  for (int64_t r = 0; r < p.x.rows; ++r) {
    const double mean = static_cast<double>(d.statistics[static_cast<size_t>(2 * r)]);
    const double rstd = static_cast<double>(d.statistics[static_cast<size_t>(2 * r + 1)]);
    double projected = 0, shift = 0, projected_size = 0, shift_size = 0;
    for (size_t j = 0; j < columns; ++j) {
      const size_t i = static_cast<size_t>(r * n) + j;
      xhat[j] = (static_cast<double>(d.x[i]) - mean) * rstd;
      g[j] = scale * static_cast<double>(d.dy[i]);
      w[j] = static_cast<double>(d.weight[j]);
      projected += g[j] * w[j] * xhat[j] / static_cast<double>(n);
      shift += g[j] * w[j] / static_cast<double>(n);
      projected_size += std::abs(g[j] * w[j] * xhat[j]) / static_cast<double>(n);
      shift_size += std::abs(g[j] * w[j]) / static_cast<double>(n);
      dw[j] += g[j] * xhat[j];
      db[j] += g[j];
      dw_slack[j] += std::abs(g[j]) * (1 + std::abs(xhat[j])) * 1e-6;
      db_slack[j] += std::abs(g[j]) * 1e-6;
    }
    if (!p.centred) shift = 0;
    for (size_t j = 0; j < columns; ++j) {
      const size_t i = static_cast<size_t>(r * n) + j;
      const double old = p.accumulate ? static_cast<double>(p.in_place ? d.dy[i] : d.dx[i]) : 0;
      dx.push_back(old + rstd * (g[j] * w[j] - shift - xhat[j] * projected));
      const double size =
          std::abs(g[j] * w[j]) + shift_size + (1 + std::abs(xhat[j])) * projected_size;
      dx_slack.push_back(2e-6 * (std::abs(old) + rstd * size));
    }
  }
  if (!p.bias) {
    compare_bits("db, which is not asked for,", got.db, d.db, fault);
    db.clear();
  }
  compare("dx", got.dx, dx, dx_slack, fault);
  compare("dw", got.dw, dw, dw_slack, fault);
  compare("db", got.db, db, db_slack, fault);
  return fault;
}

std::vector<Problem> problems() {
  struct Size {
    int64_t columns, rows;
  };
  // One row, chunks that are full, that are not, and many; rows in one batch, in several, too long.
  constexpr Size kSizes[] = {{1, 70},    {7, 64},    {33, 130},     {64, 200},
                             {96, 65},   {100, 3},   {128, 321},    {256, 1},
                             {768, 150}, {1600, 70}, {4096, 20},    {4097, 9},
                             {8192, 3},  {16384, 2}, {33, 64 * 40}, {200, 63}};
  std::vector<Problem> all;
  uint64_t seed = 0;
  for (const auto& size : kSizes)
    for (int variant = 0; variant < 5; ++variant) {
      Problem p;
      p.seed = ++seed;
      const int64_t rows = size.rows, n = size.columns;
      p.centred = variant % 2 == 0;
      p.bias = variant < 2;
      p.accumulate = variant == 1 || variant == 2;
      p.in_place = variant == 3;
      switch (variant) {
        case 0: p.x = p.dy = p.dx = dense(rows, n); break;
        case 1: p.x = dense(rows, n, 1), p.dy = dense(rows, n), p.dx = p.dy, p.start = 1; break;
        case 2: p.x = heads(rows, n, 5, 8, 24), p.dy = dense(rows, n), p.dx = p.x; break;
        case 3: p.x = dense(rows, n), p.dy = p.dx = heads(rows, n, 4, 16, 8); break;
        default: p.x = heads(rows, n, 3, 2, 5), p.dy = p.dx = heads(rows, n, 4, 0, 1); break;
      }
      all.push_back(p);
    }
  return all;
}

TYPED_TEST(TunedNormBackward, IsThatOfDouble) {
  for (const auto& p : problems()) EXPECT_EQ(check<TypeParam>(p, 1.0), "") << p.text();
}

TYPED_TEST(TunedNormBackward, AnotherScaleIsNoticed) {
  Problem p;
  p.x = p.dy = p.dx = dense(70, 100);
  EXPECT_EQ(check<TypeParam>(p, 1.0), "");
  EXPECT_NE(check<TypeParam>(p, 2.0), "");
}

// The same bits in every run, wherever the rows lie, and whether dx is added to or not: the sums
// over rows and columns have one order.
TYPED_TEST(TunedNormBackward, DoesNotDependOnThePlace) {
  using T = TypeParam;
  for (const int64_t n : {64, 128, 256, 768, 1600, 4096, 8192}) {
    Problem p;
    p.x = p.dy = p.dx = dense(n < 1000 ? 200 : 70, n);
    const Data<T> d(p);
    std::string fault;
    const auto first = run(p, d, fault), again = run(p, d, fault);
    p.x = p.dx = heads(p.x.rows, n, 2, 1, 3);
    p.dy = dense(p.x.rows, n, 3);
    p.start = 1;
    const auto apart = run(p, d, fault);
    p.accumulate = true;
    const auto added = run(p, d, fault);
    compare_bits("dx of the second run", again.dx, first.dx, fault);
    compare_bits("dw of the second run", again.dw, first.dw, fault);
    compare_bits("dx of unaligned rows", apart.dx, first.dx, fault);
    compare_bits("dw of unaligned rows", apart.dw, first.dw, fault);
    compare_bits("db of unaligned rows", apart.db, first.db, fault);
    compare_bits("dw where dx is added to", added.dw, first.dw, fault);
    EXPECT_EQ(fault, "") << n << " columns";
  }
}

}  // namespace
}  // namespace espalier
