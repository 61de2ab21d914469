// SPDX-License-Identifier: Apache-2.0
// Escaping and file reading for the report.
#include "report/text.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/error.hpp"

namespace espalier {

std::string clean_text(const std::string& bytes) {
  // The JSON library's own repair of broken UTF-8, there and back.
  using Json = nlohmann::json;
  const std::string repaired = Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  for (const char c : Json::parse(repaired).get<std::string>()) {
    const auto u = static_cast<unsigned char>(c);
    if ((u < 0x20 && c != '\n' && c != '\t') || u == 0x7F)
      out += "\xEF\xBF\xBD";
    else
      out += c;
  }
  return out;
}

std::string escape_html(const std::string& bytes) {
  std::string out;
  for (const char c : clean_text(bytes)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string script_json(const nlohmann::ordered_json& value) {
  using Json = nlohmann::ordered_json;
  std::string out;
  // In JSON these three stand only inside strings, where an escape means the same.
  for (const char c : value.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    switch (c) {
      case '<': out += "\\u003c"; break;
      case '>': out += "\\u003e"; break;
      case '&': out += "\\u0026"; break;
      default: out += c;
    }
  }
  return out;
}

std::optional<std::string> read_if_there(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad())
    throw DataError(path + " cannot be read; check its permissions");
  return text;
}

}  // namespace espalier
