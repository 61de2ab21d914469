// SPDX-License-Identifier: Apache-2.0
// Attention in double, key by key, with a bound of the error that the kernels' stated precision
// allows for every element.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "gpu/device_array.hpp"

namespace espalier::gpu_test {

struct AttentionCase {
  int64_t sequences = 1, length = 1, heads = 1, kv_heads = 1, dim = 64;
  int64_t gap = 0;         // elements between the rows of two tokens, a multiple of 8
  int64_t document = 0;    // mean length of documents; 0: one a sequence
  bool is_ragged = false;  // documents that begin anywhere before their query, in no order
  double scale = 0.1;
  int64_t group() const { return heads / kv_heads; }
  int64_t tokens() const { return sequences * length; }
  std::string name() const {
    return fmt::format("{} x {} tokens, {}/{} heads of {}, gap {}, documents {}{}", sequences,
                       length, heads, kv_heads, dim, gap, document, is_ragged ? " ragged" : "");
  }
};

/// What the reference gets wrong on purpose, for tests of the comparison.
enum class Defect { none, sees_next_key, misses_own_key, ignores_documents, wrong_scale };

/// Rows [tokens, heads * dim] with gaps; poisoned all over, or random with poisoned gaps.
template <class T>
struct HostRows {
  int64_t stride = 0, width = 0;
  std::vector<T> values;
  HostRows(int64_t tokens, int64_t columns, int64_t gap)
      : stride(columns + gap), width(columns), values(poisoned<T>(tokens * (columns + gap))) {}
  void randomise(Random& random, double size) {
    for (size_t i = 0; i < values.size(); ++i)
      if (static_cast<int64_t>(i) % stride < width)
        values[i] = T(static_cast<float>(random.uniform(-size, size)));
  }
  double at(int64_t token, int64_t column) const {
    return static_cast<double>(values[static_cast<size_t>(token * stride + column)]);
  }
};

/// A value and how far from it a kernel may be.
struct Bounded {
  std::vector<double> value, bound;
  explicit Bounded(int64_t size)
      : value(static_cast<size_t>(size)), bound(static_cast<size_t>(size)) {}
  void add(int64_t i, double x, double error) {
    value[static_cast<size_t>(i)] += x;
    bound[static_cast<size_t>(i)] += error;
  }
};

/// Unit roundoff, and half the distance of the smallest numbers.
template <class T>
constexpr double kRoundoff = std::is_same_v<T, bf16> ? 0x1p-8 : 0x1p-11;
template <class T>
constexpr double kSmallest = std::is_same_v<T, bf16> ? 0.0 : 0x1p-25;
/// A sum of n terms in fp32, as tensor cores form it: they cut where others round.
inline double sum_error(int64_t n) {
  return static_cast<double>(n + 2) * 0x1p-22;
}

/// Elements that are off by more than their bound, or not a number; the first one in `first`.
template <class T>
int64_t count_faults(const HostRows<T>& got, const Bounded& want, std::string& first) {
  int64_t faults = 0;
  for (size_t i = 0; i < want.value.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / got.width,
               column = static_cast<int64_t>(i) % got.width;
    const double x = got.at(row, column);
    if (std::abs(x - want.value[i]) <= want.bound[i]) continue;
    if (faults++ == 0)
      first = fmt::format("token {} column {}: {} instead of {}, allowed {}", row, column, x,
                          want.value[i], want.bound[i]);
  }
  return faults;
}
/// Whether the space between rows is still poisoned.
template <class T>
bool gaps_are_whole(const HostRows<T>& rows) {
  const auto poison = poisoned<T>(1);
  for (size_t i = 0; i < rows.values.size(); ++i)
    if (static_cast<int64_t>(i) % rows.stride >= rows.width &&
        !same_bits(rows.values[i], poison[0]))
      return false;
  return true;
}

/// Keys that query t sees: [first, last].
struct Sight {
  int64_t first, last;
};
inline Sight sight(const std::vector<int32_t>& starts, int64_t length, int64_t token,
                   Defect defect) {
  const int64_t t = token % length;
  Sight s{starts[static_cast<size_t>(token)], t};
  if (defect == Defect::sees_next_key && t + 1 < length) s.last = t + 1;
  if (defect == Defect::misses_own_key && s.first < t) s.last = t - 1;
  if (defect == Defect::ignores_documents) s.first = 0;
  return s;
}

/// Scores of the query with its keys, and the error that fp32 sums leave in them.
struct Scores {
  std::vector<double> value, error;
};
template <class T>
Scores scores_of(const AttentionCase& c, const HostRows<T>& q, const HostRows<T>& k, int64_t token,
                 int64_t head, Sight seen, Defect defect) {
  const double scale = c.scale * (defect == Defect::wrong_scale ? 1.02 : 1.0);
  const int64_t first_token = token / c.length * c.length, kv = head / c.group() * c.dim;
  Scores s;
  for (int64_t key = seen.first; key <= seen.last; ++key) {
    double sum = 0, size = 0;
    for (int64_t d = 0; d < c.dim; ++d) {
      const double x = q.at(token, head * c.dim + d) * k.at(first_token + key, kv + d);
      sum += x;
      size += std::abs(x);
    }
    s.value.push_back(scale * sum);
    s.error.push_back(scale * size * sum_error(c.dim));
  }
  return s;
}

/// out and log_sum.
template <class T>
void reference_forward(const AttentionCase& c, const HostRows<T>& q, const HostRows<T>& k,
                       const HostRows<T>& v, const std::vector<int32_t>& starts, Defect defect,
                       Bounded& out, Bounded& log_sum) {
  for (int64_t token = 0; token < c.tokens(); ++token)
    for (int64_t head = 0; head < c.heads; ++head) {
      const Sight seen = sight(starts, c.length, token, defect);
      const Scores s = scores_of(c, q, k, token, head, seen, defect);
      const auto keys = static_cast<int64_t>(s.value.size());
      double top = s.value[0], error = 0, sum = 0;
      for (const double x : s.value) top = std::max(top, x);
      for (size_t i = 0; i < s.value.size(); ++i) {
        sum += std::exp(s.value[i] - top);
        // exp2's argument is rounded at its own size, exp2 is good to 2^-22.
        error = std::max(error, s.error[i] + (std::abs(s.value[i]) + std::abs(top)) * 0x1p-22);
      }
      error += 0x1p-21 + sum_error(keys);
      log_sum.add(token * c.heads + head, top + std::log(sum),
                  error + std::abs(top + std::log(sum)) * 0x1p-22);
      const int64_t kv = head / c.group() * c.dim, first_token = token / c.length * c.length;
      for (int64_t d = 0; d < c.dim; ++d) {
        double o = 0, size = 0, absolute = 0;
        for (int64_t i = 0; i < keys; ++i) {
          const double x = v.at(first_token + seen.first + i, kv + d);
          const double p = std::exp(s.value[static_cast<size_t>(i)] - top) / sum;
          o += p * x;
          size += p * std::abs(x);
          absolute += std::abs(x) / sum;
        }
        const double inner = size * (kRoundoff<T> + 2 * error) + absolute * kSmallest<T>;
        out.add(token * c.heads * c.dim + head * c.dim + d, o,
                inner + (std::abs(o) + inner) * kRoundoff<T> + kSmallest<T>);
      }
    }
}

/// Gradients from the out and log_sum that forward left.
template <class T>
void reference_backward(const AttentionCase& c, const HostRows<T>& q, const HostRows<T>& k,
                        const HostRows<T>& v, const std::vector<int32_t>& starts,
                        const HostRows<T>& out, const HostRows<float>& log_sum,
                        const HostRows<T>& d_out, Defect defect, Bounded& dq, Bounded& dk,
                        Bounded& dv) {
  for (int64_t token = 0; token < c.tokens(); ++token)
    for (int64_t head = 0; head < c.heads; ++head) {
      const int64_t channel = head * c.dim, kv = head / c.group() * c.dim;
      const int64_t first_token = token / c.length * c.length;
      double dot = 0, dot_size = 0;
      for (int64_t d = 0; d < c.dim; ++d) {
        const double x = d_out.at(token, channel + d) * out.at(token, channel + d);
        dot += x;
        dot_size += std::abs(x);
      }
      const Sight seen = sight(starts, c.length, token, defect);
      const Scores s = scores_of(c, q, k, token, head, seen, defect);
      const double log_of_sum = log_sum.at(token, head);
      for (size_t i = 0; i < s.value.size(); ++i) {
        const int64_t row = first_token + seen.first + static_cast<int64_t>(i);
        const double p = std::exp(s.value[i] - log_of_sum);
        const double error =
            s.error[i] + (std::abs(s.value[i]) + std::abs(log_of_sum)) * 0x1p-22 + 0x1p-21;
        double dp = 0, dp_size = 0;
        for (int64_t d = 0; d < c.dim; ++d) {
          const double x = d_out.at(token, channel + d) * v.at(row, kv + d);
          dp += x;
          dp_size += std::abs(x);
        }
        const double ds = p * (dp - dot);
        const double p_error = p * (kRoundoff<T> + 2 * error) + kSmallest<T>;
        const double ds_error = std::abs(ds) * (kRoundoff<T> + 2 * error) + kSmallest<T> +
                                p * (dp_size + dot_size) * sum_error(c.dim);
        const double order = sum_error(c.length * c.group());
        const double scale = c.scale * (defect == Defect::wrong_scale ? 1.02 : 1.0);
        const auto add = [&](Bounded& to, int64_t at, double factor, double x, double x_error) {
          to.add(at, factor * x, std::abs(factor) * (x_error + std::abs(x) * order));
        };
        for (int64_t d = 0; d < c.dim; ++d) {
          const int64_t to_q = token * c.heads * c.dim + channel + d;
          const int64_t to_kv = row * c.kv_heads * c.dim + kv + d;
          add(dv, to_kv, d_out.at(token, channel + d), p, p_error);
          add(dk, to_kv, scale * q.at(token, channel + d), ds, ds_error);
          add(dq, to_q, scale * k.at(row, kv + d), ds, ds_error);
        }
      }
    }
  for (Bounded* b : {&dq, &dk, &dv})
    for (size_t i = 0; i < b->value.size(); ++i)
      b->bound[i] += (std::abs(b->value[i]) + b->bound[i]) * kRoundoff<T> + kSmallest<T>;
}

}  // namespace espalier::gpu_test
