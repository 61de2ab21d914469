// SPDX-License-Identifier: Apache-2.0
// Writing and reading manifest.json. The reader is strict: what it does not know it refuses, since
// a manifest decides which checkpoint a run goes on from.
#include "checkpoint/manifest.hpp"

#include <xxhash.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.hpp"

namespace espalier {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "espalier checkpoint";
constexpr int64_t kFormatVersion = 1;
constexpr int64_t kLargestCount = int64_t{1} << 60;  // of bytes, tokens, steps
constexpr int64_t kMostRanks = int64_t{1} << 31;
constexpr size_t kMostItems = 1 << 20;  // files, hosts
constexpr size_t kLongestName = 255;    // of a file: what file systems take
constexpr int kDeepest = 3;             // the file, its list of files, one of them
constexpr const char* kTailStart = ",\n \"checksum\": \"";
constexpr const char* kTailEnd = "\"\n}\n";
constexpr size_t kDigits = 16;

// Everything before the last line. In JSON a text cannot hold a line break, so that nothing else
// looks like this line.
std::string hash_text(const std::string& text, size_t bytes) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), bytes));
}

size_t tail_bytes() {
  return std::char_traits<char>::length(kTailStart) + kDigits +
         std::char_traits<char>::length(kTailEnd);
}

/// Why a file name cannot be one of a checkpoint's files; empty if it can.
std::string name_fault(const std::string& name) {
  if (name.empty() || name.size() > kLongestName) return "has no usable length";
  if (name.find('/') != std::string::npos) return "leaves the folder";
  if (name[0] == '.') return "begins with a dot";
  for (const char c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return "holds a control character";
  return "";
}

bool is_digest(const std::string& text) {
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Json real_json(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

/// Reads values out of one object by key, and knows at the end which keys nobody asked for.
class Reader {
 public:
  Reader(const Json& object, std::string path, std::string prefix)
      : object_(object), path_(std::move(path)), prefix_(std::move(prefix)) {
    if (!object.is_object()) fail("", "is not an object");
  }

  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    throw DataError(fmt::format("{}: {}{} {}; the manifest is damaged or not Espalier's", path_,
                                prefix_, key, what));
  }
  const Json& value(const char* key) {
    known_.insert(key);
    const auto found = object_.find(key);
    if (found == object_.end()) fail(key, "is missing");
    return *found;
  }
  int64_t integer(const char* key, int64_t least, int64_t most) {
    return as_integer(value(key), key, least, most);
  }
  int64_t as_integer(const Json& v, const std::string& key, int64_t least, int64_t most) const {
    if (!v.is_number_integer()) fail(key, "is not an integer");
    const bool is_huge =
        v.is_number_unsigned() &&
        v.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (is_huge || v.get<int64_t>() < least || v.get<int64_t>() > most)
      fail(key, fmt::format("= {} is not within {} and {}", v.dump(), least, most));
    return v.get<int64_t>();
  }
  double real(const char* key) {
    const Json& v = value(key);
    if (v.is_number()) return v.get<double>();
    if (v == "nan") return std::nan("");
    if (v == "inf") return HUGE_VAL;
    if (v == "-inf") return -HUGE_VAL;
    fail(key, "is not a number");
  }
  bool boolean(const char* key) {
    const Json& v = value(key);
    if (!v.is_boolean()) fail(key, "is neither true nor false");
    return v.get<bool>();
  }
  /// Empty where the key is missing.
  std::string optional_text(const char* key) {
    return object_.contains(key) ? text(key) : std::string();
  }
  std::string text(const char* key) { return as_text(value(key), key); }
  std::string as_text(const Json& v, const std::string& key) const {
    if (!v.is_string()) fail(key, "is not a text");
    return v.get<std::string>();
  }
  const Json& list(const char* key) {
    const Json& v = value(key);
    if (!v.is_array()) fail(key, "is not a list");
    if (v.size() > kMostItems) fail(key, fmt::format("has {} items", v.size()));
    return v;
  }
  void refuse_the_rest() const {
    for (const auto& item : object_.items())
      if (known_.count(item.key()) == 0) fail(item.key(), "is not a key of this format");
  }

 private:
  const Json& object_;
  std::string path_, prefix_;
  std::set<std::string> known_;
};

/// Parses, refusing nesting and repeated keys, which the JSON library would accept.
Json parse_flat(const std::string& text, const std::string& path) {
  std::vector<std::set<std::string>> keys(kDeepest + 2);
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDeepest)
      throw DataError(path + ": is nested too deep; the manifest is damaged or not Espalier's");
    if (event == Json::parse_event_t::object_start) keys[static_cast<size_t>(depth) + 1].clear();
    if (event == Json::parse_event_t::key &&
        !keys[static_cast<size_t>(depth)].insert(value.get<std::string>()).second)
      throw DataError(fmt::format("{}: {} stands twice; the manifest is damaged or not Espalier's",
                                  path, value.get<std::string>()));
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const nlohmann::json::exception& e) {
    throw DataError(fmt::format("{}: is not JSON ({}); the manifest is damaged or not Espalier's",
                                path, e.what()));
  }
}

void require_checksum(const std::string& text, const std::string& path) {
  const std::string expected = manifest_checksum(text);
  if (expected.empty())
    throw DataError(path +
                    ": does not end with its checksum; it is cut off, or no checkpoint's manifest");
  const std::string found = hash_text(text, text.size() - tail_bytes());
  if (found != expected)
    throw DataError(fmt::format("{}: its checksum is {}, but it says {}; the manifest is damaged",
                                path, found, expected));
}

