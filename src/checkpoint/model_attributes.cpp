// SPDX-License-Identifier: Apache-2.0
// Reads and writes the section model by the deck's own table of keys: a new key needs no line here.
#include "checkpoint/model_attributes.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.hpp"
#include "deck/key_table.hpp"

namespace espalier {

namespace {

constexpr const char* kSection = "model";

[[noreturn]] void refuse(const TensorFileReader& file, const std::string& group, const Key& key,
                         const std::string& value, const std::string& rule) {
  throw DataError(
      fmt::format("{}: {}, attribute {} = {}: {}", file.path(), group, key.name, value, rule));
}

void check_range(const TensorFileReader& file, const std::string& group, const Key& key,
                 double value) {
  if (!key.range.contains(value))
    refuse(file, group, key, fmt::format("{}", value), "must be " + key.range.text());
}

KeyValue read_value(const TensorFileReader& file, const std::string& group, const Key& key) {
  switch (key.type) {
    case KeyType::boolean: {
      const int64_t value = file.integer_attribute(group, key.name);
      if (value != 0 && value != 1)
        refuse(file, group, key, fmt::format("{}", value), "must be 0 or 1");
      return value == 1;
    }
    case KeyType::integer: {
      const int64_t value = file.integer_attribute(group, key.name);
      check_range(file, group, key, static_cast<double>(value));
      return value;
    }
    case KeyType::real: {
      const double value = file.real_attribute(group, key.name);
      check_range(file, group, key, value);
      return value;
    }
    case KeyType::choice: {
      const std::string word = file.text_attribute(group, key.name);
      if (std::find(key.choices.begin(), key.choices.end(), word) == key.choices.end())
        refuse(file, group, key, word,
               fmt::format("must be one of {}", fmt::join(key.choices, ", ")));
      return word;
    }
    case KeyType::text: return file.text_attribute(group, key.name);
    case KeyType::text_list:
    case KeyType::integer_list:
    case KeyType::range_list: break;
  }
  throw InternalError("the section model has no lists");
}

}  // namespace

void write_model_attributes(TensorFileWriter& file, const std::string& group,
                            const Config& config) {
  file.create_group(group);
  for (const Key& key : key_table()) {
    if (key.section != kSection) continue;
    const KeyValue value = key.get(config);
    if (const bool* flag = std::get_if<bool>(&value))
      file.set_attribute(group, key.name, int64_t{*flag});
    else if (const int64_t* integer = std::get_if<int64_t>(&value))
      file.set_attribute(group, key.name, *integer);
    else if (const double* real = std::get_if<double>(&value))
      file.set_attribute(group, key.name, *real);
    else
      file.set_attribute(group, key.name, std::get<std::string>(value));
  }
}

void read_model_attributes(const TensorFileReader& file, const std::string& group, Config& config) {
  for (const Key& key : key_table())
    if (key.section == kSection) key.set(config, read_value(file, group, key));
}

}  // namespace espalier
