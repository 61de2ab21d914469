// SPDX-License-Identifier: Apache-2.0
#include "commands/validate_measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace espalier {
namespace {

using Json = nlohmann::json;

// Constants of docs/validate.md, section "What is allowed".
constexpr double kWideLoss = 1e-5;     // fp32 and fp64
constexpr double kNarrowFactor = 0.5;  // bf16 and fp16: times roundoff times sqrt(2 layers + 2)
constexpr double kNormOverLoss = 4.0;
constexpr double kUpdateOverLoss = 1000.0;
constexpr double kMostUpdate = 0.25;
constexpr double kMostTensorUpdate = 0.5;

// A softmax does not see a constant that is added to all its scores, so the exact gradient of the
// bias of the keys is zero. In 16 bits rounding alone moves it, and Adam makes steps of that.
constexpr const char* kNoisyTensor = "attention.qkv.bias";

bool is_noisy(const std::string& name) {
  const std::string end = kNoisyTensor;
  return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

bool is_narrow(ElementType type) {
  return type == ElementType::bf16 || type == ElementType::fp16;
}

double roundoff(ElementType type) {
  return type == ElementType::bf16 ? std::ldexp(1.0, -8) : std::ldexp(1.0, -11);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n == 0 ? 0.0 : 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

// What is not finite stands as a text in these files.
double real(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return std::numeric_limits<double>::infinity();
  throw DataError("not a number: " + value.dump());
}

void add_step(const Json& record, RunMeasure& measure, std::vector<double>& seconds) {
  seconds.push_back(real(record.at("step_seconds")));
  for (const auto& [axis, c] : record.at("communication").items()) {
    measure.traffic[axis].bytes += real(c.at("bytes"));
    measure.traffic[axis].exposed_seconds += real(c.at("exposed_seconds"));
  }
}

}  // namespace

RunMeasure read_measure(const std::string& metrics_path, int64_t steps) {
  std::ifstream in(metrics_path);
  if (!in) throw DataError(fmt::format("{}: {}", metrics_path, std::strerror(errno)));
  RunMeasure measure;
  std::vector<Json> records;
  try {
    for (std::string line; std::getline(in, line);) {
      Json record = Json::parse(line);
      if (record.at("kind") == "end")
        measure.peak_memory_bytes = record.at("peak_memory_bytes").get<int64_t>();
      if (record.at("kind") != "step") continue;
      measure.token_hashes.push_back(record.at("token_hash").get<std::string>());
      records.push_back(std::move(record));
    }
    const size_t first = records.size() > 1 ? 1 : 0;
    std::vector<double> seconds;
    for (size_t i = first; i < records.size(); ++i) add_step(records[i], measure, seconds);
    measure.step_seconds = median(seconds);
    for (auto& [axis, traffic] : measure.traffic) {
      traffic.bytes /= static_cast<double>(seconds.size());
      traffic.exposed_seconds /= static_cast<double>(seconds.size());
    }
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("{}: {}", metrics_path, error.what()));
  }
  if (static_cast<int64_t>(records.size()) != steps)
    throw DataError(
        fmt::format("{} holds {} steps instead of {}", metrics_path, records.size(), steps));
  return measure;
}

LayoutDifference read_difference(const std::string& compare_path, const RunMeasure& reference,
                                 const RunMeasure& run) {
  std::ifstream in(compare_path);
  if (!in) throw DataError(fmt::format("{}: {}", compare_path, std::strerror(errno)));
  LayoutDifference d;
  try {
    const Json compared = Json::parse(in);
    d.loss = real(compared.at("loss"));
    d.gradient_norm = real(compared.at("gradient_norm"));
    d.update = real(compared.at("update"));
    d.unequal_elements = compared.at("unequal_elements").get<int64_t>();
    for (const Json& tensor : compared.at("tensors")) {
      const double update = real(tensor.at("update_difference"));
      const auto name = tensor.at("name").get<std::string>();
      if (update > d.worst_update) {
        d.worst_update = update;
        d.worst_tensor = name;
      }
      if (!is_noisy(name)) d.worst_quiet_update = std::max(d.worst_quiet_update, update);
    }
  } catch (const Json::exception& error) {
    throw DataError(fmt::format("{}: {}", compare_path, error.what()));
  }
  const size_t steps = std::max(reference.token_hashes.size(), run.token_hashes.size());
  for (size_t i = 0; i < steps; ++i) {
    const bool is_same = i < reference.token_hashes.size() && i < run.token_hashes.size() &&
                         reference.token_hashes[i] == run.token_hashes[i];
    d.unequal_tokens += is_same ? 0 : 1;
  }
  return d;
}

ValidationLimits make_limits(const Config& config, std::optional<double> tolerance) {
  ValidationLimits limits;
  limits.every_bit = config.numerics.reproducible;
  if (limits.every_bit) {
    if (tolerance)
      throw DeckError(
          "--tolerance: with numerics.reproducible = true every bit must be the same; leave it "
          "out, or add --set numerics.reproducible=false");
    return limits;
  }
  // Gradients that travel as bf16 are rounded as if they were computed so.
  const bool narrow_wire = config.numerics.gradient_reduce_type == ElementType::bf16;
  const ElementType type = narrow_wire ? ElementType::bf16 : config.numerics.compute_type;
  limits.loss = tolerance ? *tolerance
                : is_narrow(type)
                    ? kNarrowFactor * roundoff(type) *
                          std::sqrt(2.0 * static_cast<double>(config.model.num_layers) + 2.0)
                    : kWideLoss;
  limits.gradient_norm = kNormOverLoss * limits.loss;
  limits.update = std::min(kMostUpdate, kUpdateOverLoss * limits.loss);
  limits.tensor_update = kMostTensorUpdate;
  limits.is_narrow = is_narrow(type);
  return limits;
}

std::string judge(const LayoutDifference& d, const ValidationLimits& limits) {
  std::vector<std::string> faults;
  if (d.unequal_tokens > 0)
    faults.push_back(fmt::format("other tokens in {} steps", d.unequal_tokens));
  if (limits.every_bit) {
    if (d.loss != 0.0) faults.push_back(fmt::format("the loss differs by {:.3e}", d.loss));
    if (d.gradient_norm != 0.0)
      faults.push_back(fmt::format("the gradient norm differs by {:.3e}", d.gradient_norm));
    if (d.unequal_elements > 0)
      faults.push_back(fmt::format("{} elements of the final tensors have other bits{}",
                                   d.unequal_elements,
                                   d.worst_tensor.empty() ? "" : ", most in " + d.worst_tensor));
  } else {
    // Written so that a difference that is not a number fails.
    const auto check = [&](const char* what, double value, double limit) {
      if (!(value <= limit))
        faults.push_back(
            fmt::format("the {} differs by {:.3e}, {:.1e} is allowed", what, value, limit));
    };
    check("loss", d.loss, limits.loss);
    check("gradient norm", d.gradient_norm, limits.gradient_norm);
    check("update", d.update, limits.update);
    check("update of one tensor", limits.is_narrow ? d.worst_quiet_update : d.worst_update,
          limits.tensor_update);
    if (!faults.empty() && d.worst_update > 0.0)
      faults.push_back(fmt::format("most in {}: {:.3e}", d.worst_tensor, d.worst_update));
  }
  return fmt::format("{}", fmt::join(faults, "; "));
}

}  // namespace espalier
