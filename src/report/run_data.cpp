// SPDX-License-Identifier: Apache-2.0
// Reading of a run folder; metrics.jsonl may be cut off or damaged anywhere.
#include "report/run_data.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/error.hpp"
#include "report/text.hpp"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// A number as metrics.jsonl writes it; NaN for anything else.
double number(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (!value.is_string()) return kNone;
  const auto& s = value.get_ref<const std::string&>();
  const double inf = std::numeric_limits<double>::infinity();
  return s == "inf" ? inf : s == "-inf" ? -inf : kNone;
}

double number(const Json& record, const char* key) {
  const auto at = record.find(key);
  return at == record.end() ? kNone : number(*at);
}

class MetricsReader {
 public:
  explicit MetricsReader(RunData& data) : data_(data) {}

  void read(const std::string& path) {
    std::ifstream file(path);
    if (!file)
      throw DataError(path +
                      " cannot be read; name the folder of a run that has trained "
                      "(run.directory of its deck), and check permissions");
    std::string line;
    for (int64_t n = 1; std::getline(file, line); ++n) {
      const bool unfinished = file.eof();  // no line feed at its end
      if (line.empty()) continue;
      if (take(line)) continue;
      if (unfinished) {
        data_.notes.truncated_last_line = true;
      } else if (++data_.notes.broken_lines == 1) {
        data_.notes.first_broken_line = n;
      }
    }
    for (auto& [name, values] : data_.columns) values.resize(data_.steps.size(), kNone);
  }

 private:
  /// False if the line is no record.
  bool take(const std::string& line) {
    const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) return false;
    const auto kind = record.find("kind");
    if (kind == record.end() || !kind->is_string()) return false;
    if (*kind == "step") return take_step(record);
    if (*kind == "validation") return take_validation(record);
    if (*kind == "checkpoint") return take_checkpoint(record);
    if (*kind == "run") {
      data_.run = record;
      data_.end = nullptr;
      run_begins_ = true;
    } else if (*kind == "end") {
      data_.end = record;
    } else if (*kind != "device") {  // of health, which the page does not draw
      ++data_.notes.unknown_kinds;
    }
    return true;
  }

  bool take_step(const Json& record) {
    const auto step = record.find("step");
    if (step == record.end() || !step->is_number_integer()) return false;
    const auto number_of_step = step->get<int64_t>();
    drop_from(number_of_step);
    if (run_begins_ || data_.steps.empty()) {
      data_.first_rows.push_back(data_.steps.size());
      if (!data_.steps.empty()) data_.notes.resumed_at.push_back(number_of_step);
      run_begins_ = false;
    }
    data_.steps.push_back(number_of_step);
    for (const auto& [key, value] : record.items()) {
      if (key == "kind" || key == "step" || key == "token_hash") continue;
      if (key == "seconds_by_part" && value.is_object()) {
        for (const auto& [part, seconds] : value.items()) set("part/" + part, number(seconds));
      } else if (key == "communication" && value.is_object()) {
        for (const auto& [axis, c] : value.items())
          if (c.is_object()) set("exposed/" + axis, number(c, "exposed_seconds"));
      } else if (key == "stage_seconds" && value.is_array()) {
        for (size_t stage = 0; stage < value.size(); ++stage)
          set(fmt::format("stage/{:03}", stage), number(value[stage]));
      } else {
        set(key, number(value));
      }
    }
    return true;
  }

  bool take_validation(const Json& record) {
    const auto step = record.find("step");
    if (step == record.end() || !step->is_number_integer()) return false;
    const auto at = step->get<int64_t>();
    drop_validations_from(at);
    data_.validation_steps.push_back(at);
    data_.validation_losses.push_back(number(record, "loss"));
    return true;
  }

  bool take_checkpoint(const Json& record) {
    const auto step = record.find("step");
    if (step == record.end() || !step->is_number_integer()) return false;
    SavedCheckpoints& saved = data_.checkpoints;
    ++saved.count;
    saved.last_step = step->get<int64_t>();
    const double spent = number(record, "seconds"), stalled = number(record, "stall_seconds");
    if (std::isfinite(spent)) saved.seconds += spent;
    if (std::isfinite(stalled)) saved.stall_seconds += stalled;
    return true;
  }

  void set(const std::string& column, double value) {
    Series& values = data_.columns[column];
    values.resize(data_.steps.size() - 1, kNone);  // steps that had no such field
    values.push_back(value);
  }

  void drop_from(int64_t step) {
    size_t keep = data_.steps.size();
    while (keep > 0 && data_.steps[keep - 1] >= step) --keep;
    if (keep == data_.steps.size()) return;
    data_.notes.superseded_steps += static_cast<int64_t>(data_.steps.size() - keep);
    data_.steps.resize(keep);
    for (auto& [name, values] : data_.columns)
      if (values.size() > keep) values.resize(keep);
    while (!data_.first_rows.empty() && data_.first_rows.back() >= keep)
      data_.first_rows.pop_back();
    while (!data_.notes.resumed_at.empty() && data_.notes.resumed_at.back() >= step)
      data_.notes.resumed_at.pop_back();
    run_begins_ = true;
    drop_validations_from(step);
  }

  void drop_validations_from(int64_t step) {
    while (!data_.validation_steps.empty() && data_.validation_steps.back() >= step) {
      data_.validation_steps.pop_back();
      data_.validation_losses.pop_back();
    }
  }

  RunData& data_;
  bool run_begins_ = true;
};

