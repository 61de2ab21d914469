// SPDX-License-Identifier: Apache-2.0
// The checked content of a deck: plain values, complete, with every default filled in.
// Types, units, ranges and help of each key stand in one table, deck/key_table.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/element_type.hpp"

namespace espalier {

enum class NormKind { layernorm, rmsnorm };
enum class PositionKind { learned, rope, none };
enum class RopeStyle { half, interleaved };
enum class RopeScaling { none, linear, llama3 };
enum class Activation { gelu_tanh, gelu, swiglu };
enum class Residual { sequential, parallel };
enum class DecayKind { constant, linear, cosine, wsd };
enum class WsdTail { linear, one_minus_sqrt };
enum class DataSource { files, random };
enum class Packing { chunk, best_fit };
enum class LongDocuments { split, drop };
enum class BalanceWork { none, attention };
enum class VerifyData { full, header };
enum class Progress { automatic, on, off };
enum class Recompute { none, selective, full };
enum class PipelineSchedule { gpipe, one_forward_one_backward, interleaved, zero_bubble };
enum class StageBalance { cost, even, measured };
enum class DeviceTransport { automatic, gpu_aware, staged };
enum class IntervalRule { fixed, young_daly };
enum class SaveMode { asynchronous, synchronous };
enum class OnDamage { stop, previous };
enum class OnSignal { save_and_stop, die };
enum class StorageLayout { contiguous, chunked };
/// How slabs are handed to MPI-IO. automatic: each rank writes by itself; of datasets of which some
/// rank's slabs lie in many (more than 256) pieces in the file, such as columns, ranks first
/// exchange parts, so that each writes whole rows. independent: without the exchange. collective:
/// every dataset by MPI-IO's collective transfer, for file systems that want it.
enum class TransferMode { automatic, independent, collective };
/// On a device. tuned: those of cuda/ where the build and the shape have them; portable: Kokkos'.
enum class Kernels { tuned, portable };

struct RunConfig {
  std::string directory;  // output folder; default runs/<deck file stem>
  int64_t steps = 100;
  int64_t seed = 1;
  double time_limit = 0.0;  // s of wall time; 0 in the deck: what the batch system says, else none
};

struct ModelConfig {
  std::string preset = "none";
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size =
      0;  // 0 in the deck: 4*hidden_size, or 8/3 of it up to a multiple of 64 for swiglu
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  // 0 in the deck: num_heads
  int64_t head_dim = 0;      // 0 in the deck: hidden_size / num_heads
  NormKind norm = NormKind::layernorm;
  bool norm_bias = true;  // LayerNorm only
  double norm_eps = 1e-5;
  PositionKind position = PositionKind::learned;
  double rope_theta = 10000.0;
  RopeStyle rope_style = RopeStyle::half;
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_scaling_factor = 1.0;
  double rope_low_freq_factor = 1.0;    // llama3 scaling only
  double rope_high_freq_factor = 4.0;   // llama3 scaling only
  int64_t rope_original_length = 8192;  // llama3 scaling only
  Activation activation = Activation::gelu_tanh;
  bool bias = true;  // of the linear layers
  bool tie_embeddings = true;
  Residual residual = Residual::sequential;
  bool qk_norm = false;
  double logit_scale = 1.0;
  double embedding_dropout = 0.0;  // probabilities
  double attention_dropout = 0.0;
  double residual_dropout = 0.0;
  double init_std = 0.02;
  bool init_scale_residual =
      true;  // output projections of a block start at init_std / sqrt(2 num_layers)
};

struct GridConfig {
  int64_t data_parallel = 0;  // 0: all ranks that the other axes leave
  int64_t tensor_parallel = 1;
  int64_t pipeline_parallel = 1;
  int64_t context_parallel = 1;
  int64_t expert_parallel = 1;
  bool sequence_parallel = false;
  std::string rank_order = "pp,dp,cp,tp";  // slowest axis first
  int64_t zero_stage = 0;
  int64_t zero_shards = 0;  // 0: data_parallel; else ranks that share one copy of the state
  Recompute recompute = Recompute::none;
  int64_t recompute_interval = 1;  // blocks
  PipelineSchedule pipeline_schedule = PipelineSchedule::one_forward_one_backward;
  int64_t virtual_stages = 0;         // chunks a rank; 0 in the deck: 1, or 2 when interleaved
  std::vector<int64_t> stage_blocks;  // of each stage in order; empty: stage_balance decides
  StageBalance stage_balance = StageBalance::cost;
  std::string stage_times;   // run folder whose measured times balance the stages
  double bucket_mib = 16.0;  // gradient bucket, MiB
  bool overlap = true;       // reduce gradients during the backward pass
  DeviceTransport device_transport = DeviceTransport::automatic;  // how device memory travels
  double staging_mib = 4.0;    // portion of a staged message, MiB
  bool share_devices = false;  // several ranks may compute on one device
};

struct BatchConfig {
  int64_t seq_length = 0;
  int64_t micro_batch_size = 1;   // sequences a rank works on at once
  int64_t global_batch_size = 1;  // sequences of one optimizer step over all ranks
};

struct NumericsConfig {
  ElementType compute_type = ElementType::fp32;
  ElementType gradient_reduce_type =
      ElementType::fp32;  // what travels: fp32, bf16 (fp64 when computing in fp64)
  ElementType master_type = ElementType::fp32;  // fp32, bf16 (fp64 when computing in fp64)
  bool reproducible = false;
  int64_t virtual_tensor_parallel = 0;  // 0 in the deck: see the key table; 1 when not reproducible
  double loss_scale_initial = 65536.0;  // fp16 only
  int64_t loss_scale_growth_steps = 1000;  // fp16 only
  double logits_mib = 512.0;               // of the whole vocabulary, at once, in compute_type
  Kernels kernels = Kernels::tuned;
  bool graphs = false;  // micro-batches as CUDA graphs
};

struct OptimizerConfig {
  std::string name = "adamw";
  double learning_rate = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_norms = false;
  bool decay_biases = false;
  bool decay_embeddings = true;
  double gradient_clip = 1.0;  // 0: no clipping
};

struct ScheduleConfig {
  int64_t warmup_steps = 0;
  DecayKind decay = DecayKind::cosine;
  double min_learning_rate = 0.0;
  int64_t decay_steps = 0;  // wsd: length of the tail; 0 in the deck: a tenth of run.steps
  WsdTail wsd_tail = WsdTail::one_minus_sqrt;
};

/// [begin, end)
using IntegerRange = std::array<int64_t, 2>;

struct DataConfig {
  DataSource source = DataSource::files;
  std::vector<std::string> train;  // token stores and files; paths relative to the working folder
  std::vector<std::string> validation;
  bool document_mask = true;     // documents in one sequence do not see each other
  bool reset_positions = true;   // positions restart at each document
  int64_t end_of_document = -1;  // its id in files that do not say it (.bin); -1: none
  Packing packing = Packing::chunk;
  LongDocuments long_documents = LongDocuments::split;  // best_fit: those that fill no sequence
  BalanceWork balance = BalanceWork::none;  // which sequences of a step share a micro-batch
  double temperature = 1.0;                 // sources in proportion to tokens^(1/temperature)
  std::vector<std::string> weights;         // "NAME = WEIGHT"; empty: by temperature
  std::vector<std::string> curriculum;      // "STEP: NAME = WEIGHT, NAME = WEIGHT"
  std::vector<IntegerRange> skip;           // positions of the stream that are left out
  int64_t prefetch_steps = 2;
  int64_t workers = 1;  // threads that prefetch
  VerifyData verify = VerifyData::full;
};

struct CheckpointConfig {
  bool save_final = true;  // write model.h5 when the run ends
  int64_t interval = 0;    // steps between checkpoints; 0: none while the run goes on
  IntervalRule interval_rule = IntervalRule::fixed;
  double mean_time_between_failures = 0.0;  // s, of the whole job; young_daly needs it
  SaveMode mode = SaveMode::asynchronous;
  int64_t keep_last = 2;                // newest checkpoints that stay
  int64_t keep_every = 0;               // checkpoints at multiples of so many steps stay; 0: none
  bool read_back = false;               // read a new checkpoint again and compare its checksums
  OnDamage on_damage = OnDamage::stop;  // when the newest checkpoint cannot be used
  OnSignal on_signal = OnSignal::save_and_stop;      // SIGTERM and SIGUSR1
  StorageLayout layout = StorageLayout::contiguous;  // of a tensor in the file
  double chunk_mib = 16.0;                           // chunked only
  int64_t alignment = 4096;                          // bytes, of data in the file; 0: none
  TransferMode transfer = TransferMode::automatic;   // how the ranks write and read together
  int64_t files = 1;                                 // state files of one checkpoint
  double piece_mib = 1.0;                            // written at once, MiB
  std::vector<std::string> mpi_info;                 // "key=value" hints for MPI-IO
};

struct MonitorConfig {
  int64_t log_interval = 1;         // steps
  int64_t validation_interval = 0;  // steps; 0: never
  int64_t validation_batches = 8;   // global batches
  Progress progress = Progress::automatic;
  double peak_gflops = 0.0;  // of one rank, for MFU; 0: measure the GEMM rate when the run starts
};

struct Config {
  std::string deck_path;
  RunConfig run;
  ModelConfig model;
  GridConfig grid;
  BatchConfig batch;
  NumericsConfig numerics;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  DataConfig data;
  CheckpointConfig checkpoint;
  MonitorConfig monitor;
};

}  // namespace espalier
