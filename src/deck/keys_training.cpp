// SPDX-License-Identifier: Apache-2.0
// Rows of the key table for the sections optimizer, schedule, data and monitor.
#include "deck/key_builder.hpp"

namespace espalier {
namespace {

void add_optimizer(std::vector<Key>& table) {
  SectionRows rows(table, "optimizer", &Config::optimizer);
  rows.word("name", &OptimizerConfig::name, {"adamw"})
      .also({"optimizer", "type"})
      .help("The optimizer: Adam with decoupled weight decay.");
  rows.real("learning_rate", &OptimizerConfig::learning_rate)
      .between(0, 100)
      .also({"lr", "max_lr", "max_learning_rate", "peak_learning_rate"})
      .help("Largest learning rate, reached after the warmup.");
  rows.real("beta1", &OptimizerConfig::beta1)
      .at_least(0)
      .below(1)
      .also({"adam_beta1"})
      .help("Decay of the mean of the gradient.");
  rows.real("beta2", &OptimizerConfig::beta2)
      .at_least(0)
      .below(1)
      .also({"adam_beta2"})
      .help("Decay of the mean of its square.");
  rows.real("eps", &OptimizerConfig::eps)
      .above(0)
      .at_most(1)
      .also({"adam_eps", "epsilon"})
      .help("Added to the root of the mean square.");
  rows.real("weight_decay", &OptimizerConfig::weight_decay)
      .between(0, 100)
      .also({"wd"})
      .help("Decoupled decay a step, times the learning rate; 0: none.");
  rows.boolean("decay_norms", &OptimizerConfig::decay_norms)
      .help("Whether weights and biases of the norms decay.");
  rows.boolean("decay_biases", &OptimizerConfig::decay_biases)
      .help("Whether biases of the linear layers decay.");
  rows.boolean("decay_embeddings", &OptimizerConfig::decay_embeddings)
      .help("Whether embeddings and the output projection decay.");
  rows.real("gradient_clip", &OptimizerConfig::gradient_clip)
      .at_least(0)
      .also({"clip_grad", "grad_clip", "max_grad_norm"})
      .help("Largest global norm of the gradient; 0: no clipping.");
}

void add_schedule(std::vector<Key>& table) {
  SectionRows rows(table, "schedule", &Config::schedule);
  rows.integer("warmup_steps", &ScheduleConfig::warmup_steps)
      .unit("steps")
      .between(0, 1e9)
      .also({"warmup", "lr_warmup_iters", "warmup_iters"})
      .help("Steps over which the rate rises linearly; 0: none.");
  rows.choice<DecayKind>("decay", &ScheduleConfig::decay,
                         {{"constant", DecayKind::constant},
                          {"linear", DecayKind::linear},
                          {"cosine", DecayKind::cosine},
                          {"wsd", DecayKind::wsd}})
      .also({"lr_decay_style", "lr_scheduler_type"})
      .help("Course after the warmup; wsd stays at the top and falls in a tail of decay_steps.");
  rows.real("min_learning_rate", &ScheduleConfig::min_learning_rate)
      .between(0, 100)
      .also({"min_lr", "final_learning_rate"})
      .help("Rate at the last step; without effect with constant.");
  rows.integer("decay_steps", &ScheduleConfig::decay_steps)
      .unit("steps")
      .between(0, 1e9)
      .automatic("a tenth of run.steps, at least 1")
      .also({"lr_wsd_decay_iters"})
      .help("Length of the tail; wsd only.");
  rows.choice<WsdTail>("wsd_tail", &ScheduleConfig::wsd_tail,
                       {{"linear", WsdTail::linear}, {"one_minus_sqrt", WsdTail::one_minus_sqrt}})
      .help("Shape of the tail, linear or 1 - sqrt; wsd only.");
}

void add_data(std::vector<Key>& table) {
  SectionRows rows(table, "data", &Config::data);
  rows.choice<DataSource>("source", &DataConfig::source,
                          {{"files", DataSource::files}, {"random", DataSource::random}})
      .help("Token files, or random tokens for tests and benchmarks.");
  rows.text_list("train", &DataConfig::train)
      .also({"train_data", "data_path", "input"})
      .help(
          "Token stores (folders) and token files to train on, relative to the working folder; "
          "source files needs them. Files of nanoGPT and llm.c (.bin) and of Megatron (.idx) too.");
  rows.text_list("validation", &DataConfig::validation)
      .also({"valid", "val", "val_data", "valid_data_path"})
      .help(
          "Token stores and files held out for the validation loss; of a store its held-out part.");
  rows.boolean("document_mask", &DataConfig::document_mask)
      .also({"reset_attention_mask"})
      .help("Whether documents packed into one sequence are hidden from each other.");
  rows.boolean("reset_positions", &DataConfig::reset_positions)
      .also({"reset_position_ids"})
      .help("Whether positions restart at each document.");
  rows.integer("end_of_document", &DataConfig::end_of_document)
      .between(-1, 2147483647)
      .also({"eod_token", "eos_token_id"})
      .help("Id that ends a document in files that do not say it, .bin and .idx; -1: none.");
  rows.choice<Packing>("packing", &DataConfig::packing,
                       {{"chunk", Packing::chunk}, {"best_fit", Packing::best_fit}})
      .help(
          "How documents fill sequences: one behind another and cut anywhere, or whole ones placed "
          "where they fit best and the rest padded.");
  rows.choice<LongDocuments>("long_documents", &DataConfig::long_documents,
                             {{"split", LongDocuments::split}, {"drop", LongDocuments::drop}})
      .help("Documents longer than a sequence under best_fit: cut into several, or left out.");
  rows.choice<BalanceWork>("balance", &DataConfig::balance,
                           {{"none", BalanceWork::none}, {"attention", BalanceWork::attention}})
      .also({"length_bucketing", "group_by_length"})
      .help(
          "Which sequences of a step share a micro-batch: neighbours in the stream, or so that all "
          "micro-batches carry like amounts of attention work.");
  rows.real("temperature", &DataConfig::temperature)
      .at_least(1)
      .at_most(1000)
      .help(
          "Sources are drawn in proportion to tokens^(1/temperature): 1 as they are, more lifts "
          "small ones.");
  rows.text_list("weights", &DataConfig::weights)
      .also({"data_weights", "mixture"})
      .help(
          "Weights of the sources, each \"NAME = WEIGHT\"; they need no sum. Empty: by "
          "temperature.");
  rows.text_list("curriculum", &DataConfig::curriculum)
      .help("Weights from a step on, each \"STEP: NAME = WEIGHT, NAME = WEIGHT\".");
  rows.range_list("skip", &DataConfig::skip)
      .between(0, 4e18)
      .also({"skip_ranges"})
      .help("Positions of the stream (sequences) that are left out, each [from, to), ascending.");
  rows.integer("prefetch_steps", &DataConfig::prefetch_steps)
      .unit("steps")
      .between(0, 1024)
      .also({"prefetch"})
      .help("Steps whose tokens a thread reads ahead; 0: no thread, the step reads them itself.");
  rows.integer("workers", &DataConfig::workers)
      .between(1, 256)
      .also({"num_workers"})
      .help("Threads that read ahead; the stream does not depend on their number.");
  rows.choice<VerifyData>("verify", &DataConfig::verify,
                          {{"full", VerifyData::full}, {"header", VerifyData::header}})
      .help("Check token files before the run: the checksum of all bytes, or header and length.");
}

void add_monitor(std::vector<Key>& table) {
  SectionRows rows(table, "monitor", &Config::monitor);
  rows.integer("log_interval", &MonitorConfig::log_interval)
      .unit("steps")
      .between(1, 1e9)
      .help("Steps between lines of the log; the metrics hold every step.");
  rows.integer("validation_interval", &MonitorConfig::validation_interval)
      .unit("steps")
      .between(0, 1e9)
      .also({"eval_interval", "val_interval", "eval_steps"})
      .help("Steps between validation losses; 0: never.");
  rows.integer("validation_batches", &MonitorConfig::validation_batches)
      .unit("global batches")
      .between(1, 1e6)
      .also({"eval_iters", "val_batches"})
      .help("Batches of one validation loss.");
  rows.choice<Progress>(
          "progress", &MonitorConfig::progress,
          {{"automatic", Progress::automatic}, {"on", Progress::on}, {"off", Progress::off}})
      .help("Progress bar; automatic: only on a terminal.");
  rows.real("peak_gflops", &MonitorConfig::peak_gflops)
      .unit("GFLOP/s")
      .at_least(0)
      .automatic("measured by matrix products when the run starts")
      .also({"peak_flops"})
      .help("Peak rate of one rank, the denominator of MFU.");
}

}  // namespace

void add_training_keys(std::vector<Key>& table) {
  add_optimizer(table);
  add_schedule(table);
}

void add_data_keys(std::vector<Key>& table) {
  add_data(table);
}

void add_monitor_keys(std::vector<Key>& table) {
  add_monitor(table);
}

}  // namespace espalier
