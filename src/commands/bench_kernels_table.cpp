// SPDX-License-Identifier: Apache-2.0
// Sizes, operands, timing and output of espalier bench kernels.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "commands/bench_kernels.hpp"
#include "commands/bench_timing.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/random.hpp"
#include "device/device.hpp"

namespace espalier {
namespace {

using Json = nlohmann::json;

// A prime, so that rows of usual widths do not repeat.
constexpr int64_t kPattern = 65521;

const std::vector<float>& pattern() {
  static const std::vector<float> numbers = [] {
    std::vector<float> list(kPattern);
    for (size_t i = 0; i < list.size(); ++i)
      list[i] = static_cast<float>(random_normal(1, hash_name("bench.kernels"), i));
    return list;
  }();
  return numbers;
}

// Restores the choice of kernels.
class PortableScope {
 public:
  PortableScope() : before_(device::uses_tuned_kernels()) { device::set_tuned_kernels(false); }
  ~PortableScope() { device::set_tuned_kernels(before_); }
  PortableScope(const PortableScope&) = delete;
  PortableScope& operator=(const PortableScope&) = delete;

 private:
  bool before_;
};

double timed_batch(const KernelWork& work, int64_t first, int64_t count) {
  device::Event from(device::Event::Timing::yes), to(device::Event::Timing::yes);
  from.record();
  for (int64_t i = 0; i < count; ++i) work(first + i);
  to.record();
  to.wait();
  // Events resolve about half a microsecond; an emulated device has no clock at all.
  return std::max(device::Event::seconds(from, to), 1e-7);
}

const char* unit_of(RateKind kind) {
  return kind == RateKind::flops ? "TFLOP/s" : "GB/s";
}
double in_unit(RateKind kind, double rate) {
  return rate * (kind == RateKind::flops ? 1e-12 : 1e-9);
}

std::string as_json(const KernelRow& row) {
  const auto seconds = [](const LaunchTimes& t) {
    return t.is_measured() ? Json{{"best", t.best}, {"median", t.median}, {"launches", t.launches}}
                           : Json();
  };
  return Json{{"kind", "kernel"},
              {"group", row.group},
              {"name", row.name},
              {"work", row.work},
              {"unit", unit_of(row.kind)},
              {"rate", in_unit(row.kind, row.rate())},
              {"tuned_seconds", seconds(row.tuned)},
              {"portable_seconds", seconds(row.portable)}}
      .dump();
}

}  // namespace

KernelSizes::KernelSizes(BenchScale s) : scale(s) {
  const bool full = s == BenchScale::full;
  copy_bytes = full ? int64_t{1} << 30 : 1 << 16;
  square = full ? 8192 : 32;
  tokens = full ? 16384 : 64;
  hidden = full ? 2048 : 64;
  heads = full ? 16 : 2;
  kv_heads = full ? 4 : 1;
  length = full ? 4096 : 32;
  vocabulary = full ? 50304 : 96;
  logit_rows = full ? 4096 : 8;
  elements = full ? int64_t{1} << 26 : 2048;
  cache_bytes = full ? int64_t{256} << 20 : 1 << 12;
}

int64_t KernelSizes::of_model(int64_t extent) const {
  return scale == BenchScale::full ? extent : (extent / 256 + 15) / 16 * 16 + 16;
}

int64_t operand_sets(const KernelSizes& sizes, int64_t bytes_of_one) {
  return std::max<int64_t>(1, (sizes.cache_bytes + bytes_of_one - 1) / bytes_of_one);
}

LaunchTimes time_launches(const KernelWork& work, int64_t sets, double seconds) {
  // Also chooses algorithms and allocates workspaces; one full turn where that is quick.
  work(0);
  device::Stream::current().synchronize();
  LaunchTimes times;
  double one = timed_batch(work, 1, 1);
  if (one > seconds) {
    times.best = times.median = one;
    times.launches = 1;
    return times;
  }
  for (int64_t i = 2; i < sets && static_cast<double>(i) * one < seconds; ++i) work(i);
  constexpr int kBatches = 10;
  const double wanted = seconds / kBatches / one;
  const int64_t count = std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, 256);
  std::vector<double> found;
  for (double spent = 0.0; spent < seconds && found.size() < 2 * kBatches;) {
    const double took = timed_batch(work, times.launches, count);
    found.push_back(took / static_cast<double>(count));
    times.launches += count;
    spent += took;
  }
  times.best = *std::min_element(found.begin(), found.end());
  times.median = median(found);
  return times;
}

