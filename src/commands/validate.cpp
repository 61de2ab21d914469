// SPDX-License-Identifier: Apache-2.0
// espalier validate DECK: the deck's first steps on one rank and on other layouts, compared.
#include <fmt/chrono.h>

#include <ctime>
#include <filesystem>
#include <memory>

#include "commands/overrides.hpp"
#include "commands/run_folder.hpp"
#include "commands/spmd_program.hpp"
#include "commands/validate_layout.hpp"
#include "commands/validate_measure.hpp"
#include "commands/validate_process.hpp"
#include "commands/verbs.hpp"
#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "deck/toml_text.hpp"

namespace espalier {
namespace {

namespace fs = std::filesystem;

struct ValidateRequest {
  std::string deck, layouts, directory, launcher;
  std::vector<std::string> overrides;
  int64_t steps = 5;
  std::optional<int64_t> ranks;
  std::optional<double> tolerance;
  double timeout_s = 1800.0;
  bool all_options = false, overwrite = false;
};

constexpr const char* kReference = "reference";
constexpr const char* kResults[] = {"validate.json", "validate.html", "initial.h5"};
constexpr size_t kShownLines = 6;  // of the log of a failed run

std::string spmd_program() {
  const std::string beside = spmd_beside();
  return beside.empty() ? kSpmdProgram : beside;
}

/// The layouts that are asked for, all of them legal.
/// Errors  DeckError with every fault of every layout
std::vector<Layout> choose_layouts(const ValidateRequest& request, const Config& deck,
                                   const std::vector<std::string>& settings) {
  std::string faults;
  const auto note = [&](const Layout& layout, const std::vector<Fault>& found) {
    for (const Fault& fault : found) faults += fmt::format("{}: {}\n", layout.name(), fault.text());
  };
  note(reference_layout(), layout_faults(reference_layout(), request.deck, settings, deck));
  std::vector<Layout> layouts;
  if (request.ranks) {
    const auto options = request.all_options ? LayoutOptions::all : LayoutOptions::zero;
    for (const Layout& layout : enumerate_layouts(*request.ranks, options))
      if (layout_faults(layout, request.deck, settings, deck).empty()) layouts.push_back(layout);
    if (layouts.empty())
      faults +=
          fmt::format("--ranks: the deck allows no layout of 2 to {} ranks\n", *request.ranks);
  } else {
    layouts = parse_layouts(request.layouts);
    for (const Layout& layout : layouts)
      note(layout, layout_faults(layout, request.deck, settings, deck));
  }
  if (!faults.empty()) throw DeckError(faults + "nothing was run");
  return layouts;
}

// Refuses a folder with results, or removes them; the runs' own folders are replaced by train.
void take_folder(const std::string& folder, const std::vector<std::string>& runs, bool overwrite) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder))
    throw LaunchError(fmt::format("cannot make the folder {} ({}); choose another --directory",
                                  folder, error ? error.message() : "it is not a folder"));
  std::vector<std::string> old;
  for (const char* name : kResults) old.push_back(folder + "/" + name);
  std::vector<std::string> all = old;
  for (const std::string& run : runs) all.push_back(RunFolder{folder + "/" + run}.metrics());
  for (const std::string& file : all)
    if (!overwrite && fs::exists(file))
      throw LaunchError(fmt::format(
          "{} is there already; choose another --directory, or give --overwrite to replace it",
          file));
  for (const std::string& file : old) fs::remove(file, error);
}

class Validation {
 public:
  Validation(const ValidateRequest& request, const Config& deck, Launcher launcher,
             std::vector<std::string> settings)
      : request_(request),
        deck_(deck),
        launcher_(std::move(launcher)),
        settings_(std::move(settings)) {}

  ValidationTable run(const std::vector<Layout>& layouts, const ValidationLimits& limits);

 private:
  std::string path(const std::string& name) const { return request_.directory + "/" + name; }
  std::vector<std::string> with_settings(std::vector<std::string> program, const Layout& layout,
                                         const std::string& folder) const;
  std::string start(int64_t ranks, const std::vector<std::string>& program, const std::string& log,
                    ProcessEnd& end) const;
  ValidationRow train(const Layout& layout, const std::string& name, RunMeasure& measure) const;
  void make_reference(ValidationTable& table);
  ValidationRow one_row(const Layout& layout, const ValidationLimits& limits) const;
  void write(const ValidationTable& table) const;

  const ValidateRequest& request_;
  const Config& deck_;
  Launcher launcher_;
  std::vector<std::string> settings_;
  RunMeasure reference_;
};

