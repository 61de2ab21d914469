// SPDX-License-Identifier: Apache-2.0
// espalier checkpoint diff A B: how much the tensors of two checkpoints differ.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "checkpoint/tensor_file.hpp"
#include "commands/checkpoint_place.hpp"
#include "commands/checkpoint_verbs.hpp"
#include "commands/spmd_context.hpp"
#include "commands/tensor_difference.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace espalier {
namespace {

struct DiffRequest {
  std::string first, second;
  int64_t most = 20;
  double tolerance = 0.0;
};

/// The state files of one checkpoint, and which of them holds a dataset.
struct OpenCheckpoint {
  std::string path;
  std::vector<std::unique_ptr<TensorFileReader>> files;
  std::map<std::string, TensorFileReader*> owner;
  std::map<std::string, std::string> attributes;  // of the files themselves

  std::string format() const {
    const auto found = attributes.find("format");
    return found == attributes.end() ? "none" : found->second;
  }
};

OpenCheckpoint open_checkpoint(const std::string& path) {
  const CheckpointPlace place = agree_on_places(path, Choose::newest).front();
  if (!place.entry.fault.empty())
    throw DataError(fmt::format("{}: is damaged ({}); see espalier checkpoint verify", place.path,
                                place.entry.fault));
  OpenCheckpoint open;
  open.path = place.path;
  for (const std::string& file : place.files) {
    open.files.push_back(std::make_unique<TensorFileReader>(file, &mpi_session().world()));
    TensorFileReader& reader = *open.files.back();
    for (const auto& [name, ignored] : reader.datasets()) open.owner[name] = &reader;
    for (const auto& [name, value] : reader.attributes("")) open.attributes[name] = value;
    // Which file of how many: the same state may stand in any number of files.
    for (const char* name : {"file", "files"}) open.attributes.erase(name);
  }
  return open;
}

struct NamedDifference {
  std::string name;
  TensorDifference difference;
};

struct Outcome {
  std::vector<NamedDifference> tensors;
  std::vector<std::string> unlike;  // on one side alone, or of other types and shapes
  int64_t left_out = 0;             // on one side alone, where the formats differ
};

std::string describe(const DatasetInfo& d) {
  return fmt::format("{} {}", stored_type_name(d.type), shape_text(d.shape));
}

Outcome compare_all(OpenCheckpoint& a, OpenCheckpoint& b) {
  const Comm& world = mpi_session().world();
  Outcome out;
  const bool is_same_format = a.format() == b.format();
  const auto note_single = [&](const std::string& name, const OpenCheckpoint& side) {
    if (is_same_format)
      out.unlike.push_back(fmt::format("{}: only in {}", name, side.path));
    else
      ++out.left_out;
  };
  for (const auto& [name, ignored] : b.owner)
    if (a.owner.count(name) == 0) note_single(name, b);
  int64_t number = 0;
  for (const auto& [name, file] : a.owner) {
    const auto other = b.owner.find(name);
    if (other == b.owner.end()) {
      note_single(name, a);
      continue;
    }
    const DatasetInfo &left = file->info(name), &right = other->second->info(name);
    if (left.type != right.type || left.shape != right.shape) {
      out.unlike.push_back(fmt::format("{}: {} against {}", name, describe(left), describe(right)));
      continue;
    }
    out.tensors.push_back(
        {name, compare_stored({*file, *other->second, nullptr}, name, &world, number++)});
  }
  for (NamedDifference& t : out.tensors) t.difference = add_over_ranks(t.difference, world);
  return out;
}

std::vector<std::string> attribute_changes(const OpenCheckpoint& a, const OpenCheckpoint& b) {
  std::vector<std::string> changes;
  const auto value = [](const OpenCheckpoint& c, const std::string& name) {
    const auto found = c.attributes.find(name);
    return found == c.attributes.end() ? std::string("absent") : found->second;
  };
  std::map<std::string, std::string> names = a.attributes;
  names.insert(b.attributes.begin(), b.attributes.end());
  for (const auto& [name, ignored] : names)
    if (value(a, name) != value(b, name))
      changes.push_back(fmt::format("@{}: {} against {}", name, value(a, name), value(b, name)));
  return changes;
}

void print_tensors(std::vector<NamedDifference> tensors, int64_t most) {
  tensors.erase(std::remove_if(tensors.begin(), tensors.end(),
                               [](const auto& t) { return t.difference.unequal == 0; }),
                tensors.end());
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& x, const auto& y) {
    return x.difference.relative() > y.difference.relative();
  });
  if (tensors.empty()) return;
  info("  {:<56}  {:>12}  {:>10}  {:>10}  {:>10}  {:>10}", "tensor", "differ", "largest",
       "relative", "norm", "over norm");
  for (size_t i = 0; i < tensors.size() && static_cast<int64_t>(i) < most; ++i) {
    const TensorDifference& d = tensors[i].difference;
    info("  {:<56}  {:>12}  {:>10.3e}  {:>10.3e}  {:>10.3e}  {:>10.3e}", tensors[i].name, d.unequal,
         d.largest, d.largest_relative, d.norm(), d.relative());
  }
  if (static_cast<int64_t>(tensors.size()) > most)
    info("  and {} more; --most {} shows all", static_cast<int64_t>(tensors.size()) - most,
         tensors.size());
}

