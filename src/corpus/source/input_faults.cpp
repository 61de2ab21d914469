// SPDX-License-Identifier: Apache-2.0
// Faults of inputs as counts, places and JSON.
#include "corpus/source/input_faults.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace espalier {
namespace {

constexpr std::array<const char*, kFaultKinds> kNames = {
    "broken_utf8",    "bad_json",   "missing_field", "long_document",
    "empty_document", "empty_file", "damaged_file"};

size_t index_of(FaultKind kind) {
  return static_cast<size_t>(kind);
}

}  // namespace

const char* fault_name(FaultKind kind) {
  return kNames[index_of(kind)];
}

InputFaults::InputFaults(int64_t examples) : examples_(examples) {
  ESPALIER_REQUIRE(examples >= 0, "{} examples of faults", examples);
}

void InputFaults::note(FaultKind kind, FaultPlace place, int64_t count) {
  counts_[index_of(kind)] += count;
  if (wants_place(kind)) places_[index_of(kind)].push_back(std::move(place));
}

int64_t InputFaults::count(FaultKind kind) const {
  return counts_[index_of(kind)];
}

const std::vector<FaultPlace>& InputFaults::places(FaultKind kind) const {
  return places_[index_of(kind)];
}

bool InputFaults::wants_place(FaultKind kind) const {
  return static_cast<int64_t>(places_[index_of(kind)].size()) < examples_;
}

void InputFaults::append(const InputFaults& later) {
  for (size_t kind = 0; kind < kFaultKinds; ++kind) {
    counts_[kind] += later.counts_[kind];
    const auto room = examples_ - static_cast<int64_t>(places_[kind].size());
    const auto there = static_cast<int64_t>(later.places_[kind].size());
    places_[kind].insert(places_[kind].end(), later.places_[kind].begin(),
                         later.places_[kind].begin() + std::clamp<int64_t>(room, 0, there));
  }
}

nlohmann::json InputFaults::to_json() const {
  nlohmann::json json = nlohmann::json::object();
  for (size_t kind = 0; kind < kFaultKinds; ++kind) {
    nlohmann::json places = nlohmann::json::array();
    for (const FaultPlace& place : places_[kind]) {
      places.push_back({{"path", place.path}, {"line", place.line}, {"what", place.what}});
    }
    json[kNames[kind]] = {{"count", counts_[kind]}, {"places", std::move(places)}};
  }
  return json;
}

InputFaults InputFaults::from_json(const nlohmann::json& json, int64_t examples) {
  InputFaults faults(examples);
  try {
    for (size_t kind = 0; kind < kFaultKinds; ++kind) {
      const nlohmann::json& record = json.at(kNames[kind]);
      faults.counts_[kind] = record.at("count").get<int64_t>();
      if (faults.counts_[kind] < 0) throw DataError("a count is negative");
      for (const nlohmann::json& place : record.at("places")) {
        if (!faults.wants_place(static_cast<FaultKind>(kind))) break;
        faults.places_[kind].push_back({place.at("path").get<std::string>(),
                                        place.at("line").get<int64_t>(),
                                        place.at("what").get<std::string>()});
      }
    }
  } catch (const std::exception& error) {
    throw DataError(
        fmt::format("the record of input faults cannot be read: {}; build the piece "
                    "again",
                    error.what()));
  }
  return faults;
}

}  // namespace espalier
