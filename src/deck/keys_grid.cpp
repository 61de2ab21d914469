// SPDX-License-Identifier: Apache-2.0
// Rows of the key table for the sections grid, batch and numerics.
#include "deck/key_builder.hpp"

namespace espalier {
namespace {

constexpr double kMaxExtent = 65536;  // of one axis of the grid
constexpr double kMaxRanks = 1 << 20;

void add_pipeline(SectionRows<GridConfig>& rows) {
  rows.choice<PipelineSchedule>("pipeline_schedule", &GridConfig::pipeline_schedule,
                                {{"gpipe", PipelineSchedule::gpipe},
                                 {"1f1b", PipelineSchedule::one_forward_one_backward},
                                 {"interleaved", PipelineSchedule::interleaved},
                                 {"zero_bubble", PipelineSchedule::zero_bubble}})
      .also({"pp_schedule", "pipeline_parallel_schedule", "pipe_schedule"})
      .help(
          "In which order a stage works off its micro-batches; espalier plan --schedule draws it.");
  rows.integer("virtual_stages", &GridConfig::virtual_stages)
      .unit("chunks a rank")
      .between(0, 1024)
      .automatic("2 when interleaved, else 1")
      .also({"virtual_pipeline_parallel", "virtual_pipeline_model_parallel_size", "vpp",
             "num_virtual_stages", "model_chunks", "num_model_chunks"})
      .help("Stages that a rank holds, far apart in the model; interleaved only.");
  rows.integer_list("stage_blocks", &GridConfig::stage_blocks)
      .unit("blocks")
      .between(1, 10000)
      .automatic("stage_balance decides")
      .also({"pipeline_parallel_split_points", "split_points", "pipeline_model_parallel_layout",
             "layers_per_stage"})
      .help("Blocks of each stage in the order of the model.");
  rows.choice<StageBalance>("stage_balance", &GridConfig::stage_balance,
                            {{"cost", StageBalance::cost},
                             {"even", StageBalance::even},
                             {"measured", StageBalance::measured}})
      .also({"partition_method", "pipeline_partition"})
      .help(
          "How the blocks are shared: by flops with embedding and output counted, by number, or by "
          "the times of an earlier run.");
  rows.text("stage_times", &GridConfig::stage_times)
      .help("Run folder whose measured stage times balance the stages; for measured only.");
}

void add_devices(SectionRows<GridConfig>& rows) {
  rows.choice<DeviceTransport>("device_transport", &GridConfig::device_transport,
                               {{"auto", DeviceTransport::automatic},
                                {"gpu_aware", DeviceTransport::gpu_aware},
                                {"staged", DeviceTransport::staged}})
      .also({"gpu_aware_mpi", "cuda_aware_mpi", "cuda_aware", "gpu_direct"})
      .help(
          "How messages leave GPU memory: handed to MPI as they are, or through pinned host "
          "memory; "
          "auto asks the MPI library. Without effect on the host.");
  rows.real("staging_mib", &GridConfig::staging_mib)
      .unit("MiB")
      .above(0)
      .at_most(1024)
      .also({"staging_size", "staging_chunk", "chunk_mib"})
      .help(
          "Messages through pinned memory are cut into portions of this size, so that copies and "
          "transfers overlap.");
  rows.boolean("share_devices", &GridConfig::share_devices)
      .also({"oversubscribe_devices", "share_gpus", "gpu_sharing"})
      .help("Whether several ranks may compute on one GPU; for tests.");
}

void add_grid(std::vector<Key>& table) {
  SectionRows rows(table, "grid", &Config::grid);
  rows.integer("data_parallel", &GridConfig::data_parallel)
      .unit("ranks")
      .between(0, kMaxRanks)
      .automatic("all ranks that the other axes leave")
      .also({"dp", "dp_size", "data_parallel_size"})
      .help("Ranks that hold the same shard of the model and work on different sequences.");
  rows.integer("tensor_parallel", &GridConfig::tensor_parallel)
      .unit("ranks")
      .between(1, kMaxExtent)
      .also({"tp", "tp_size", "tensor_model_parallel_size"})
      .help("Ranks that share each matrix: heads, inner channels and vocabulary are cut.");
  rows.integer("pipeline_parallel", &GridConfig::pipeline_parallel)
      .unit("ranks")
      .between(1, kMaxExtent)
      .also({"pp", "pp_size", "pipeline_model_parallel_size"})
      .help("Stages that share the blocks.");
  add_pipeline(rows);
  rows.integer("context_parallel", &GridConfig::context_parallel)
      .unit("ranks")
      .between(1, kMaxExtent)
      .also({"cp", "cp_size", "context_parallel_size"})
      .help("Ranks that share each sequence; only 1 in this release.");
  rows.integer("expert_parallel", &GridConfig::expert_parallel)
      .unit("ranks")
      .between(1, kMaxExtent)
      .also({"ep", "ep_size", "expert_model_parallel_size"})
      .help("Ranks that share the experts, out of data x context; only 1 in this release.");
  rows.boolean("sequence_parallel", &GridConfig::sequence_parallel)
      .also({"sp"})
      .help(
          "Whether tensor_parallel also cuts the tokens between the matrices: norms, residuals and "
          "their memory.");
  rows.text("rank_order", &GridConfig::rank_order)
      .also({"order", "mapping", "mesh_dim_names"})
      .help(
          "The axes from the slowest to the fastest in the numbers of the ranks; the last one "
          "shares a host first.");
  rows.integer("zero_stage", &GridConfig::zero_stage)
      .between(0, 3)
      .also({"zero", "zero_optimization_stage", "stage"})
      .help(
          "What data-parallel ranks share instead of repeating it: 1 optimizer state, 2 gradients "
          "too, 3 parameters too. Without effect on one data-parallel rank.");
  rows.integer("zero_shards", &GridConfig::zero_shards)
      .unit("ranks")
      .between(0, kMaxRanks)
      .automatic("data_parallel")
      .also({"data_parallel_shard_degree", "dp_shard", "hsdp_shard_size"})
      .help(
          "Neighbouring data-parallel ranks that share one copy of the state; groups of them "
          "repeat it (hybrid sharding).");
  rows.choice<Recompute>("recompute", &GridConfig::recompute,
                         {{"none", Recompute::none},
                          {"selective", Recompute::selective},
                          {"full", Recompute::full}})
      .also({"activation_checkpointing", "gradient_checkpointing", "recompute_granularity"})
      .help(
          "What the backward pass computes again: nothing; attention, norms and the activation; or "
          "whole blocks.");
  rows.integer("recompute_interval", &GridConfig::recompute_interval)
      .unit("blocks")
      .between(1, 10000)
      .also({"selective_ac_option", "recompute_num_layers", "activation_checkpoint_interval"})
      .help("Of every so many blocks the first is computed again; 1 means all.");
  rows.real("bucket_mib", &GridConfig::bucket_mib)
      .unit("MiB")
      .above(0)
      .at_most(65536)
      .also({"bucket_size", "bucket_cap_mb", "ddp_bucket_size"})
      .help("Gradients are reduced in portions of this size.");
  rows.boolean("overlap", &GridConfig::overlap)
      .also({"overlap_grad_reduce", "overlap_comm"})
      .help("Whether gradients are reduced while the backward pass still runs.");
  add_devices(rows);
}

void add_batch(std::vector<Key>& table) {
  SectionRows rows(table, "batch", &Config::batch);
  rows.integer("seq_length", &BatchConfig::seq_length)
      .unit("tokens")
      .between(1, 1 << 24)
      .required()
      .also({"sequence_length", "max_seq_len", "block_size", "n_ctx", "context_length"})
      .help("Tokens of one sequence.");
  rows.integer("micro_batch_size", &BatchConfig::micro_batch_size)
      .unit("sequences")
      .between(1, 1 << 20)
      .also({"batch_size", "mbs", "per_device_train_batch_size"})
      .help("Sequences that a rank works on at once.");
  rows.integer("global_batch_size", &BatchConfig::global_batch_size)
      .unit("sequences")
      .between(1, 1 << 30)
      .also({"gbs", "train_batch_size", "total_batch_size"})
      .help(
          "Sequences of one optimizer step over all ranks; "
          "a multiple of micro_batch_size x data_parallel.");
}

void add_numerics(std::vector<Key>& table) {
  SectionRows rows(table, "numerics", &Config::numerics);
  rows.choice<ElementType>("compute_type", &NumericsConfig::compute_type,
                           {{"fp32", ElementType::fp32},
                            {"bf16", ElementType::bf16},
                            {"fp16", ElementType::fp16},
                            {"fp64", ElementType::fp64}})
      .also({"dtype", "precision", "torch_dtype"})
      .help("Element type of activations and products.");
  rows.choice<ElementType>(
          "master_type", &NumericsConfig::master_type,
          {{"fp32", ElementType::fp32}, {"bf16", ElementType::bf16}, {"fp64", ElementType::fp64}})
      .also({"master_weights", "master_dtype", "param_dtype"})
      .help(
          "Element type of the master weights, to which updates are added. bf16: there is no other "
          "copy than the one that is computed with, and updates are rounded to it stochastically; "
          "only with compute_type bf16. Unnamed with compute_type fp64 it is fp64.");
  rows.choice<ElementType>(
          "gradient_reduce_type", &NumericsConfig::gradient_reduce_type,
          {{"fp32", ElementType::fp32}, {"bf16", ElementType::bf16}, {"fp64", ElementType::fp64}})
      .also({"grad_reduce_type", "reduce_dtype"})
      .help(
          "Element type in which gradients travel (bf16 is added in fp32); "
          "unnamed with compute_type fp64 it is fp64.");
  rows.boolean("reproducible", &NumericsConfig::reproducible)
      .also({"deterministic"})
      .help(
          "Whether loss and parameters are the same bytes on every layout; data_parallel and "
          "tensor_parallel must then be powers of two.");
  rows.integer("virtual_tensor_parallel", &NumericsConfig::virtual_tensor_parallel)
      .unit("shards")
      .between(0, 64)
      .automatic(
          "the largest power of two up to 8 that divides num_heads and intermediate_size and is a "
          "multiple or a divisor of num_kv_heads; 1 when "
          "not reproducible")
      .also({"virtual_tp"})
      .help(
          "Shards in which the reproducible mode computes every matrix, on one rank or on many; a "
          "multiple of tensor_parallel.");
  rows.real("loss_scale_initial", &NumericsConfig::loss_scale_initial)
      .between(1, 16777216.0)
      .also({"initial_loss_scale", "loss_scale"})
      .help("First factor on the loss of dynamic loss scaling; fp16 only.");
  rows.integer("loss_scale_growth_steps", &NumericsConfig::loss_scale_growth_steps)
      .unit("steps")
      .between(1, 1e9)
      .also({"loss_scale_window"})
      .help("Steps without overflow after which the factor doubles; fp16 only.");
  rows.real("logits_mib", &NumericsConfig::logits_mib)
      .unit("MiB")
      .above(0)
      .at_most(1e9)
      .also({"logits_chunk_mib", "loss_chunk_mib"})
      .help(
          "Logits that exist at once, over the whole vocabulary, in the compute type: the tokens "
          "of "
          "a micro-batch pass the output projection and the loss in even portions of at most this "
          "size, and of at least one token. The arithmetic of the output's weight gradient follows "
          "it.");
  rows.choice<Kernels>("kernels", &NumericsConfig::kernels,
                       {{"tuned", Kernels::tuned}, {"portable", Kernels::portable}})
      .also({"kernel", "use_fused_kernels", "attn_implementation"})
      .help(
          "On a device: the tuned kernels, where the build and the shape have them, or the "
          "portable ones, for comparison. Without meaning in a build for the host.");
  rows.boolean("graphs", &NumericsConfig::graphs)
      .also({"cuda_graphs", "cuda_graph", "enable_cuda_graph"})
      .help(
          "On a device: whether each micro-batch is started as one recorded graph, which spares "
          "the starts of single kernels. Without meaning in a build for the host.");
}

}  // namespace

void add_grid_keys(std::vector<Key>& table) {
  add_grid(table);
  add_batch(table);
  add_numerics(table);
}

}  // namespace espalier
