// SPDX-License-Identifier: Apache-2.0
// Private to the deck room: a deck on its way to a Config. Knows of every key where its value came
// from, where it stands, and whether it is sound, so that one fault does not breed others.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "deck/deck.hpp"
#include "deck/key_table.hpp"
#include "deck/toml_text.hpp"

namespace espalier {

enum class Origin { fallback, preset, deck, command_line, automatic };

struct KeyState {
  Origin origin = Origin::fallback;
  Place place;
  bool is_sound = true;  // false: missing, ill-typed, out of range, or derived from such a key
};

using KeyNames = std::initializer_list<const char*>;

/// Keys are named in full, "section.key"; a name that is not in the table is an InternalError.
class Draft {
 public:
  explicit Draft(std::string file);

  const std::string& file() const { return file_; }
  KeyState& state(const std::string& name);
  const KeyState& state(const std::string& name) const;

  bool are_sound(KeyNames names) const;
  bool is_explicit(const std::string& name) const;  ///< in the deck or on the command line
  bool names_every_key() const;                     ///< as an effective deck does
  bool is_default(const std::string& name) const;
  KeyValue value(const std::string& name) const;
  std::string value_text(const std::string& name) const;  ///< as TOML, shortened for messages
  std::string equation(const std::string& name) const;    ///< "num_heads = 8", for messages

  void set(const std::string& name, const KeyValue& value, Origin origin);
  /// A value that follows from `sources`: unsound if one of them is.
  void set_automatic(const std::string& name, const KeyValue& value, KeyNames sources);

  /// Faults and warnings about key = value, placed at the first of `name` and `others` that the
  /// user wrote.
  void fault(const std::string& name, const std::string& rule, const std::string& suggestion,
             KeyNames others = {});
  void warn(const std::string& name, const std::string& rule, const std::string& suggestion,
            KeyNames others = {});
  void missing(const std::string& name, const std::string& why, const std::string& suggestion,
               KeyNames others = {});
  /// Faults that are about no known key.
  void fault_at(const Place& place, const std::string& key, const std::string& value,
                const std::string& rule, const std::string& suggestion);

  Config config;
  std::vector<Fault> faults;
  std::vector<Fault> warnings;

 private:
  Fault about(const std::string& name, KeyNames others) const;
  std::string file_;
  std::vector<KeyState> states_;
};

/// The text of a deck's file, or what is wrong with it.
struct FileText {
  std::string text;
  std::string error;
};
FileText read_deck_file(const std::string& path);
Fault unreadable_deck(const std::string& path, const std::string& error);

/// What has a place in the file, in its order; then the rest as found.
void sort_by_place(std::vector<Fault>& faults);

/// Parses text and overrides into the draft: types, ranges, unknown names, presets, missing keys.
void read_into(Draft& draft, const std::string& text, const std::vector<std::string>& overrides);

/// Fills what the deck leaves to the program.
void fill_automatic_values(Draft& draft);

// Rules across keys, each with the nearest legal values.
void check_model(Draft& draft);
void check_grid(Draft& draft, std::optional<int64_t> ranks);
void check_parallel(Draft& draft);
void check_pipeline(Draft& draft);
void check_training(Draft& draft);
void check_device(Draft& draft);
void check_checkpoint(Draft& draft);
void check_data(Draft& draft);
void warn_without_effect(Draft& draft);

}  // namespace espalier
