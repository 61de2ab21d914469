// SPDX-License-Identifier: Apache-2.0
// espalier debug compare A B: whether two runs computed the same. What is compared, and what the
// JSON form holds, stands in docs/validate.md.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "checkpoint/tensor_file.hpp"
#include "commands/run_folder.hpp"
#include "commands/tensor_difference.hpp"
#include "commands/verbs.hpp"
#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace espalier {
namespace {

constexpr const char* kParameters = "parameters/";

struct CompareRequest {
  std::string first, second, base, json;
  double tolerance = 0.0;
};

// Numbers that are not finite stand in the file as text: never equal to anything.
double number(const nlohmann::json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && found->is_number() ? found->get<double>() : std::nan("");
}

// Losses and gradient norms by step, as they stand in the metrics.
std::vector<std::pair<double, double>> read_losses(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw DataError(fmt::format("cannot read {}; is it the folder of a run?", path));
  std::vector<std::pair<double, double>> losses;
  for (std::string line; std::getline(in, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_discarded() || record.value("kind", "") != "step") continue;
    // A step that overflowed and was skipped has no norm: the same on both sides is the same.
    const bool skipped = record.value("skipped", false);
    losses.emplace_back(number(record, "loss"), skipped ? -1.0 : number(record, "gradient_norm"));
  }
  return losses;
}

double relative_difference(double a, double b) {
  if (a == b) return 0.0;
  if (!std::isfinite(a) || !std::isfinite(b)) return HUGE_VAL;
  return std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}

struct LossComparison {
  size_t steps = 0;
  double loss = 0.0, norm = 0.0;  // largest relative differences
};

LossComparison compare_losses(const CompareRequest& request) {
  const auto a = read_losses(RunFolder{request.first}.metrics());
  const auto b = read_losses(RunFolder{request.second}.metrics());
  if (a.size() != b.size() || a.empty())
    throw DataError(fmt::format("{} has {} steps, {} has {}; compare runs of the same length",
                                request.first, a.size(), request.second, b.size()));
  LossComparison worst{a.size()};
  for (size_t i = 0; i < a.size(); ++i) {
    worst.loss = std::max(worst.loss, relative_difference(a[i].first, b[i].first));
    worst.norm = std::max(worst.norm, relative_difference(a[i].second, b[i].second));
  }
  return worst;
}

struct TensorComparison {
  std::string name;
  TensorDifference difference;
};

// Every dataset of real numbers, one at a time: the parameters, and what state a file may hold.
std::vector<TensorComparison> compare_tensors(const CompareRequest& request) {
  TensorFileReader a(RunFolder{request.first}.model(), nullptr);
  TensorFileReader b(RunFolder{request.second}.model(), nullptr);
  std::unique_ptr<TensorFileReader> base;
  if (!request.base.empty()) base = std::make_unique<TensorFileReader>(request.base, nullptr);
  for (const auto& [name, ignored] : b.datasets())
    if (!a.contains(name))
      throw DataError(fmt::format("{} holds {}, {} does not; compare runs of the same deck",
                                  b.path(), name, a.path()));
  std::vector<TensorComparison> found;
  for (const auto& [name, info] : a.datasets()) {
    if (info.type != StoredType::fp32 && info.type != StoredType::fp64) continue;
    const bool has_base = base && name.rfind(kParameters, 0) == 0;
    found.push_back(
        {name, compare_stored({a, b, has_base ? base.get() : nullptr}, name, nullptr, 0)});
  }
  if (found.empty()) throw DataError(a.path() + " holds no tensors; is it the model of a run?");
  return found;
}

nlohmann::ordered_json json_number(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

void write_json(const CompareRequest& request, const LossComparison& losses,
                const TensorDifference& all, const std::vector<TensorComparison>& tensors,
                int64_t unequal) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TensorComparison& t : tensors) {
    if (t.name.rfind(kParameters, 0) != 0) continue;
    list.push_back({{"name", t.name.substr(std::strlen(kParameters))},
                    {"difference", json_number(t.difference.relative())},
                    {"unequal_elements", t.difference.unequal}});
    if (!request.base.empty())
      list.back()["update_difference"] = json_number(t.difference.relative_update());
  }
  nlohmann::ordered_json out = {{"steps", losses.steps},
                                {"loss", json_number(losses.loss)},
                                {"gradient_norm", json_number(losses.norm)},
                                {"parameters", json_number(all.relative())}};
  if (!request.base.empty()) out["update"] = json_number(all.relative_update());
  out["unequal_elements"] = unequal;
  out["tensors"] = std::move(list);
  write_text_file(request.json, out.dump(1) + "\n");
}

// Compares what two runs computed. With tolerance 0 every bit must agree.
int compare_runs(const CompareRequest& request) {
  const LossComparison losses = compare_losses(request);
  const std::vector<TensorComparison> tensors = compare_tensors(request);
  info("loss           {:.3e} largest relative difference over {} steps", losses.loss,
       losses.steps);
  info("gradient norm  {:.3e}", losses.norm);
  TensorDifference all;
  int64_t unequal = 0;
  for (const TensorComparison& t : tensors) {
    unequal += t.difference.unequal;
    if (t.difference.relative() > request.tolerance)
      info("  {:<40} {:.3e}", t.name, t.difference.relative());
    if (t.name.rfind(kParameters, 0) == 0) all += t.difference;
  }
  // All parameters as one vector: a tensor whose exact gradient is zero (the bias of keys) is moved
  // by rounding noise alone, which Adam scales up, and would stand for nothing.
  info("parameters     {:.3e} norm of the difference over the norm", all.relative());
  if (!request.base.empty())
    info("update         {:.3e} norm of the difference over the norm", all.relative_update());
  info("bits           {} elements differ", unequal);
  if (!request.json.empty()) write_json(request, losses, all, tensors, unequal);
  const double worst = std::max({losses.loss, losses.norm, all.relative()});
  const bool is_same =
      request.tolerance > 0.0 ? worst <= request.tolerance : worst == 0.0 && unequal == 0;
  info("largest        {:.3e}, {} allowed: {}", worst, request.tolerance,
       is_same ? "the same" : "DIFFERENT");
  return static_cast<int>(is_same ? ExitCode::success : ExitCode::numerical);
}

}  // namespace

void add_compare(CLI::App& verb, Action& action) {
  const auto r = std::make_shared<CompareRequest>();
  CLI::App* compare = verb.add_subcommand("compare", "Losses and parameters of two runs");
  compare->add_option("A", r->first, "Folder of a run")->required();
  compare->add_option("B", r->second, "Folder of another")->required();
  compare->add_option("--tolerance", r->tolerance, "Largest relative difference (default 0: equal)")
      ->check(CLI::NonNegativeNumber);
  compare->add_option("--base", r->base,
                      "Gradient dump with the parameters that both began with: updates, too");
  compare->add_option("--json", r->json, "File to write the comparison to");
  compare->callback([r, &action] { action = [r] { return compare_runs(*r); }; });
}

}  // namespace espalier
