// SPDX-License-Identifier: Apache-2.0
// Objects of tokenizer files: every key is either read or refused by name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

namespace espalier {

/// A JSON object and where it stands, such as "tokenizer.json: model".
class JsonObject {
 public:
  /// Errors    DataError if it is no object; here and below
  JsonObject(const nlohmann::json& value, std::string where);

  const std::string& where() const { return where_; }
  [[noreturn]] void fail(const std::string& what) const;

  /// Throws if there is a key that is none of these.
  void allow_only(std::initializer_list<const char*> keys) const;

  bool has(const char* key) const;  ///< there, and not null
  const nlohmann::json& at(const char* key) const;
  JsonObject object(const char* key) const;
  const nlohmann::json& array(const char* key) const;

  std::string text(const char* key) const;
  std::string text(const char* key, const std::string& otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  int64_t count(const char* key) const;

 private:
  const nlohmann::json& value_;
  std::string where_;
};

/// Errors    DataError, begun with `where`
nlohmann::json parse_json(const std::string& text, const std::string& where);

}  // namespace espalier