template <class T>
Buffer<T> normal_numbers(const std::string& label, int64_t size, double deviation) {
  Buffer<T> buffer(label, size, Contents::undefined);
  std::vector<T> first(static_cast<size_t>(std::min(size, kPattern)));
  for (size_t i = 0; i < first.size(); ++i)
    first[i] = T(static_cast<float>(deviation) * pattern()[i]);
  auto done = static_cast<int64_t>(first.size());
  const auto width = static_cast<int64_t>(sizeof(T));
  device::copy_and_wait(buffer.data(), first.data(), done * width);
  for (; done < size; done = std::min(2 * done, size))
    device::copy(buffer.data() + done, buffer.data(), std::min(done, size - done) * width);
  return buffer;
}
template Buffer<float> normal_numbers(const std::string&, int64_t, double);
template Buffer<bf16> normal_numbers(const std::string&, int64_t, double);
template Buffer<fp16> normal_numbers(const std::string&, int64_t, double);

RandomIntegers random_integers(int64_t size, int64_t limit, uint64_t purpose) {
  RandomIntegers result;
  for (int64_t i = 0; i < size; ++i)
    result.host.push_back(static_cast<int32_t>(random_bits(1, purpose, static_cast<uint64_t>(i)) %
                                               static_cast<uint64_t>(limit)));
  result.device = device_copy("bench.integers", result.host);
  return result;
}

KernelTable::KernelTable(const KernelSizes& sizes, double seconds, const std::string& file)
    : sizes_(sizes), seconds_(seconds), file_(file) {
  if (file_.empty()) return;
  out_.open(file_, std::ios::trunc);
  if (!out_)
    throw DataError(fmt::format("{}: cannot be written; name another file with --out", file_));
}

void KernelTable::heading(const std::string& title) const {
  info("");
  info("{:<56} {:>10} {:>10} {:>10} {:>8} {:>9}", title, "median us", "rate", "", "share",
       "portable");
}

const KernelRow& KernelTable::measure(const std::string& group, const std::string& name,
                                      RateKind kind, double work, int64_t sets,
                                      const KernelWork& launches, KernelForms forms) {
  KernelRow row{group, name, kind, work, {}, {}};
  row.tuned = time_launches(launches, sets, seconds_);
  if (forms == KernelForms::tuned_and_portable) {
    const PortableScope portable;
    row.portable = time_launches(launches, sets, seconds_);
  }
  rows_.push_back(row);
  print(row);
  write(as_json(row));
  return rows_.back();
}

void KernelTable::print(const KernelRow& row) const {
  const double reference = row.kind == RateKind::flops ? gemm_rate_ : copy_rate_;
  const std::string share =
      reference > 0.0 ? fmt::format("{:.1f} %", 100.0 * row.rate() / reference) : "";
  const double portable = row.portable.is_measured() ? row.work / row.portable.median : 0.0;
  info("  {:<54} {:>10.1f} {:>10.1f} {:<10} {:>8} {:>9}", row.name, row.tuned.median * 1e6,
       in_unit(row.kind, row.rate()), unit_of(row.kind), share,
       portable > 0.0 ? fmt::format("{:.1f}", in_unit(row.kind, portable)) : "-");
}

void KernelTable::summary(const std::string& name, double value, const std::string& unit,
                          const std::string& about) {
  info("  {:<54} {:>10} {:>10.3f} {:<10} {}", name, "", value, unit, about);
  write(
      Json{{"kind", "summary"}, {"name", name}, {"unit", unit}, {"value", value}, {"about", about}}
          .dump());
}

void KernelTable::absent(const std::string& group, const std::string& name,
                         const std::string& why) {
  info("  {:<54} {}", name, why);
  write(Json{{"kind", "absent"}, {"group", group}, {"name", name}, {"why", why}}.dump());
}

void KernelTable::summarise_memory_bound() {
  const KernelRow* least = nullptr;
  for (const KernelRow& row : rows_)
    if (row.kind == RateKind::bytes && (least == nullptr || row.rate() < least->rate()))
      least = &row;
  ESPALIER_REQUIRE(least != nullptr && copy_rate_ > 0.0, "no memory-bound kernel was measured");
  heading("all memory-bound kernels");
  summary("memory_bound_least", 100.0 * least->rate() / copy_rate_, "% of copy", least->name);
}

void KernelTable::write(const std::string& line) {
  if (file_.empty()) return;
  out_ << line << '\n' << std::flush;
  if (!out_)
    throw DataError(fmt::format("{}: cannot be written to any more; is the disk full?", file_));
}

}  // namespace espalier
