// SPDX-License-Identifier: Apache-2.0
// Chooses the plots, their units and their series.
#include "report/plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "report/headline.hpp"
#include "report/text.hpp"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

struct Unit {
  std::string name;
  double scale;  ///< value / scale is what is shown
};

/// Five digits: finer than a pixel, and a third of the bytes.
Json short_number(double x) {
  if (!std::isfinite(x)) return nullptr;
  return std::strtod(fmt::format("{:.5g}", x).c_str(), nullptr);
}

Json numbers(const Series& values, double scale) {
  Json out = Json::array();
  for (const double x : values) out.push_back(short_number(x / scale));
  return out;
}

double greatest(const Series& values) {
  double most = 0.0;
  for (const double x : values)
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  return most;
}

/// Whether there is anything to show: a finite value other than 0.
bool has_values(const Series& values) {
  return greatest(values) > 0.0;
}

Unit pick(double most, const std::vector<Unit>& units) {
  for (const Unit& u : units)
    if (most >= u.scale) return u;
  return units.back();
}

Unit byte_unit(double most) {
  return pick(most, {{"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}});
}
Unit time_unit(double most) {
  return pick(most, {{"s", 1.0}, {"ms", 1e-3}, {"µs", 1e-6}});
}
Unit rate_unit(double most) {
  return pick(most, {{"million tokens/s", 1e6}, {"thousand tokens/s", 1e3}, {"tokens/s", 1.0}});
}

/// A part of the step has the same colour in the report of every run.
struct PartColor {
  const char* name;
  int color;
};
constexpr PartColor kParts[] = {
    {"matmul", 0},    {"attention", 1}, {"norm", 2},          {"activation", 3}, {"loss", 4},
    {"embedding", 9}, {"optimizer", 5}, {"communication", 6}, {"data", 7},       {"other", 8}};
constexpr size_t kPartColors = std::size(kParts);

size_t part_place(const std::string& name) {
  size_t i = 0;
  while (i < kPartColors && name != kParts[i].name) ++i;
  return i;
}

int part_color(const std::string& name, size_t index) {
  const size_t place = part_place(name);
  return place < kPartColors ? kParts[place].color : static_cast<int>(index % kPartColors);
}

class Plots {
 public:
  explicit Plots(const RunData& data)
      : data_(data), edges_(bucket_edges(data.steps.size(), kMostPoints)) {}

  Json all() {
    add_loss();
    add_optimizer();
    add_speed();
    add_parts();
    add_waits();
    add_pipeline();
    add_memory();
    return {{"x", steps_of(edges_)}, {"plots", plots_}};
  }

 private:
  /// The first and the last step of each bucket, and the tokens consumed up to its end.
  Json steps_of(const std::vector<size_t>& edges) const {
    const Series tokens = data_.column("consumed_tokens");
    Json x = {{"first", Json::array()}, {"last", Json::array()}, {"tokens", Json::array()}};
    for (size_t b = 0; b + 1 < edges.size(); ++b) {
      const size_t last = edges[b + 1] - 1;
      x["first"].push_back(data_.steps[edges[b]]);
      x["last"].push_back(data_.steps[last]);
      x["tokens"].push_back(std::isfinite(tokens[last]) ? Json(static_cast<int64_t>(tokens[last]))
                                                        : Json(nullptr));
    }
    return x;
  }

  Json& add(const std::string& title, const std::string& unit, const std::string& note) {
    plots_.push_back({{"title", title}, {"unit", unit}, {"note", note}, {"series", Json::array()}});
    return plots_.back();
  }

  /// A line with, where a bucket holds several steps, the band from its least to its greatest
  /// value.
  Json line(const std::string& name, const Series& values, double scale, int color) const {
    const Envelope e = envelope(values, edges_);
    Json out = {{"name", name}, {"color", color}, {"mean", numbers(e.mean, scale)}};
    if (edges_.size() - 1 < values.size()) {
      out["min"] = numbers(e.min, scale);
      out["max"] = numbers(e.max, scale);
    }
    return out;
  }

  Json marked_steps(const Series& values, bool (*is_marked)(double)) const {
    Json out = Json::array();
    for (size_t i = 0; i < values.size() && out.size() < kMostPoints; ++i)
      if (is_marked(values[i])) out.push_back(data_.steps[i]);
    return out;
  }

  void add_loss() {
    const Series loss = data_.column("loss");
    Json& plot = add("Loss", "nats per token", "");
    plot["wide"] = true;
    plot["log"] = "off";
    Json raw = line("training", loss, 1.0, 5);
    raw["faint"] = true;
    plot["series"].push_back(raw);
    // The average at the end of each bucket: its own mean would smooth twice.
    const Series smoothed = smoothed_loss(data_);
    Series ends;
    for (size_t b = 1; b < edges_.size(); ++b) ends.push_back(smoothed[edges_[b] - 1]);
    plot["series"].push_back(
        {{"name", "training, smoothed"}, {"color", 0}, {"mean", numbers(ends, 1.0)}});
    if (!data_.validation_steps.empty()) add_validation(plot);
    if (data_.bigram_nats)
      plot["levels"] = {{{"name", "bigram model"}, {"value", short_number(*data_.bigram_nats)}}};
    Json marks = marked_steps(loss, [](double x) { return !std::isfinite(x); });
    if (!marks.empty()) plot["marks"] = {{"name", "loss not finite"}, {"steps", marks}};
  }

  void add_validation(Json& plot) const {
    const auto edges = bucket_edges(data_.validation_steps.size(), kMostPoints);
    Json steps = Json::array();
    for (size_t b = 1; b < edges.size(); ++b) steps.push_back(data_.validation_steps[edges[b] - 1]);
    plot["points"] = {{"name", "validation"},
                      {"color", 1},
                      {"steps", steps},
                      {"values", numbers(envelope(data_.validation_losses, edges).mean, 1.0)}};
  }

  void add_optimizer() {
    const Series norm = data_.column("gradient_norm");
    Json& plot = add("Gradient norm", "", "2-norm over all parameters, before clipping");
    plot["log"] = "on";
    plot["series"].push_back(line("gradient norm", norm, 1.0, 0));
    Json marks = marked_steps(data_.column("skipped"), [](double x) { return x == 1.0; });
    if (!marks.empty()) plot["marks"] = {{"name", "skipped step"}, {"steps", marks}};
    Json& rate = add("Learning rate", "", "");
    rate["zero"] = true;
    rate["log"] = "off";
    rate["series"].push_back(line("learning rate", data_.column("learning_rate"), 1.0, 0));
    const Series scale = data_.column("loss_scale");
    if (!std::any_of(scale.begin(), scale.end(), [](double x) { return x > 1.0; })) return;
    Json& scales = add("Loss scale", "", "fp16: factor on the loss, halved on overflow");
    scales["log"] = "on";
    scales["series"].push_back(line("loss scale", scale, 1.0, 0));
  }

  void add_speed() {
    const Series speed = data_.column("tokens_per_second");
    const Unit unit = rate_unit(greatest(speed));
    Json& plot = add("Throughput", unit.name, "");
    plot["zero"] = true;
    plot["series"].push_back(line("throughput", speed, unit.scale, 2));
    const Series mfu = data_.column("mfu");
    if (!has_values(mfu)) return;
    Json& use =
        add("Model FLOP utilisation", "% of peak", "model flop/s over the peak of all ranks");
    use["zero"] = true;
    use["series"].push_back(line("MFU", mfu, 0.01, 2));
  }

  /// Names behind "prefix/": first the known parts in their order, then others.
  std::vector<std::string> names_of(const std::string& prefix) const {
    std::vector<std::string> names;
    for (const auto& [column, values] : data_.columns)
      if (column.rfind(prefix, 0) == 0) names.push_back(column.substr(prefix.size()));
    std::stable_sort(names.begin(), names.end(),
                     [](const auto& a, const auto& b) { return part_place(a) < part_place(b); });
    return names;
  }

  void add_parts() {
    const auto names = names_of("part/");
    double total = 0.0;
    std::vector<double> sums;
    for (const auto& name : names) {
      double sum = 0.0;
      for (const double x : data_.column("part/" + name)) sum += std::isfinite(x) ? x : 0.0;
      sums.push_back(sum);
      total += sum;
    }
    if (!(total > 0)) return;
    const Unit unit = time_unit(total / static_cast<double>(data_.steps.size()));
    Json& plot = add("Time by part", unit.name + " per step", "of the rank that writes");
    const auto edges = bucket_edges(data_.steps.size(), kMostAreas);
    plot["x"] = steps_of(edges);
    plot["wide"] = true;
    plot["stack"] = true;
    plot["zero"] = true;
    for (size_t i = 0; i < names.size(); ++i) {
      const Envelope e = envelope(data_.column("part/" + names[i]), edges);
      plot["series"].push_back({{"name", names[i]},
                                {"detail", fmt::format("{:.1f} %", 100 * sums[i] / total)},
                                {"color", part_color(names[i], i)},
                                {"mean", numbers(e.mean, unit.scale)}});
    }
  }

  Series share(const std::string& column) const {
    Series values = data_.column(column);
    const Series seconds = data_.column("step_seconds");
    for (size_t i = 0; i < values.size(); ++i) values[i] /= seconds[i];
    return values;
  }

  void add_waits() {
    Json& wait = add("Data wait", "% of step", "wait for the prefetch thread");
    wait["zero"] = true;
    wait["series"].push_back(line("data wait", share("data_wait_seconds"), 0.01, 4));
    const auto axes = names_of("exposed/");
    if (axes.empty()) return;
    Json& plot = add("Exposed communication", "% of step", "wait after compute ran out, by axis");
    plot["zero"] = true;
    int color = 0;
    for (const auto& axis : axes)
      plot["series"].push_back(line(axis, share("exposed/" + axis), 0.01, color++ % 6));
  }

  void add_pipeline() {
    const auto stages = names_of("stage/");
    if (stages.empty()) return;
    double most = 0.0;
    for (const auto& stage : stages)
      most = std::max(most, greatest(data_.column("stage/" + stage)));
    const Unit unit = time_unit(most);
    Json& plot = add("Pipeline stages", unit.name + " per step", "what each stage computes");
    plot["zero"] = true;
    int color = 0;
    for (const auto& stage : stages)
      plot["series"].push_back(line("stage " + std::to_string(std::stoi(stage)),
                                    data_.column("stage/" + stage), unit.scale, color++ % 6));
    Json& bubble = add("Pipeline bubble", "% of the passes", "mean over ranks");
    bubble["zero"] = true;
    bubble["series"].push_back(line("bubble", data_.column("pipeline_bubble"), 0.01, 4));
  }

  void add_memory() {
    const Series now = data_.column("memory_bytes"), peak = data_.column("peak_memory_bytes");
    if (!has_values(now) && !has_values(peak)) return;
    const auto predicted = headline(data_).predicted_memory_bytes;
    const Unit unit = byte_unit(std::max(greatest(now), greatest(peak)));
    Json& plot = add("Memory", unit.name, "resident, the rank with most");
    plot["zero"] = true;
    plot["series"].push_back(line("resident", now, unit.scale, 0));
    plot["series"].push_back(line("peak so far", peak, unit.scale, 1));
    if (predicted)
      plot["levels"] = {{{"name", "predicted peak"},
                         {"value", short_number(static_cast<double>(*predicted) / unit.scale)}}};
  }

  const RunData& data_;
  std::vector<size_t> edges_;
  Json plots_ = Json::array();
};

}  // namespace

Json plots_of(const RunData& data) {
  return Plots(data).all();
}

}  // namespace espalier