int diff(const DiffRequest& request) {
  OpenCheckpoint a = open_checkpoint(request.first), b = open_checkpoint(request.second);
  const Outcome outcome = compare_all(a, b);
  if (outcome.tensors.empty() && outcome.unlike.empty())
    throw DataError(
        outcome.left_out == 0
            ? a.path + ": holds no tensors; is it a checkpoint?"
            : fmt::format("{} and {} have no tensor in common; name two checkpoints, or "
                          "one and a model.h5",
                          a.path, b.path));
  std::vector<std::string> changes;
  if (a.format() == b.format())
    changes = attribute_changes(a, b);
  else
    info(
        "  different formats ({} and {}): attributes and the {} {} that only one side has are left "
        "out",
        a.format(), b.format(), outcome.left_out, outcome.left_out == 1 ? "dataset" : "datasets");
  for (const std::string& change : changes) info("  {}", change);
  for (const std::string& line : outcome.unlike) info("  {}", line);
  print_tensors(outcome.tensors, request.most);
  double worst = 0.0;
  int64_t unequal = 0, size = 0, differing = 0;
  for (const NamedDifference& t : outcome.tensors) {
    worst = std::max(worst, t.difference.relative());
    unequal += t.difference.unequal;
    size += t.difference.size;
    differing += t.difference.unequal > 0 ? 1 : 0;
  }
  const bool is_same =
      outcome.unlike.empty() &&
      (request.tolerance > 0.0 ? worst <= request.tolerance : unequal == 0 && changes.empty());
  info(
      "{} of {} tensors and {} of {} elements differ; largest {:.3e} of a tensor's norm, {} "
      "allowed: {}",
      differing, outcome.tensors.size(), unequal, size, worst, request.tolerance,
      is_same ? "the same" : "DIFFERENT");
  return static_cast<int>(is_same ? ExitCode::success : ExitCode::numerical);
}

std::string check_tolerance(std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool is_right = end != text.c_str() && *end == '\0' && std::isfinite(value) && value >= 0.0;
  return is_right ? std::string() : fmt::format("{} is not a finite number of at least 0", text);
}

}  // namespace

void add_checkpoint_diff(CLI::App& verb, Action& action) {
  const auto r = std::make_shared<DiffRequest>();
  CLI::App* diff_verb =
      verb.add_subcommand("diff", "Tensor by tensor; exit code 0: the same, 5: different");
  diff_verb->add_option("A", r->first, "A run (its newest), the folder of a checkpoint, or a file")
      ->required();
  diff_verb->add_option("B", r->second, "Another")->required();
  diff_verb->add_option("--most", r->most, "Most tensors that are shown (default 20)")
      ->check(at_least(1));
  diff_verb
      ->add_option("--tolerance", r->tolerance,
                   "Largest norm of a tensor's difference over its norm (default 0: every bit)")
      ->check(CLI::Validator(check_tolerance, "at least 0", ""));
  diff_verb->callback([r, &action] { action = [r] { return diff(*r); }; });
}

}  // namespace espalier