std::vector<std::string> Validation::with_settings(std::vector<std::string> program,
                                                   const Layout& layout,
                                                   const std::string& folder) const {
  std::vector<std::string> all = settings_;
  for (const std::string& setting : layout_settings(layout, deck_)) all.push_back(setting);
  all.push_back("run.directory=" + toml_quote(folder));
  for (const std::string& setting : all) {
    program.emplace_back("--set");
    program.push_back(setting);
  }
  return program;
}

// Runs a program; what went wrong as text, with the end of its log, or empty.
std::string Validation::start(int64_t ranks, const std::vector<std::string>& program,
                              const std::string& log, ProcessEnd& end) const {
  end = run_process(launcher_.command(ranks, program), log, request_.timeout_s);
  std::string what;
  if (end.timed_out)
    what = fmt::format("no end after {} (--timeout), so it was ended",
                       format_duration(request_.timeout_s));
  else if (end.exit_code != 0)
    what = fmt::format("exit code {}", end.exit_code);
  if (what.empty()) return "";
  const std::string tail = last_lines(log, kShownLines);
  return tail.empty() ? what + "; its log is empty" : what + "\n" + tail;
}

// `measure` is filled if the row has no reason to fail yet.
ValidationRow Validation::train(const Layout& layout, const std::string& name,
                                RunMeasure& measure) const {
  ValidationRow row;
  row.layout = layout.name();
  row.ranks = layout.ranks();
  row.folder = path(name);
  row.log = path(name + ".log");
  std::vector<std::string> program = {spmd_program(), "train", request_.deck};
  if (request_.overwrite) program.emplace_back("--overwrite");
  ProcessEnd end;
  row.reason = start(row.ranks, with_settings(program, layout, row.folder), row.log, end);
  row.exit_code = end.exit_code;
  row.run_seconds = end.seconds;
  if (!row.reason.empty()) return row;
  try {
    measure = read_measure(RunFolder{row.folder}.metrics(), request_.steps);
  } catch (const DataError& error) {
    // MPICH's launcher may return 0 although its ranks were ended.
    row.reason = fmt::format("exit code 0, but {}", error.what());
    return row;
  }
  row.step_seconds = measure.step_seconds;
  row.peak_memory_bytes = measure.peak_memory_bytes;
  row.traffic = measure.traffic;
  return row;
}

void Validation::make_reference(ValidationTable& table) {
  table.reference = train(reference_layout(), kReference, reference_);
  table.reference.layout = "one";
  ProcessEnd end;
  end.exit_code = table.reference.exit_code;
  std::string failure = table.reference.reason, log = table.reference.log;
  if (failure.empty()) {
    log = path("initial.log");
    failure = start(1,
                    with_settings({spmd_program(), "debug", "gradients", request_.deck, "--out",
                                   path("initial.h5")},
                                  reference_layout(), path(kReference)),
                    log, end);
  }
  if (!failure.empty()) {
    const bool is_own = end.exit_code >= static_cast<int>(ExitCode::deck) &&
                        end.exit_code <= static_cast<int>(ExitCode::numerical);
    throw Error(is_own ? static_cast<ExitCode>(end.exit_code) : ExitCode::launch,
                fmt::format("the run on one rank failed, so there is nothing to compare with: {}\n"
                            "its log is {}; the launcher is \"{}\"",
                            failure, log, launcher_.form()));
  }
  table.reference.passed = true;
}

ValidationRow Validation::one_row(const Layout& layout, const ValidationLimits& limits) const {
  RunMeasure measure;
  ValidationRow row = train(layout, layout.folder(), measure);
  if (!row.reason.empty()) return row;
  const std::string compared = path(layout.folder() + ".compare.json");
  const std::string log = path(layout.folder() + ".compare.log");
  std::error_code ignored;
  fs::remove(compared, ignored);
  ProcessEnd end;
  const std::string failure = start(1,
                                    {spmd_program(), "debug", "compare", path(kReference),
                                     row.folder, "--base", path("initial.h5"), "--json", compared},
                                    log, end);
  // Differences are code 5; the limits are judged here.
  if (!failure.empty() && end.exit_code != static_cast<int>(ExitCode::numerical)) {
    row.exit_code = end.exit_code;
    row.log = log;
    row.reason = "the comparison failed: " + failure;
    return row;
  }
  try {
    row.difference = read_difference(compared, reference_, measure);
  } catch (const DataError& error) {
    row.reason = fmt::format("the comparison failed: {}", error.what());
    return row;
  }
  row.reason = judge(*row.difference, limits);
  row.passed = row.reason.empty();
  return row;
}

