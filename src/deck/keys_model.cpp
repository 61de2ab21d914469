// SPDX-License-Identifier: Apache-2.0
// Rows of the key table for the sections run and model.
#include "deck/key_builder.hpp"
#include "deck/presets.hpp"

namespace espalier {

// Upper bounds keep every product that the program forms of these keys inside int64.
void add_run_keys(std::vector<Key>& table) {
  SectionRows rows(table, "run", &Config::run);
  rows.text("directory", &RunConfig::directory)
      .automatic("runs/NAME, with the name of the deck file without .toml")
      .also({"output_dir", "out_dir", "output"})
      .help("Folder that the run writes: log, metrics, effective deck, checkpoints.");
  rows.integer("steps", &RunConfig::steps)
      .unit("steps")
      .between(1, 1e9)
      .also({"max_steps", "train_steps", "train_iters", "max_iters", "num_iterations"})
      .help("Optimizer steps of the whole run.");
  rows.integer("seed", &RunConfig::seed)
      .at_least(0)
      .help("Fixes initial weights and data order, whatever the grid.");
  rows.real("time_limit", &RunConfig::time_limit)
      .unit("s")
      .between(0, 1e9)
      .automatic("the end of the job as Slurm tells it by SLURM_JOB_END_TIME; elsewhere none")
      .also({"max_time", "walltime", "exit_duration_in_mins", "max_run_duration"})
      .help(
          "Wall time of the program. Before it is over the run saves a checkpoint and stops, with "
          "exit code 75.");
}

namespace {

void add_sizes(SectionRows<ModelConfig>& rows) {
  rows.word("preset", &ModelConfig::preset, preset_names())
      .also({"name", "family", "model_type"})
      .help("Published shape that fills the keys of this section that the deck does not name.");
  rows.integer("vocab_size", &ModelConfig::vocab_size)
      .unit("tokens")
      .between(2, 1 << 24)
      .required()
      .also({"vocabulary_size", "n_vocab", "padded_vocab_size"})
      .help("Entries of the vocabulary: rows of the token embedding and width of the logits.");
  rows.integer("hidden_size", &ModelConfig::hidden_size)
      .unit("channels")
      .between(1, 1 << 20)
      .required()
      .also({"n_embd", "d_model", "dim", "embed_dim"})
      .help("Width of the residual stream.");
  rows.integer("intermediate_size", &ModelConfig::intermediate_size)
      .unit("channels")
      .between(0, 1 << 22)
      .automatic("4 hidden_size; with swiglu 8/3 hidden_size, up to the next multiple of 64")
      .also({"ffn_hidden_size", "d_ff", "ffn_dim", "n_inner"})
      .help("Inner width of the feed-forward part.");
  rows.integer("num_layers", &ModelConfig::num_layers)
      .unit("blocks")
      .between(1, 10000)
      .required()
      .also({"n_layer", "n_layers", "num_hidden_layers", "depth"})
      .help("Transformer blocks.");
  rows.integer("num_heads", &ModelConfig::num_heads)
      .unit("heads")
      .between(1, 65536)
      .required()
      .also({"n_head", "n_heads", "num_attention_heads"})
      .help("Query heads of attention.");
  rows.integer("num_kv_heads", &ModelConfig::num_kv_heads)
      .unit("heads")
      .between(0, 65536)
      .automatic("num_heads")
      .also({"n_kv_heads", "num_key_value_heads", "num_query_groups"})
      .help("Key and value heads; fewer than num_heads is grouped-query attention.");
  rows.integer("head_dim", &ModelConfig::head_dim)
      .unit("channels")
      .between(0, 4096)
      .automatic("hidden_size / num_heads")
      .also({"d_head", "kv_channels", "head_size"})
      .help("Channels of one head; rope needs an even number.");
}

void add_positions(SectionRows<ModelConfig>& rows) {
  rows.choice<PositionKind>("position", &ModelConfig::position,
                            {{"learned", PositionKind::learned},
                             {"rope", PositionKind::rope},
                             {"none", PositionKind::none}})
      .also({"position_embedding", "position_embedding_type", "pos_emb"})
      .help("How a token knows its place: a learned table of seq_length rows, rotation, or not.");
  rows.real("rope_theta", &ModelConfig::rope_theta)
      .at_least(1)
      .also({"rope_base", "rotary_base"})
      .help("Base of the rotation periods; rope only.");
  rows.choice<RopeStyle>("rope_style", &ModelConfig::rope_style,
                         {{"half", RopeStyle::half}, {"interleaved", RopeStyle::interleaved}})
      .help("Which channels rotate together: i and i + head_dim/2, or 2i and 2i + 1; rope only.");
  rows.choice<RopeScaling>("rope_scaling", &ModelConfig::rope_scaling,
                           {{"none", RopeScaling::none},
                            {"linear", RopeScaling::linear},
                            {"llama3", RopeScaling::llama3}})
      .help("Stretching of the periods for longer sequences; rope only.");
  rows.real("rope_scaling_factor", &ModelConfig::rope_scaling_factor)
      .at_least(1)
      .help("Factor of the stretching; 1 leaves the periods alone. rope_scaling other than none.");
  rows.real("rope_low_freq_factor", &ModelConfig::rope_low_freq_factor)
      .above(0)
      .help("Periods longer than rope_original_length / this are stretched whole; llama3 only.");
  rows.real("rope_high_freq_factor", &ModelConfig::rope_high_freq_factor)
      .above(0)
      .help("Periods shorter than rope_original_length / this are left alone; llama3 only.");
  rows.integer("rope_original_length", &ModelConfig::rope_original_length)
      .unit("tokens")
      .between(1, 1 << 24)
      .also({"original_max_position_embeddings"})
      .help("Sequence length before the stretching; llama3 only.");
}

void add_layers(SectionRows<ModelConfig>& rows) {
  rows.choice<NormKind>("norm", &ModelConfig::norm,
                        {{"layernorm", NormKind::layernorm}, {"rmsnorm", NormKind::rmsnorm}})
      .also({"normalization", "norm_type"})
      .help("Normalisation of the residual stream.");
  rows.boolean("norm_bias", &ModelConfig::norm_bias)
      .help("Whether LayerNorm adds a bias; without effect with rmsnorm.");
  rows.real("norm_eps", &ModelConfig::norm_eps)
      .above(0)
      .below(1)
      .also({"layer_norm_eps", "rms_norm_eps", "layer_norm_epsilon"})
      .help("Added to the variance (or mean square) under the root.");
  rows.choice<Activation>("activation", &ModelConfig::activation,
                          {{"gelu_tanh", Activation::gelu_tanh},
                           {"gelu", Activation::gelu},
                           {"swiglu", Activation::swiglu}})
      .also({"hidden_act", "activation_function"})
      .help("Feed-forward nonlinearity: GELU by tanh as in GPT-2, exact GELU, or gated SiLU.");
  rows.boolean("bias", &ModelConfig::bias)
      .also({"use_bias", "attention_bias", "mlp_bias"})
      .help("Whether the linear layers add a bias.");
  rows.boolean("tie_embeddings", &ModelConfig::tie_embeddings)
      .also({"tie_word_embeddings", "tied_embeddings"})
      .help("Whether the output projection is the token embedding itself.");
  rows.choice<Residual>("residual", &ModelConfig::residual,
                        {{"sequential", Residual::sequential}, {"parallel", Residual::parallel}})
      .help("Attention then feed-forward, or both from one norm and added at once.");
  rows.boolean("qk_norm", &ModelConfig::qk_norm)
      .also({"use_qk_norm", "qk_layernorm"})
      .help("Whether queries and keys are normalised head by head before the product.");
  rows.real("logit_scale", &ModelConfig::logit_scale).above(0).help("Factor on the logits.");
  rows.real("embedding_dropout", &ModelConfig::embedding_dropout)
      .at_least(0)
      .below(1)
      .also({"embd_pdrop", "embedding_dropout_prob", "hidden_dropout"})
      .help("Probability that a channel of the embedding is dropped while training.");
  rows.real("attention_dropout", &ModelConfig::attention_dropout)
      .at_least(0)
      .below(1)
      .also({"attn_pdrop", "attention_probs_dropout_prob"})
      .help("Probability that a weight of the attention is dropped while training.");
  rows.real("residual_dropout", &ModelConfig::residual_dropout)
      .at_least(0)
      .below(1)
      .also({"resid_pdrop", "dropout", "hidden_dropout_prob"})
      .help("Probability that a channel of what a branch adds to the stream is dropped.");
  rows.real("init_std", &ModelConfig::init_std)
      .above(0)
      .at_most(10)
      .also({"initializer_range", "init_method_std"})
      .help("Standard deviation of the initial weights.");
  rows.boolean("init_scale_residual", &ModelConfig::init_scale_residual)
      .help("Whether projections into the residual stream start at init_std / sqrt(2 num_layers).");
}

}  // namespace

void add_model_keys(std::vector<Key>& table) {
  SectionRows rows(table, "model", &Config::model);
  add_sizes(rows);
  add_layers(rows);
  add_positions(rows);
}

}  // namespace espalier
