// SPDX-License-Identifier: Apache-2.0
// Reading weights and stages of the curriculum.
#include "deck/mixture_text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <set>

namespace espalier {
namespace {

std::string trim(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

template <class Number>
bool read_number(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end && !text.empty();
}

// What is wrong with the item, or nothing.
std::string read_weight(const std::string& item, SourceWeight& out) {
  const size_t equals = item.rfind('=');
  if (equals == std::string::npos)
    return fmt::format("\"{}\" is not of the form NAME = WEIGHT", item);
  out.name = trim(item.substr(0, equals));
  if (out.name.empty()) return fmt::format("\"{}\" names no source", item);
  const std::string number = trim(item.substr(equals + 1));
  if (!read_number(number, out.weight) || !std::isfinite(out.weight))
    return fmt::format("the weight of {} is \"{}\", which is no number", out.name, number);
  if (out.weight < 0) return fmt::format("the weight of {} is below 0", out.name);
  return "";
}

}  // namespace

ReadText<std::vector<SourceWeight>> read_weights(const std::vector<std::string>& items) {
  ReadText<std::vector<SourceWeight>> read;
  std::set<std::string> names;
  double sum = 0.0;
  for (const std::string& item : items) {
    SourceWeight weight;
    read.fault = read_weight(item, weight);
    if (!read.fault.empty()) return read;
    if (!names.insert(weight.name).second) {
      read.fault = fmt::format("{} is named again", weight.name);
      return read;
    }
    sum += weight.weight;
    read.value.push_back(std::move(weight));
  }
  if (sum == 0.0) read.fault = "no weight is above 0";
  if (!std::isfinite(sum)) read.fault = "the sum of the weights is too large";
  return read;
}

ReadText<CurriculumStage> read_stage(const std::string& item) {
  ReadText<CurriculumStage> read;
  const size_t colon = item.find(':');
  const std::string step = trim(item.substr(0, colon));
  if (colon == std::string::npos || !read_number(step, read.value.step)) {
    read.fault = "does not begin with a step and a colon";
    return read;
  }
  if (read.value.step < 1) {
    read.fault = fmt::format("begins at step {}, but the first step is 1", read.value.step);
    return read;
  }
  std::vector<std::string> items;
  for (size_t at = colon + 1; at <= item.size();) {
    const size_t comma = std::min(item.find(',', at), item.size());
    items.push_back(trim(item.substr(at, comma - at)));
    at = comma + 1;
  }
  auto weights = read_weights(items);
  read.value.weights = std::move(weights.value);
  read.fault = std::move(weights.fault);
  return read;
}

}  // namespace espalier
