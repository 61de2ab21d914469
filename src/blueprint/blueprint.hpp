// SPDX-License-Identifier: Apache-2.0
// The blueprint: everything that follows from a deck before anything is allocated. Pure data; it
// knows neither MPI nor Kokkos, so a login node can make it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "blueprint/activation_plan.hpp"
#include "blueprint/parameter_table.hpp"
#include "blueprint/partition.hpp"
#include "blueprint/schedule.hpp"
#include "deck/config.hpp"

namespace espalier {

/// The parts that time and work are reported by.
enum class Part {
  matmul,
  attention,
  norm,
  activation,
  loss,
  embedding,
  optimizer,
  communication,
  data,
  other
};
constexpr int kPartCount = 10;
const char* part_name(Part part);

/// One operator of the stage, with its global shape as text and its cost for one global step.
struct Operator {
  std::string name;
  Part part = Part::other;
  int64_t forward_flops_per_token = 0;
  int64_t backward_flops_per_token = 0;
};

enum class MemorySpace { host, device };

/// One line of the memory bill, bytes on one rank.
struct MemoryItem {
  std::string name;
  int64_t bytes = 0;
  MemorySpace space = MemorySpace::host;
};

struct MemoryBill {
  std::vector<MemoryItem> items;
  int64_t total() const;
  int64_t total(MemorySpace space) const;
};

/// Which rank a blueprint is for.
struct RankPlace {
  int64_t pipeline = 0, data = 0, tensor = 0;
};

/// One stage that a rank holds.
struct ChunkPlan {
  int64_t stage = 0;
  StageRange layers;
  bool is_first = false, is_last = false;
  int64_t slots = 1;  // micro-batches whose activations live at once
};

/// Which micro-batches of a step a data-parallel rank works on: first, first + stride, ...
struct MicroBatchSet {
  int64_t first = 0, count = 0, stride = 1;
  int64_t index(int64_t i) const { return first + i * stride; }
};

/// What one rank of the grid needs to know; global numbers are the same for all.
struct Blueprint {
  Config config;
  RankPlace rank;
  ModelPlace place;
  ParameterTable parameters;  // of this rank
  ActivationPlan activations;
  std::vector<Operator> operators;  // of the whole model
  Schedule schedule;
  std::vector<ChunkPlan> chunks;  // of this rank
  MicroBatchSet own_micro_batches;
  int64_t zero_shards = 1, zero_replicas = 1;  // their product is data_parallel
  Partition partition;                         // among zero_shards
  std::vector<OwnedRange> owned;               // what this rank updates; all at stage 0
  /// This rank's index among the zero_shards.
  int64_t own_shard() const { return rank.data % zero_shards; }

  int64_t data_parallel = 1;
  int64_t micro_batches = 1;              // of one step on one data-parallel rank
  int64_t total_micro_batches = 1;        // of one step over all ranks
  int64_t tokens_per_step = 0;            // global_batch_size * seq_length
  int64_t matmul_flops_per_token = 0;     // forward and backward
  int64_t attention_flops_per_token = 0;  // forward and backward, causal
  /// Layers of all chunks of this rank.
  int64_t held_layers() const;
  int64_t flops_per_token() const { return matmul_flops_per_token + attention_flops_per_token; }
};

/// `ranks` fills grid.data_parallel = 0. Throws DeckError when batch and grid do not divide.
Blueprint make_blueprint(const Config& config, int64_t ranks, const RankPlace& rank = {});

/// That of the stage with the largest memory bill.
Blueprint make_heaviest_blueprint(const Config& config, int64_t ranks);

enum class OptimizerState { allocated, none };

/// What the bill needs and the deck does not say.
struct MemoryAssumptions {
  /// Resident size of the process before the first allocation: measured in a run; the default is
  /// what MPI, HDF5 and the GEMM library were seen to take.
  int64_t runtime_bytes = int64_t{48} << 20;
  OptimizerState optimizer = OptimizerState::allocated;
  /// device: what is computed with lies there, and its copies for files and messages on the host.
  MemorySpace computes_in = MemorySpace::host;
  /// Of the device, before the first allocation: its context, the code of the kernels, and the
  /// workspaces of the GEMM library. Measured in a run; the default is a guess.
  int64_t device_runtime_bytes = int64_t{640} << 20;
};

constexpr const char* kDeviceRuntimeItem = "context and libraries";

/// A device as a run finds it.
struct DeviceRoom {
  int64_t free = 0, total = 0;  // bytes
  int sharers = 1;              // ranks that compute on it
};

/// Why a bill does not fit into what is free on its device, item by item, and what to change in
/// this deck; empty where it fits. What runs already is not counted again.
std::string why_too_large(const MemoryBill& bill, const DeviceRoom& room, const Config& config);

/// What libraries take after the run has started, as seen with MPICH 4.0, HDF5 1.10 and oneDNN 2.6:
/// the GEMM library's kernels, the metadata of files, and where ranks talk the transport's buffers.
/// Messages between stages take more of them than exchanges do.
constexpr int64_t later_runtime_bytes(int64_t ranks, int64_t pipeline_ranks) {
  return (int64_t{4} << 20) + (ranks > 1 ? int64_t{3} << 20 : 0) +
         (pipeline_ranks > 1 ? int64_t{4} << 20 : 0);
}

/// Levels of the reproducible tree over n micro-batches: a of n = 2^a * m, m odd. 0 for n = 0.
int tree_levels(int64_t micro_batches);

/// Whether gradients of weights wait for actions of their own.
bool splits_backward(const GridConfig& grid);

/// Bytes of activations and workspace that a rank's stages carve from their arena.
int64_t activation_bytes(const Blueprint& blueprint);

/// Partial sums of gradients that the reproducible mode keeps on a rank.
int reproducible_levels(const Blueprint& blueprint);

/// ZeRO 3: layers that are gathered at once: the one before, the current one and the next.
constexpr int64_t kGatheredLayers = 3;
/// Elements of the buffers into which ZeRO 3 gathers blocks.
int64_t gathered_elements(const ParameterTable& table);

/// Element type of the master weights: numerics.master_type, fp64 when computing in fp64.
ElementType master_type(const Config& config);
/// Element sizes of master weights, and of gradients and moments.
int64_t master_bytes(const Config& config);
int64_t moment_bytes(const Config& config);
/// Bytes that a checkpoint holds of each parameter: the master weight and two moments.
int64_t state_bytes(const Config& config);

/// Whether a run saves before its end without being asked to.
bool saves_while_running(const CheckpointConfig& checkpoint);
/// Whether training goes on meanwhile, so that a copy of the state is held.
bool saves_beside_training(const CheckpointConfig& checkpoint);

/// Bytes that such a save copies on one rank, the rank with most: master weights and both moments
/// of its shard; ranks that hold the same shard share the copying as they share the writing.
int64_t snapshot_bytes(const Blueprint& blueprint);

/// Bytes of the tensors in one checkpoint of the whole model.
int64_t checkpoint_bytes(const Blueprint& blueprint);

/// What one rank will hold.
MemoryBill make_memory_bill(const Blueprint& blueprint, const MemoryAssumptions& assumptions);

}  // namespace espalier
