// SPDX-License-Identifier: Apache-2.0
// espalier debug compare A B: whether two runs computed the same.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "blueprint/parameter_table.hpp"
#include "checkpoint/model_file.hpp"
#include "commands/run_folder.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "deck/deck.hpp"

namespace espalier {
namespace {

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
    losses.emplace_back(number(record, "loss"), number(record, "gradient_norm"));
  }
  return losses;
}

double relative_difference(double a, double b) {
  if (a == b) return 0.0;
  if (!std::isfinite(a) || !std::isfinite(b)) return HUGE_VAL;
  return std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}

struct CompareRequest {
  std::string first, second;
  double tolerance = 0.0;
};

// The norm of the difference over the norm; infinite where a number is not finite.
double vector_difference(const std::vector<double>& a, const std::vector<double>& b, int64_t offset,
                         int64_t size) {
  double difference = 0.0, norm = 0.0;
  for (int64_t i = offset; i < offset + size; ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return HUGE_VAL;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / std::max(norm, 1e-300));
}

double compare_losses(const CompareRequest& request) {
  const auto a = read_losses(RunFolder{request.first}.metrics());
  const auto b = read_losses(RunFolder{request.second}.metrics());
  if (a.size() != b.size() || a.empty())
    throw DataError(fmt::format("{} has {} steps, {} has {}; compare runs of the same length",
                                request.first, a.size(), request.second, b.size()));
  double worst_loss = 0.0, worst_norm = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst_loss = std::max(worst_loss, relative_difference(a[i].first, b[i].first));
    worst_norm = std::max(worst_norm, relative_difference(a[i].second, b[i].second));
  }
  info("loss           {:.3e} largest relative difference over {} steps", worst_loss, a.size());
  info("gradient norm  {:.3e}", worst_norm);
  return std::max(worst_loss, worst_norm);
}

template <class Real>
std::vector<double> read_flat(const std::string& path, const std::vector<TensorRow>& rows,
                              int64_t size) {
  std::vector<Real> flat(size);
  read_model(path, nullptr, rows, flat.data());
  return {flat.begin(), flat.end()};
}

// Compares what two runs computed. With tolerance 0 every bit must agree.
int compare_runs(const CompareRequest& request) {
  double worst = compare_losses(request);
  const RunFolder first{request.first}, second{request.second};
  const DeckResult deck = parse_deck(read_model_info(first.model(), nullptr).deck, first.model());
  if (!deck.ok()) throw DataError(fmt::format("{}: {}", first.model(), deck.faults.front().text()));
  const ParameterTable table = make_parameter_table(deck.config);
  const auto rows = tensor_rows(table);
  const bool wide = deck.config.numerics.compute_type == ElementType::fp64;
  const auto read = wide ? read_flat<double> : read_flat<float>;
  const std::vector<double> a = read(first.model(), rows, table.flat_size);
  const std::vector<double> b = read(second.model(), rows, table.flat_size);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double difference = vector_difference(a, b, rows[i].offset, table.parameters[i].size());
    if (difference > request.tolerance) info("  {:<40} {:.3e}", rows[i].name, difference);
  }
  // All parameters as one vector: a tensor whose exact gradient is zero (the bias of keys) is moved
  // by rounding noise alone, which Adam scales up, and would stand for nothing.
  const double parameters = vector_difference(a, b, 0, table.flat_size);
  info("parameters     {:.3e} norm of the difference over the norm", parameters);
  worst = std::max(worst, parameters);
  info("largest        {:.3e}, {} allowed: {}", worst, request.tolerance,
       worst <= request.tolerance ? "the same" : "DIFFERENT");
  return static_cast<int>(worst <= request.tolerance ? ExitCode::success : ExitCode::numerical);
}

}  // namespace

void add_compare(CLI::App& verb, Action& action) {
  const auto r = std::make_shared<CompareRequest>();
  CLI::App* compare = verb.add_subcommand("compare", "Losses and parameters of two runs");
  compare->add_option("A", r->first, "Folder of a run")->required();
  compare->add_option("B", r->second, "Folder of another")->required();
  compare->add_option("--tolerance", r->tolerance, "Largest relative difference (default 0: equal)")
      ->check(CLI::NonNegativeNumber);
  compare->callback([r, &action] { action = [r] { return compare_runs(*r); }; });
}

}  // namespace espalier
