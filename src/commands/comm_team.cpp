// SPDX-License-Identifier: Apache-2.0
// The team of espalier-spmd: all ranks.
#include "commands/corpus_verbs.hpp"
#include "commands/spmd_context.hpp"
#include "grid/agreement.hpp"

namespace espalier {
namespace {

class CommTeam final : public Team {
 public:
  explicit CommTeam(const Comm& world) : world_(world) {}
  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  void together(const std::function<void()>& action) override { run_agreed(world_, action); }
  std::string from_first(const std::string& text) override {
    return broadcast_text(world_, text, 0);
  }
  std::vector<std::string> from_all(const std::string& text) override {
    std::vector<std::string> texts;
    for (int rank = 0; rank < size(); ++rank) texts.push_back(broadcast_text(world_, text, rank));
    return texts;
  }

 private:
  const Comm& world_;
};

}  // namespace

std::unique_ptr<Team> make_team() {
  return std::make_unique<CommTeam>(mpi_session().world());
}

}  // namespace espalier
