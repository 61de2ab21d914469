// SPDX-License-Identifier: Apache-2.0
// The processes that build or verify together, whatever carries their words: this room knows no
// MPI.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace espalier {

/// Every function is called by all members in the same order.
class Team {
 public:
  virtual ~Team() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  bool leads() const { return rank() == 0; }

  /// Runs `action` on every member. If it threw on any, all throw the error of the first such one.
  /// What was written to files before is seen by all behind it.
  virtual void together(const std::function<void()>& action) = 0;

  /// The text of member 0, for all.
  virtual std::string from_first(const std::string& text) = 0;

  /// The texts of all members, by rank, for all.
  virtual std::vector<std::string> from_all(const std::string& text) = 0;
};

/// A team of one.
class Alone : public Team {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void together(const std::function<void()>& action) override { action(); }
  std::string from_first(const std::string& text) override { return text; }
  std::vector<std::string> from_all(const std::string& text) override { return {text}; }
};

}  // namespace espalier
