// SPDX-License-Identifier: Apache-2.0
// What was wrong in the inputs: counted by kind, with the first places.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace espalier {

enum class FaultKind {
  broken_utf8,     // documents with sequences that are no character
  bad_json,        // lines that are no JSON object
  missing_field,   // objects without the field, or with one that is no string
  long_document,   // lines and documents above the limit
  empty_document,  // nothing but blanks in it (always skipped)
  empty_file,      // files without a byte (always skipped)
  damaged_file     // truncated or damaged compression
};
constexpr int kFaultKinds = 7;
const char* fault_name(FaultKind kind);  ///< "broken_utf8"

struct FaultPlace {
  std::string path;
  int64_t line = 0;  // 1-based; 0: the file as a whole
  std::string what;  // one line, for people
};

/// Counts by kind and the first `examples` places of each. Not thread-safe.
/// Paths and texts are made printable (valid UTF-8) by those who note them.
class InputFaults {
 public:
  explicit InputFaults(int64_t examples = 5);
  void note(FaultKind kind, FaultPlace place, int64_t count = 1);
  int64_t count(FaultKind kind) const;
  const std::vector<FaultPlace>& places(FaultKind kind) const;
  /// Is there room for another place of this kind? Else it need not be worked out.
  bool wants_place(FaultKind kind) const;
  /// Adds those of inputs that come behind these.
  void append(const InputFaults& later);
  nlohmann::json to_json() const;
  /// Errors    DataError if the JSON is not what to_json gives
  static InputFaults from_json(const nlohmann::json& json, int64_t examples);

 private:
  int64_t examples_;
  std::array<int64_t, kFaultKinds> counts_{};
  std::array<std::vector<FaultPlace>, kFaultKinds> places_;
};

}  // namespace espalier
