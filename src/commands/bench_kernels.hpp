// SPDX-License-Identifier: Apache-2.0
// What the files of espalier bench kernels share: sizes, operands, timing, and the table.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/element_type.hpp"
#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

enum class BenchScale { full, tiny };

/// Extents of what is measured. `full` is the work of a GPU with a model of a billion parameters;
/// `tiny` has every kernel and every path, for the emulated device.
struct KernelSizes {
  explicit KernelSizes(BenchScale scale);
  BenchScale scale;
  int64_t copy_bytes, square;       // the copy of reference; extent of the square product
  int64_t tokens, hidden;           // of the memory-bound kernels
  int64_t heads, kv_heads, length;  // of attention, and of rope
  int64_t vocabulary, logit_rows;
  int64_t elements;     // of the flat buffers of the optimizer and of sums
  int64_t cache_bytes;  // more than the caches hold: operands rotate through this much
  /// An extent of a published model at this scale.
  int64_t of_model(int64_t extent) const;
};

/// Seconds of one launch.
struct LaunchTimes {
  double best = 0.0, median = 0.0;
  int64_t launches = 0;
  bool is_measured() const { return launches > 0; }
};

/// work(i) starts launch number i on the current stream. Launches are timed in batches between two
/// events of the device, so that starting them costs nothing, after one of each set of operands.
/// A single launch that lasts longer than `seconds` is the only one that counts.
using KernelWork = std::function<void(int64_t)>;
LaunchTimes time_launches(const KernelWork& work, int64_t sets, double seconds);

/// How many sets of operands of that size the caches cannot hold together.
int64_t operand_sets(const KernelSizes& sizes, int64_t bytes_of_one);

/// `size` normally distributed numbers times `deviation`, rounded to T. The pattern repeats after
/// some thousand elements; zeros would use less power than numbers do, and so a higher clock.
template <class T>
Buffer<T> normal_numbers(const std::string& label, int64_t size, double deviation = 1.0);
template <class T>
Mat<T> as_matrix(T* data, int64_t rows, int64_t columns) {
  return Mat<T>(data, static_cast<size_t>(rows), static_cast<size_t>(columns));
}
template <class T>
Vec<T> as_vector(const Buffer<T>& b) {
  return Vec<T>(b.data(), static_cast<size_t>(b.size()));
}
/// Uniform integers in [0, limit). The same list on host and device.
struct RandomIntegers {
  std::vector<int32_t> host;
  Buffer<int32_t> device;
};
RandomIntegers random_integers(int64_t size, int64_t limit, uint64_t purpose);

/// What a kernel's rate is compared with, and whether the goal of memory-bound kernels counts it.
enum class RateKind { flops, bytes, bytes_beside_goal };
enum class KernelForms { tuned_and_portable, tuned };

/// One kernel, measured by the tuned and by the portable form.
struct KernelRow {
  std::string group, name;
  RateKind kind = RateKind::bytes;
  double work = 0.0;  // FLOP or bytes of one launch
  LaunchTimes tuned, portable;
  double rate() const { return tuned.median > 0.0 ? work / tuned.median : 0.0; }
};

/// Prints each line as soon as it is measured, and writes it as one line of JSON where a file is
/// named.
/// Errors  DataError where the file cannot be written
class KernelTable {
 public:
  KernelTable(const KernelSizes& sizes, double seconds, const std::string& file);

  const KernelSizes& sizes() const { return sizes_; }
  void heading(const std::string& title) const;
  /// Measures and adds a row; returns it.
  const KernelRow& measure(const std::string& group, const std::string& name, RateKind kind,
                           double work, int64_t sets, const KernelWork& launches,
                           KernelForms forms = KernelForms::tuned_and_portable);
  /// A number that follows from rows.
  void summary(const std::string& name, double value, const std::string& unit,
               const std::string& about = {});
  /// A line without a number, and why.
  void absent(const std::string& group, const std::string& name, const std::string& why);
  /// Sets what shares are of; bytes/s and FLOP/s.
  void set_copy_rate(double rate) { copy_rate_ = rate; }
  void set_gemm_rate(double rate) { gemm_rate_ = rate; }
  /// The slowest of the kernels that the goal of memory-bound kernels counts.
  void summarise_memory_bound();

 private:
  void print(const KernelRow& row) const;
  void write(const std::string& line);

  KernelSizes sizes_;
  double seconds_, copy_rate_ = 0.0, gemm_rate_ = 0.0;
  std::string file_;
  std::ofstream out_;
  std::vector<KernelRow> rows_;
};

// The groups. T = bf16, fp16.
template <class T>
void bench_products(KernelTable& table);
template <class T>
void bench_attention(KernelTable& table);
template <class T>
void bench_memory_bound(KernelTable& table);
template <class T>
void bench_flat_buffers(KernelTable& table);

}  // namespace espalier
