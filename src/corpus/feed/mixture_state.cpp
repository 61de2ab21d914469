// SPDX-License-Identifier: Apache-2.0
// The state of a mixture as one line of JSON.
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "core/error.hpp"
#include "corpus/feed/mixture.hpp"

namespace espalier {

bool operator==(const MixtureState& a, const MixtureState& b) {
  return a.phase_start == b.phase_start && a.names == b.names && a.base == b.base &&
         a.quota == b.quota;
}

std::string encode_mixture(const MixtureState& state) {
  if (state.names.empty()) return "";
  nlohmann::ordered_json json;
  json["phase_start"] = state.phase_start;
  json["names"] = state.names;
  json["base"] = state.base;
  json["quota"] = state.quota;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

MixtureState decode_mixture(const std::string& text, const std::string& path) {
  MixtureState state;
  if (text.empty()) return state;
  try {
    const auto json = nlohmann::json::parse(text);
    state.phase_start = json.at("phase_start").get<int64_t>();
    state.names = json.at("names").get<std::vector<std::string>>();
    state.base = json.at("base").get<std::vector<int64_t>>();
    state.quota = json.at("quota").get<std::vector<int64_t>>();
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format(
        "{}: the state of the data mixture cannot be read ({}); use an older checkpoint", path,
        error.what()));
  }
  const auto is_negative = [](int64_t value) { return value < 0; };
  bool is_sound =
      state.phase_start >= 0 && !state.names.empty() && state.base.size() == state.names.size() &&
      state.quota.size() == state.names.size() &&
      std::set<std::string>(state.names.begin(), state.names.end()).size() == state.names.size() &&
      std::none_of(state.base.begin(), state.base.end(), is_negative);
  int64_t sum = 0;
  for (const int64_t quota : state.quota) {
    is_sound = is_sound && quota >= 0 && quota <= kMixtureBlock;
    if (is_sound) sum += quota;
  }
  if (!is_sound || sum != kMixtureBlock)
    throw DataError(fmt::format(
        "{}: the state of the data mixture contradicts itself; use an older checkpoint", path));
  return state;
}

}  // namespace espalier