void Validation::write(const ValidationTable& table) const {
  write_text_file(path("validate.json"), validation_json(table));
  write_text_file(path("validate.html"), validation_page(table));
}

ValidationTable Validation::run(const std::vector<Layout>& layouts,
                                const ValidationLimits& limits) {
  ValidationTable table;
  table.deck = request_.deck;
  table.launcher = launcher_.form();
  table.compute_type = element_name(deck_.numerics.compute_type);
  table.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  table.steps = request_.steps;
  table.limits = limits;
  make_reference(table);
  info("[0/{}] one on 1 rank: {}", layouts.size(), format_duration(table.reference.run_seconds));
  for (const Layout& layout : layouts) {
    table.rows.push_back(one_row(layout, limits));
    const ValidationRow& row = table.rows.back();
    info("[{}/{}] {} on {} rank{}: {}, {}", table.rows.size(), layouts.size(), row.layout,
         row.ranks, row.ranks == 1 ? "" : "s", format_duration(row.run_seconds),
         row.passed ? "pass" : "FAIL");
    write(table);  // each time: a job that ends early leaves what it has
  }
  return table;
}

int validate(ValidateRequest request) {
  if (request.layouts.empty() == !request.ranks)
    throw DeckError(
        "say which layouts: --layouts \"tp2,dp2xtp2\", or --ranks R for all legal ones up to R");
  if (request.all_options && !request.ranks)
    throw DeckError("--all-options goes with --ranks; a list of --layouts names its own options");
  const DeckResult deck = require_deck({request.deck, request.overrides, std::nullopt});
  if (request.directory.empty())
    request.directory = "runs/" + fs::path(request.deck).stem().string() + "-validate";
  std::vector<std::string> settings = request.overrides;
  for (const std::string& setting : first_steps_settings(deck.config, request.steps))
    settings.push_back(setting);
  settings.emplace_back("monitor.progress=off");
  const ValidationLimits limits = make_limits(deck.config, request.tolerance);
  const std::vector<Layout> layouts = choose_layouts(request, deck.config, settings);
  Launcher launcher = request.launcher.empty() ? Launcher::of_site() : Launcher(request.launcher);
  std::vector<std::string> folders = {kReference};
  int64_t most = 1;
  for (const Layout& layout : layouts) {
    folders.push_back(layout.folder());
    most = std::max(most, layout.ranks());
  }
  take_folder(request.directory, folders, request.overwrite);
  info("{} layouts of up to {} ranks, {} steps each, by \"{}\"; runs and logs in {}",
       layouts.size(), most, request.steps, launcher.form(), request.directory);
  Validation validation(request, deck.config, std::move(launcher), std::move(settings));
  const ValidationTable table = validation.run(layouts, limits);
  print_line(validation_text(table));
  info("wrote {}/validate.json and validate.html", request.directory);
  return static_cast<int>(table.failures() == 0 ? ExitCode::success : ExitCode::numerical);
}

}  // namespace

void add_validate(CLI::App& app, Action& action) {
  const auto r = std::make_shared<ValidateRequest>();
  CLI::App* verb = app.add_subcommand(
      "validate", "Run the first steps on one rank and on other layouts, compare");
  verb->add_option("DECK", r->deck, "The deck (TOML)")->required();
  auto* layouts = verb->add_option("--layouts", r->layouts,
                                   "Layouts, such as \"tp2,pp2,dp2xtp2+z1+sp\" (docs/validate.md)");
  verb->add_option("--ranks", r->ranks, "All legal layouts of up to so many ranks instead")
      ->check(CLI::Range(2, 1 << 20))
      ->excludes(layouts);
  verb->add_flag("--all-options", r->all_options,
                 "With --ranks: sequence parallelism, schedules and recomputation too");
  verb->add_option("--steps", r->steps, "Steps of each run (default 5)")
      ->check(CLI::Range(1, 1 << 20));
  verb->add_option("--directory", r->directory, "Work folder (default runs/DECK-validate)");
  verb->add_option("--launcher", r->launcher,
                   "How to start programs, such as \"srun -n {ranks}\" (default ESPALIER_LAUNCHER, "
                   "srun in a Slurm job, mpiexec)");
  verb->add_option("--timeout", r->timeout_s, "Longest time of a run, seconds (default 1800)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--tolerance", r->tolerance, "Largest relative difference of a loss")
      ->check(CLI::NonNegativeNumber);
  verb->add_flag("--overwrite", r->overwrite, "Replace an earlier validation in the work folder");
  add_overrides(*verb, r->overrides);
  verb->callback([r, &action] { action = [r] { return validate(*r); }; });
}

}  // namespace espalier
