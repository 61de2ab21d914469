// SPDX-License-Identifier: Apache-2.0
// Checked reading of JSON objects.
#include "corpus/tokenizer/json_reader.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace espalier {

JsonObject::JsonObject(const nlohmann::json& value, std::string where)
    : value_(value), where_(std::move(where)) {
  if (!value_.is_object()) fail("is no object");
}

void JsonObject::fail(const std::string& what) const {
  throw DataError(fmt::format("{} {}", where_, what));
}

void JsonObject::allow_only(std::initializer_list<const char*> keys) const {
  for (const auto& item : value_.items()) {
    const bool known =
        std::any_of(keys.begin(), keys.end(), [&](const char* key) { return item.key() == key; });
    if (!known) {
      fail(
          fmt::format("has the key {}, which this program does not know; without it ids would "
                      "differ from those of the file's author",
                      item.key().substr(0, 80)));
    }
  }
}

bool JsonObject::has(const char* key) const {
  const auto found = value_.find(key);
  return found != value_.end() && !found->is_null();
}

const nlohmann::json& JsonObject::at(const char* key) const {
  const auto found = value_.find(key);
  if (found == value_.end()) fail(fmt::format("has no {}", key));
  return *found;
}

JsonObject JsonObject::object(const char* key) const {
  return {at(key), fmt::format("{}.{}", where_, key)};
}

const nlohmann::json& JsonObject::array(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_array()) fail(fmt::format("has a {} that is no list", key));
  return value;
}

std::string JsonObject::text(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_string()) fail(fmt::format("has a {} that is no string", key));
  return value.get<std::string>();
}

std::string JsonObject::text(const char* key, const std::string& otherwise) const {
  return has(key) ? text(key) : otherwise;
}

bool JsonObject::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const nlohmann::json& value = at(key);
  if (!value.is_boolean()) fail(fmt::format("has a {} that is neither true nor false", key));
  return value.get<bool>();
}

int64_t JsonObject::count(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{1} << 62) {
    fail(fmt::format("has a {} that is no count", key));
  }
  return value.get<int64_t>();
}

nlohmann::json parse_json(const std::string& text, const std::string& where) {
  nlohmann::json value;
  try {
    value = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("{}: is not valid JSON: {}", where, error.what()));
  }
  return value;
}

}  // namespace espalier
