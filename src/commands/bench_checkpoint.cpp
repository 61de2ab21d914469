// SPDX-License-Identifier: Apache-2.0
// espalier bench checkpoint: tensor files against plain MPI-IO, by the same ranks, with the same
// bytes, in the same place, in turn.
#include "commands/bench_checkpoint.hpp"

#include <unistd.h>

#include <algorithm>

#include "checkpoint/tensor_file.hpp"
#include "commands/bench_timing.hpp"
#include "commands/overrides.hpp"
#include "commands/verbs.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "grid/plain_file.hpp"

namespace espalier {

double time_together(const Comm& world, const std::function<void()>& action) {
  world.barrier();
  const double start = monotonic_seconds();
  action();
  double took = monotonic_seconds() - start;
  world.all_reduce(&took, 1, ReduceOp::max);
  return took;
}

namespace {

FileOptions options_of(const CheckpointBench& request) {
  FileOptions options;
  options.transfer = request.transfer == "automatic"     ? TransferMode::automatic
                     : request.transfer == "independent" ? TransferMode::independent
                                                         : TransferMode::collective;
  options.layout = request.layout == "chunked" ? StorageLayout::chunked : StorageLayout::contiguous;
  options.piece_bytes = static_cast<int64_t>(request.piece_mib * 1048576.0);
  options.alignment = static_cast<int64_t>(request.alignment_kib * 1024.0);
  if (!request.hints.empty()) options.mpi_info = request.hints;
  return options;
}

/// One way of moving the state, and how long it took.
struct Way {
  const char* name;
  std::function<void()> move;
  std::vector<double> seconds = {};
};

class Files {
 public:
  Files(const CheckpointBench& request, const Comm& world, BenchState& state)
      : world_(world),
        state_(state),
        options_(options_of(request)),
        plain_(request.folder + "/bench-checkpoint.bin"),
        summed_(request.folder + "/bench-checkpoint.h5"),
        bare_(request.folder + "/bench-checkpoint-unsummed.h5") {}
  ~Files() { remove(); }

  std::vector<Way> writes() {
    return {{"plain MPI-IO", [this] { write_plain(); }},
            {"tensor file, no checksums", [this] { write_tensors(bare_, false); }},
            {"tensor file", [this] { write_tensors(summed_, true); }}};
  }
  std::vector<Way> reads() {
    return {{"plain MPI-IO", [this] { read_plain(); }},
            {"tensor file, not verified", [this] { read_tensors(Count::copy); }},
            {"tensor file", [this] { read_tensors(Count::once); }}};
  }
  /// So that every write begins with no file, and none pays for taking an old one away.
  void remove() const {
    if (world_.rank() == 0)
      for (const std::string& path : {plain_, summed_, bare_}) ::unlink(path.c_str());
  }

 private:
  template <class F>
  void for_each_block(const F& f) {  // the state as one block a rank
    int64_t offset = state_.first;
    for (size_t g = 0; g < state_.groups.size(); ++g) {
      const int64_t bytes = state_.bytes / static_cast<int64_t>(state_.groups.size());
      f(offset, bytes);
      offset += bytes;
    }
  }
  void write_plain() {
    PlainFile file(world_, plain_, PlainFile::Access::write, options_.mpi_info);
    for_each_block(
        [&](int64_t offset, int64_t bytes) { file.write_at(offset, state_.buffer.data(), bytes); });
    file.sync();
    file.close();
  }
  void read_plain() {
    PlainFile file(world_, plain_, PlainFile::Access::read, options_.mpi_info);
    for_each_block(
        [&](int64_t offset, int64_t bytes) { file.read_at(offset, state_.buffer.data(), bytes); });
    file.close();
  }
  void write_tensors(const std::string& path, bool checksums) {
    FileOptions options = options_;
    options.checksums = checksums;
    TensorFileWriter file(path, &world_, options);
    for (const std::string& group : state_.groups)
      for (const TensorRow& row : state_.rows)
        file.create_dataset(group + "/" + row.name, row.shape, StoredType::fp32);
    for (const std::string& group : state_.groups) file.write_slabs(group, state_.slabs);
    file.close();
  }
  void read_tensors(Count count) {
    TensorFileReader file(summed_, &world_);
    for (const std::string& group : state_.groups)
      for (const TensorSlab& slab : state_.slabs)
        file.read_slab(group + "/" + slab.name, StoredType::fp32, slab.offset, slab.extent,
                       const_cast<void*>(slab.data), count);
    if (count == Count::once) file.require_intact();
  }

