// SPDX-License-Identifier: Apache-2.0
// Rows of the key table for the section checkpoint: when to save, what stays, how files are
// written.
#include "deck/key_builder.hpp"

namespace espalier {
namespace {

constexpr double kLargestAlignment = 1 << 30;  // bytes; no file system has wider stripes
constexpr double kLargestChunk = 4095;         // MiB; HDF5 has no chunk of 4 GiB
constexpr double kLargestPiece = 1024;         // MiB; MPI-IO counts bytes in 31 bits

void add_times(SectionRows<CheckpointConfig>& rows) {
  rows.boolean("save_final", &CheckpointConfig::save_final)
      .help("Whether the run writes model.h5 when it ends.");
  rows.integer("interval", &CheckpointConfig::interval)
      .unit("steps")
      .between(0, 1e9)
      .also({"save_interval", "save_steps", "checkpoint_interval", "ckpt_interval", "every"})
      .help("Steps between checkpoints; 0: none while the run goes on.");
  rows.choice<IntervalRule>(
          "interval_rule", &CheckpointConfig::interval_rule,
          {{"fixed", IntervalRule::fixed}, {"young_daly", IntervalRule::young_daly}})
      .help(
          "Every interval steps, or at the optimum of Young and Daly from the measured cost of a "
          "save and mean_time_between_failures.");
  rows.real("mean_time_between_failures", &CheckpointConfig::mean_time_between_failures)
      .unit("s")
      .between(0, 1e10)
      .also({"mtbf", "mean_time_to_failure", "mttf"})
      .help(
          "Mean time from one failure of the whole job to the next: that of one node divided by "
          "the number of nodes. young_daly needs it.");
  rows.choice<SaveMode>(
          "mode", &CheckpointConfig::mode,
          {{"asynchronous", SaveMode::asynchronous}, {"synchronous", SaveMode::synchronous}})
      .also({"async", "async_save", "async_mode"})
      .help(
          "Whether training goes on while a copy of the state is written, or waits until it is "
          "written.");
  rows.choice<OnSignal>("on_signal", &CheckpointConfig::on_signal,
                        {{"save", OnSignal::save_and_stop}, {"die", OnSignal::die}})
      .help("At SIGTERM or SIGUSR1: save after the step and stop, or end at once.");
}

void add_retention(SectionRows<CheckpointConfig>& rows) {
  rows.integer("keep_last", &CheckpointConfig::keep_last)
      .unit("checkpoints")
      .between(1, 1e6)
      .also({"keep", "keep_latest_k", "save_total_limit", "max_to_keep"})
      .help("The newest so many checkpoints stay.");
  rows.integer("keep_every", &CheckpointConfig::keep_every)
      .unit("steps")
      .between(0, 1e9)
      .also({"keep_period", "save_retain_interval"})
      .help("Checkpoints at multiples of this step stay for good, too; 0: none.");
  rows.boolean("read_back", &CheckpointConfig::read_back)
      .also({"verify"})
      .help("Whether the ranks read a new checkpoint again and compare its checksums.");
  rows.choice<OnDamage>("on_damage", &CheckpointConfig::on_damage,
                        {{"stop", OnDamage::stop}, {"previous", OnDamage::previous}})
      .help(
          "When the newest checkpoint is damaged: stop and name the damage, or name it and resume "
          "from the newest sound one.");
}

void add_storage(SectionRows<CheckpointConfig>& rows) {
  rows.choice<StorageLayout>(
          "layout", &CheckpointConfig::layout,
          {{"contiguous", StorageLayout::contiguous}, {"chunked", StorageLayout::chunked}})
      .help("How a tensor lies in its file: in one piece, or in chunks.");
  rows.real("chunk_mib", &CheckpointConfig::chunk_mib)
      .unit("MiB")
      .at_least(0.001)
      .at_most(kLargestChunk)
      .also({"chunk_size"})
      .help("Size of a chunk; smaller tensors are one chunk. chunked only.");
  rows.integer("alignment", &CheckpointConfig::alignment)
      .unit("bytes")
      .between(0, kLargestAlignment)
      .help(
          "Tensors begin at multiples of this, such as a stripe of the file system; 0: anywhere.");
  rows.choice<TransferMode>("transfer", &CheckpointConfig::transfer,
                            {{"automatic", TransferMode::automatic},
                             {"independent", TransferMode::independent},
                             {"collective", TransferMode::collective}})
      .help(
          "automatic: each rank writes by itself, and parts of rows are exchanged into whole rows "
          "first; independent: without the exchange; collective: MPI-IO gathers parts of many "
          "ranks.");
  rows.integer("files", &CheckpointConfig::files)
      .between(1, 1024)
      .also({"num_files", "shards"})
      .help("State files of one checkpoint, for file systems that are slow with one.");
  rows.real("piece_mib", &CheckpointConfig::piece_mib)
      .unit("MiB")
      .at_least(0.001)
      .at_most(kLargestPiece)
      .also({"buffer_mib", "piece_size"})
      .help("A rank transfers its part of a tensor in pieces of this size.");
  rows.text_list("mpi_info", &CheckpointConfig::mpi_info)
      .also({"mpi_hints", "romio_hints", "hints"})
      .help("Hints for MPI-IO, each \"key=value\", such as \"striping_factor=16\".");
}

}  // namespace

void add_checkpoint_keys(std::vector<Key>& table) {
  SectionRows rows(table, "checkpoint", &Config::checkpoint);
  add_times(rows);
  add_retention(rows);
  add_storage(rows);
}

}  // namespace espalier
