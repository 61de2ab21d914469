// SPDX-License-Identifier: Apache-2.0
#include "commands/tensor_difference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "checkpoint/piece_cut.hpp"
#include "core/error.hpp"
#include "grid/comm.hpp"
#include "tensor/types.hpp"

namespace espalier {
namespace {

constexpr int64_t kPieceBytes = int64_t{8} << 20;

template <class T>
void add_elements(const std::vector<T>& a, const std::vector<T>& b, const std::vector<T>& base,
                  TensorDifference& out) {
  out.size += static_cast<int64_t>(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    out.first += x * x;
    if (!base.empty()) {
      const double step = x - static_cast<double>(base[i]);
      out.update += step * step;
    }
    if (std::memcmp(&a[i], &b[i], sizeof(T)) == 0) continue;
    ++out.unequal;
    const bool is_finite = std::isfinite(x) && std::isfinite(y);
    const double d = is_finite ? std::abs(x - y) : HUGE_VAL;
    out.difference += d * d;
    out.largest = std::max(out.largest, d);
    if (d > 0.0)
      out.largest_relative = std::max(
          out.largest_relative, is_finite ? d / std::max(std::abs(x), std::abs(y)) : HUGE_VAL);
  }
}

template <class T>
TensorDifference compare_pieces(const ComparedFiles& files, const std::string& name,
                                const Comm* ranks, int64_t number) {
  const DatasetInfo info = files.a.info(name);
  files.b.require(name, info.shape, info.type);
  if (files.base) files.base->require(name, info.shape, info.type);
  const int64_t rank = ranks ? ranks->rank() : 0, size = ranks ? ranks->size() : 1;
  const PieceCut cut(info.shape, sizeof(T), kPieceBytes);
  TensorDifference sum;
  std::vector<T> a, b, base;
  const auto read = [&](TensorFileReader& file, const PieceCut::Piece& piece, std::vector<T>& to) {
    to.resize(static_cast<size_t>(piece.elements));
    file.read_slab(name, info.type, piece.offset, piece.extent, to.data());
  };
  for (int64_t i = 0; i < cut.count(); ++i) {
    if ((i + number) % size != rank) continue;
    const PieceCut::Piece piece = cut.piece(i);
    read(files.a, piece, a);
    read(files.b, piece, b);
    if (files.base) read(*files.base, piece, base);
    add_elements(a, b, base, sum);
  }
  return sum;
}

TensorDifference compare_texts(const ComparedFiles& files, const std::string& name,
                               const Comm* ranks) {
  TensorDifference d;
  const bool is_equal = files.a.read_text(name) == files.b.read_text(name);
  if (ranks && ranks->rank() != 0) return d;
  d.size = 1;
  d.unequal = is_equal ? 0 : 1;
  return d;
}

}  // namespace

void TensorDifference::operator+=(const TensorDifference& other) {
  size += other.size;
  unequal += other.unequal;
  largest = std::max(largest, other.largest);
  largest_relative = std::max(largest_relative, other.largest_relative);
  difference += other.difference;
  first += other.first;
  update += other.update;
}

double TensorDifference::over(double squares) const {
  if (difference == 0.0) return 0.0;
  return std::isfinite(difference) && squares > 0.0 ? std::sqrt(difference / squares) : HUGE_VAL;
}

double TensorDifference::norm() const {
  return std::sqrt(difference);
}
double TensorDifference::relative() const {
  return over(first);
}
double TensorDifference::relative_update() const {
  return over(update);
}

TensorDifference compare_stored(const ComparedFiles& files, const std::string& name,
                                const Comm* ranks, int64_t number) {
  switch (files.a.info(name).type) {
    case StoredType::fp32: return compare_pieces<float>(files, name, ranks, number);
    case StoredType::fp64: return compare_pieces<double>(files, name, ranks, number);
    case StoredType::bf16: return compare_pieces<bf16>(files, name, ranks, number);
    case StoredType::fp16: return compare_pieces<fp16>(files, name, ranks, number);
    case StoredType::int32: return compare_pieces<int32_t>(files, name, ranks, number);
    case StoredType::int64: return compare_pieces<int64_t>(files, name, ranks, number);
    case StoredType::text: return compare_texts(files, name, ranks);
    case StoredType::other: break;
  }
  throw DataError(fmt::format("{}: {} has {}; it cannot be compared", files.a.path(), name,
                              stored_type_name(StoredType::other)));
}

TensorDifference add_over_ranks(const TensorDifference& share, const Comm& ranks) {
  int64_t counts[2] = {share.size, share.unequal};
  double largest[2] = {share.largest, share.largest_relative};
  double sums[3] = {share.difference, share.first, share.update};
  ranks.all_reduce(counts, 2, ReduceOp::sum);
  ranks.all_reduce(largest, 2, ReduceOp::max);
  ranks.all_reduce(sums, 3, ReduceOp::sum);
  TensorDifference all;
  all.size = counts[0];
  all.unequal = counts[1];
  all.largest = largest[0];
  all.largest_relative = largest[1];
  all.difference = sums[0];
  all.first = sums[1];
  all.update = sums[2];
  return all;
}

}  // namespace espalier
