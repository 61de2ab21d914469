// SPDX-License-Identifier: Apache-2.0
// espalier checkpoint inspect: what a checkpoint says about its run, and the tree of its files.
#include <memory>

#include "checkpoint/tensor_file.hpp"
#include "commands/checkpoint_place.hpp"
#include "commands/checkpoint_verbs.hpp"
#include "commands/spmd_context.hpp"
#include "core/log.hpp"
#include "core/units.hpp"

namespace espalier {
namespace {

enum class Show { everything, deck };

// A short row of names; a large job has thousands of hosts.
std::string first_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMost; ++i)
    text += fmt::format("{}{}", i ? ", " : "", names[i]);
  if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
  return text;
}

void print_manifest(const CheckpointEntry& entry) {
  const CheckpointManifest& m = entry.manifest;
  info("checkpoint   {}", entry.path);
  if (!entry.is_whole()) info("state        DAMAGED: {}", entry.fault);
  if (m.files.empty()) return;  // it could not be read
  if (entry.is_whole())
    info("state        whole, {}verified, {}", entry.is_verified ? "" : "not ",
         m.is_healthy ? "healthy" : "UNHEALTHY (loss not finite or step skipped)");
  info("step         {}, after {} tokens, loss {:.9g}", m.step, m.consumed_tokens, m.loss);
  info("saved        {} in {}", m.saved, format_duration(m.save_seconds));
  std::string grid;
  for (const auto& [axis, extent] : m.grid) grid += fmt::format(" {} {}", axis, extent);
  info("written by   {} {} ({}) on {}", m.ranks, m.ranks == 1 ? "rank" : "ranks",
       grid.empty() ? "" : grid.substr(1), first_of(m.hosts));
  info("build        {}", m.build);
}

std::string type_text(const DatasetInfo& d) {
  if (d.type == StoredType::text) return "text";
  return fmt::format("{} {}", stored_type_name(d.type), shape_text(d.shape));
}

// Datasets come sorted by name, so that each group is one run of them.
void print_tree(const TensorFileReader& file) {
  int64_t bytes = 0;
  for (const auto& [name, d] : file.datasets()) bytes += d.bytes;
  info("{}", file.path());
  info("  {} datasets, {}", file.datasets().size(), format_bytes(static_cast<double>(bytes)));
  for (const auto& [name, value] : file.attributes("")) info("  @{} = {}", name, value);
  std::string group;
  for (const auto& [name, d] : file.datasets()) {
    const size_t slash = name.rfind('/');
    const std::string parent = slash == std::string::npos ? "" : name.substr(0, slash);
    if (parent != group) {
      group = parent;
      info("  {}/", group);
      for (const auto& [key, value] : file.attributes(group)) info("    @{} = {}", key, value);
    }
    info("    {:<48}  {:<22}  {:>10}", name.substr(slash == std::string::npos ? 0 : slash + 1),
         type_text(d), format_bytes(static_cast<double>(d.bytes)));
  }
}

int inspect(const std::string& path, Show show) {
  if (mpi_session().rank() != 0) return 0;
  for (const CheckpointPlace& place : find_places(path, Choose::newest)) {
    if (show == Show::deck) {
      info("{}", place.is_checkpoint ? place.entry.manifest.deck
                                     : TensorFileReader(path, nullptr).read_text("deck"));
      continue;
    }
    if (place.is_checkpoint) print_manifest(place.entry);
    for (const std::string& file : place.files) print_tree(TensorFileReader(file, nullptr));
  }
  return 0;
}

}  // namespace

void add_checkpoint_inspect(CLI::App& verb, Action& action) {
  const auto path = std::make_shared<std::string>();
  const auto is_deck = std::make_shared<bool>(false);
  CLI::App* inspect_verb =
      verb.add_subcommand("inspect", "Who wrote a checkpoint, and its tensors with their shapes");
  inspect_verb
      ->add_option("PATH", *path, "A run (its newest), the folder of a checkpoint, or a file")
      ->required();
  inspect_verb->add_flag("--deck", *is_deck, "Print only the deck that is stored in it");
  inspect_verb->callback([path, is_deck, &action] {
    action = [path, is_deck] { return inspect(*path, *is_deck ? Show::deck : Show::everything); };
  });
}

}  // namespace espalier