void read_files(Reader& in, const std::string& path, CheckpointManifest& m) {
  std::set<std::string> names;
  int64_t sum = 0;
  for (const Json& item : in.list("files")) {
    Reader file(item, path, fmt::format("files[{}].", m.files.size()));
    StateFileEntry entry{file.text("name"), file.integer("bytes", 0, kLargestCount)};
    file.refuse_the_rest();
    const std::string fault = name_fault(entry.name);
    if (!fault.empty()) file.fail("name", fault);
    if (!names.insert(entry.name).second) file.fail("name", "stands twice");
    sum += entry.bytes;
    if (sum > kLargestCount) file.fail("bytes", "makes the sum absurd");
    m.files.push_back(std::move(entry));
  }
  if (m.files.empty()) in.fail("files", "is empty");
}

void read_grid(Reader& in, const std::string& path, CheckpointManifest& m) {
  const Json& grid = in.value("grid");
  Reader axes(grid, path, "grid.");
  for (const auto& item : grid.items())
    m.grid.emplace_back(item.key(), axes.as_integer(item.value(), item.key(), 1, kMostRanks));
}

}  // namespace

int64_t CheckpointManifest::state_bytes() const {
  int64_t sum = 0;
  for (const StateFileEntry& file : files) sum += file.bytes;
  return sum;
}

std::string manifest_checksum(const std::string& text) {
  if (text.size() < tail_bytes()) return "";
  const std::string tail = text.substr(text.size() - tail_bytes());
  const size_t start = std::char_traits<char>::length(kTailStart);
  const std::string digits = tail.substr(start, kDigits);
  const bool is_tail = tail.compare(0, start, kTailStart) == 0 &&
                       tail.compare(start + kDigits, std::string::npos, kTailEnd) == 0 &&
                       is_digest(digits);
  return is_tail ? digits : "";
}

std::string manifest_json(const CheckpointManifest& m) {
  Json files = Json::array(), grid = Json::object();
  ESPALIER_REQUIRE(!m.files.empty(), "a checkpoint without files at step {}", m.step);
  for (const StateFileEntry& file : m.files) {
    ESPALIER_REQUIRE(name_fault(file.name).empty(), "the file name {} {}", file.name,
                     name_fault(file.name));
    files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  ESPALIER_REQUIRE(is_digest(m.state_digest), "the digest \"{}\" at step {}", m.state_digest,
                   m.step);
  for (const auto& [axis, extent] : m.grid) grid[axis] = extent;
  Json out = {{"format", kFormat},
              {"format_version", kFormatVersion},
              {"step", m.step},
              {"consumed_tokens", m.consumed_tokens},
              {"loss", real_json(m.loss)},
              {"healthy", m.is_healthy},
              {"files", std::move(files)},
              {"state_digest", m.state_digest},
              {"ranks", m.ranks},
              {"grid", std::move(grid)},
              {"hosts", m.hosts},
              {"build", m.build},
              {"saved", m.saved},
              {"save_seconds", m.save_seconds},
              {"deck", m.deck}};
  if (!m.mixture.empty()) out["mixture"] = m.mixture;
  // A path or host name need not be UTF-8; what is not is replaced, or the text were no JSON.
  std::string text = out.dump(1, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2);  // the line break and the brace, which follow the checksum
  const std::string digits = hash_text(text, text.size());
  text += kTailStart + digits + kTailEnd;
  ESPALIER_REQUIRE(static_cast<int64_t>(text.size()) <= kLargestManifest,
                   "a manifest of {} bytes at step {}", text.size(), m.step);
  return text;
}

CheckpointManifest parse_manifest(const std::string& text, const std::string& path) {
  if (static_cast<int64_t>(text.size()) > kLargestManifest)
    throw DataError(fmt::format("{}: has {} bytes; no manifest is that long", path, text.size()));
  require_checksum(text, path);
  const Json json = parse_flat(text, path);
  Reader in(json, path, "");
  if (in.text("format") != kFormat)
    in.fail("format", fmt::format("= {} is not \"{}\"", in.value("format").dump(), kFormat));
  const int64_t version = in.integer("format_version", 1, kLargestCount);
  if (version != kFormatVersion)
    throw DataError(
        fmt::format("{}: has format version {}, this program reads {}; use the program "
                    "that wrote it",
                    path, version, kFormatVersion));
  CheckpointManifest m;
  m.step = in.integer("step", 0, kLargestCount);
  m.consumed_tokens = in.integer("consumed_tokens", 0, kLargestCount);
  m.loss = in.real("loss");
  m.is_healthy = in.boolean("healthy");
  read_files(in, path, m);
  m.state_digest = in.text("state_digest");
  if (!is_digest(m.state_digest)) in.fail("state_digest", "is not 16 hexadecimal digits");
  m.ranks = in.integer("ranks", 1, kMostRanks);
  read_grid(in, path, m);
  for (const Json& host : in.list("hosts")) m.hosts.push_back(in.as_text(host, "hosts"));
  m.build = in.text("build");
  m.saved = in.text("saved");
  m.save_seconds = in.real("save_seconds");
  m.deck = in.text("deck");
  m.mixture = in.optional_text("mixture");
  in.text("checksum");
  in.refuse_the_rest();
  return m;
}

}  // namespace espalier