/// {"bigram": {"nats_per_token": x}}, as espalier corpus baseline writes it, or {"bigram_nats": x}.
std::optional<double> baseline_nats(const Json& json, const std::string& model) {
  if (!json.is_object()) return std::nullopt;
  double nats = number(json, (model + "_nats").c_str());
  if (json.contains(model) && json[model].is_object()) nats = number(json[model], "nats_per_token");
  return std::isfinite(nats) ? std::optional(nats) : std::nullopt;
}

void read_baseline(RunData& data) {
  const std::string path = data.directory + "/baseline.json";
  const auto text = read_if_there(path);
  if (!text) return;
  const Json json = Json::parse(*text, nullptr, false);
  data.unigram_nats = baseline_nats(json, "unigram");
  data.bigram_nats = baseline_nats(json, "bigram");
  if (!data.unigram_nats || !data.bigram_nats)
    data.side_file_faults.push_back(path +
                                    " lacks the loss of the unigram or the bigram model; "
                                    "write it with espalier corpus baseline --json");
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(2, ' ', false, Json::error_handler_t::replace);
}

Sample sample_of(const Json& value) {
  if (!value.is_object() || !value.contains("text")) return {"", text_of(value)};
  return {value.contains("prompt") ? text_of(value["prompt"]) : "", text_of(value["text"])};
}

void read_samples(RunData& data) {
  const std::string path = data.directory + "/samples.json";
  if (const auto text = read_if_there(path)) {
    Json json = Json::parse(*text, nullptr, false);
    if (json.is_object() && json.contains("samples")) json = Json(json["samples"]);
    if (json.is_discarded())
      data.side_file_faults.push_back(path + " is not JSON, so its samples are not shown");
    else if (json.is_array())
      for (const auto& value : json) data.samples.push_back(sample_of(value));
    else
      data.samples.push_back(sample_of(json));
  }
  if (const auto text = read_if_there(data.directory + "/samples.txt"))
    data.samples.push_back({"", *text});
}

}  // namespace

Series RunData::column(const std::string& name) const {
  const auto at = columns.find(name);
  return at == columns.end() ? Series(steps.size(), kNone) : at->second;
}

RunData read_run(const std::string& directory) {
  if (!std::filesystem::is_directory(directory))
    throw DataError(directory +
                    " is not a folder; name the folder of a run (run.directory of its "
                    "deck)");
  RunData data;
  data.directory = directory;
  const std::string path = directory + "/metrics.jsonl";
  MetricsReader(data).read(path);
  if (data.steps.empty())
    throw DataError(
        fmt::format("{} has no step record{}; let the run finish its first step, or "
                    "train again into this folder",
                    path,
                    data.notes.broken_lines > 0
                        ? fmt::format(" ({} lines are not records)", data.notes.broken_lines)
                        : ""));
  read_baseline(data);
  read_samples(data);
  data.deck = read_if_there(directory + "/deck.toml");
  return data;
}

}  // namespace espalier