  const Comm& world_;
  BenchState& state_;
  const FileOptions options_;
  const std::string plain_, summed_, bare_;
};

void print(const char* verb, const std::vector<Way>& ways, int64_t total) {
  const auto rate = [&](double seconds) { return static_cast<double>(total) / seconds * 1e-9; };
  const auto best = [](const Way& w) {
    return *std::min_element(w.seconds.begin(), w.seconds.end());
  };
  info("  {:<8} {:<28} {:>12} {:>10} {:>12} {:>10}", verb, "", "best GB/s", "of plain",
       "median GB/s", "of plain");
  for (const Way& w : ways)
    info("  {:<8} {:<28} {:>12.2f} {:>10.3f} {:>12.2f} {:>10.3f}", "", w.name, rate(best(w)),
         best(ways[0]) / best(w), rate(median(w.seconds)),
         median(ways[0].seconds) / median(w.seconds));
  // Noise of a disk is larger than the share, so that medians of differences are taken in turn.
  std::vector<double> shares;
  for (size_t i = 0; i < ways[2].seconds.size(); ++i)
    shares.push_back((ways[2].seconds[i] - ways[1].seconds[i]) / ways[2].seconds[i]);
  info("  {:<8} {:<28} {:>11.1f} % {:>10} {:>10.1f} %", "", "checksums' share",
       100.0 * (best(ways[2]) - best(ways[1])) / best(ways[2]), "", 100.0 * median(shares));
}

int bench_checkpoint(const CheckpointBench& request) {
  std::unique_ptr<Launch> started;
  std::unique_ptr<Grid> grid;
  if (!request.deck.empty())
    started = std::make_unique<Launch>(launch(request.deck, request.overrides));
  else
    grid = std::make_unique<Grid>(Grid::create(mpi_session(), GridConfig{}));
  const Comm& world = started ? started->grid.world() : grid->world();
  BenchState state = started ? make_deck_state(*started) : make_sample_state(world, request.mib);
  Files files(request, world, state);
  std::vector<Way> writes = files.writes(), reads = files.reads();
  for (int64_t repeat = 0; repeat < request.repeats; ++repeat) {
    files.remove();
    for (Way& way : writes) way.seconds.push_back(time_together(world, way.move));
    for (Way& way : reads) way.seconds.push_back(time_together(world, way.move));
  }
  info("{} in {} tensors on {} ranks in {}: best and median of {} in turn",
       format_bytes(static_cast<double>(state.total)), state.rows.size() * state.groups.size(),
       world.size(), request.folder, request.repeats);
  info("transfer {}, {}, pieces of {} MiB, alignment {} KiB", request.transfer, request.layout,
       request.piece_mib, request.alignment_kib);
  info(
      "writing ends when every rank's bytes are on the disk (fsync); reading is from the page "
      "cache");
  print("write", writes, state.total);
  print("read", reads, state.total);
  return 0;
}

}  // namespace

void add_bench_checkpoint(CLI::App& bench, Action& action) {
  const auto r = std::make_shared<CheckpointBench>();
  CLI::App* verb =
      bench.add_subcommand("checkpoint", "Tensor files against plain MPI-IO, written and read");
  verb->add_option("DECK", r->deck, "The state of this deck (default: made-up tensors)");
  add_overrides(*verb, r->overrides);
  verb->add_option("--mib", r->mib, "MiB a rank of made-up tensors (default 256)")
      ->check(CLI::Range(1, 1 << 20));
  verb->add_option("--folder", r->folder, "Where to write (default: here)")
      ->check(CLI::ExistingDirectory);
  verb->add_option("--repeats", r->repeats, "Rounds, each way once (default 5)")
      ->check(CLI::Range(1, 1000));
  verb->add_option("--transfer", r->transfer, "How slabs go to MPI-IO")
      ->check(CLI::IsMember({"automatic", "independent", "collective"}));
  verb->add_option("--layout", r->layout, "How datasets are stored")
      ->check(CLI::IsMember({"contiguous", "chunked"}));
  verb->add_option("--piece-mib", r->piece_mib, "MiB of one transfer (default 1)")
      ->check(CLI::Range(0.01, 1024.0));
  verb->add_option("--alignment-kib", r->alignment_kib, "KiB (default 4)")
      ->check(CLI::Range(1.0, 1048576.0));
  verb->add_option("--hint", r->hints,
                   "A hint for MPI-IO, key=value, instead of the default ones; may be given again")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb->callback([r, &action] { action = [r] { return bench_checkpoint(*r); }; });
}

}  // namespace espalier
