// SPDX-License-Identifier: Apache-2.0
// Private to the deck room: a corpus deck on its way to a CorpusConfig.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "deck/corpus_deck.hpp"
#include "deck/toml_text.hpp"

namespace espalier {

constexpr int64_t kNoSource = -1;

/// Knows where each key stands and whether its value is sound. A key of a source is named with the
/// source's number, any other with kNoSource.
class CorpusDraft {
 public:
  explicit CorpusDraft(std::string file);

  bool is_explicit(const std::string& name, int64_t source = kNoSource) const;
  bool is_sound(const std::string& name, int64_t source = kNoSource) const;
  void set_place(const std::string& name, int64_t source, const Place& place);
  void set_unsound(const std::string& name, int64_t source);
  void set_source_place(const Place& place) { source_places_.push_back(place); }

  /// About a key, with its value and its place if it has one.
  void fault(const std::string& name, int64_t source, const std::string& rule,
             const std::string& suggestion);
  void warn(const std::string& name, int64_t source, const std::string& rule,
            const std::string& suggestion);
  void missing(const std::string& name, int64_t source, const std::string& why,
               const std::string& suggestion);
  void fault_at(const Place& place, const std::string& key, const std::string& value,
                const std::string& rule, const std::string& suggestion);
  const std::string& file() const { return file_; }

  CorpusConfig config;
  std::vector<Fault> faults, warnings;

 private:
  Fault about(const std::string& name, int64_t source) const;
  std::string file_;
  std::vector<Place> source_places_;  // of the [[source]] headers
  std::map<std::pair<int64_t, std::string>, Place> places_;
  std::set<std::pair<int64_t, std::string>> unsound_;
};

/// Rules across keys.
void check_corpus(CorpusDraft& draft);

}  // namespace espalier
