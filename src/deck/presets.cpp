// SPDX-License-Identifier: Apache-2.0
// The table of presets. Sources of the shapes:
//   gpt2    Radford et al. 2019, "Language models are unsupervised multitask learners", table 2,
//           with the sizes as released (openai/gpt-2, hparams.json: 124M, 355M, 774M, 1558M)
//   llama   Grattafiori et al. 2024, "The Llama 3 herd of models", arXiv:2407.21783, table 3;
//           1B: config.json of meta-llama/Llama-3.2-1B
//   cohere  config.json of CohereForAI/aya-23-8B and CohereForAI/aya-23-35B (the latter has the
//           shape of c4ai-command-r-v01), huggingface.co
#include "deck/presets.hpp"

namespace espalier {
namespace {

using Values = std::vector<std::pair<std::string, KeyValue>>;

// A size of 0 is left to the automatic value, which is the published one.
struct Shape {
  int64_t vocab, hidden, intermediate, layers, heads, kv_heads;
};

KeyValue word(const char* text) {
  return std::string(text);
}

Values sizes(const Shape& s) {
  Values values = {{"vocab_size", s.vocab},
                   {"hidden_size", s.hidden},
                   {"num_layers", s.layers},
                   {"num_heads", s.heads}};
  if (s.intermediate != 0) values.push_back({"intermediate_size", s.intermediate});
  if (s.kv_heads != 0) values.push_back({"num_kv_heads", s.kv_heads});
  return values;
}

Values operator+(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Preset gpt2(const char* name, int64_t hidden, int64_t layers, int64_t heads) {
  const Values family = {{"norm", word("layernorm")},
                         {"norm_bias", true},
                         {"norm_eps", 1e-5},
                         {"position", word("learned")},
                         {"activation", word("gelu_tanh")},
                         {"bias", true},
                         {"tie_embeddings", true},
                         {"residual", word("sequential")},
                         {"init_std", 0.02},
                         {"init_scale_residual", true}};
  return {name, "Radford et al. 2019, table 2, and the released hparams.json",
          sizes({50257, hidden, 0, layers, heads, 0}) + family, 1024};
}

Values llama_family(bool tied) {
  return {{"norm", word("rmsnorm")}, {"norm_eps", 1e-5},           {"position", word("rope")},
          {"rope_theta", 500000.0},  {"rope_style", word("half")}, {"activation", word("swiglu")},
          {"bias", false},           {"tie_embeddings", tied},     {"residual", word("sequential")},
          {"init_std", 0.02}};
}

// Llama 3.2 stretches the periods of 8,192 trained positions by 32.
Values llama32_scaling() {
  return {{"rope_scaling", word("llama3")},
          {"rope_scaling_factor", 32.0},
          {"rope_low_freq_factor", 1.0},
          {"rope_high_freq_factor", 4.0},
          {"rope_original_length", int64_t{8192}}};
}

Preset cohere(const char* name, const char* source, const Shape& shape, double theta) {
  const Values family = {
      {"norm", word("layernorm")},    {"norm_bias", false},    {"norm_eps", 1e-5},
      {"position", word("rope")},     {"rope_theta", theta},   {"rope_style", word("interleaved")},
      {"activation", word("swiglu")}, {"bias", false},         {"tie_embeddings", true},
      {"residual", word("parallel")}, {"logit_scale", 0.0625}, {"init_std", 0.02}};
  return {name, source, sizes(shape) + family, 0};
}

std::vector<Preset> make_presets() {
  const char* herd = "Grattafiori et al. 2024, arXiv:2407.21783, table 3";
  return {
      gpt2("gpt2-124m", 768, 12, 12),
      gpt2("gpt2-355m", 1024, 24, 16),
      gpt2("gpt2-774m", 1280, 36, 20),
      gpt2("gpt2-1558m", 1600, 48, 25),
      {"llama-1b", "config.json of meta-llama/Llama-3.2-1B",
       sizes({128256, 2048, 8192, 16, 32, 8}) + llama_family(true) + llama32_scaling(), 0},
      {"llama-8b", herd, sizes({128256, 4096, 14336, 32, 32, 8}) + llama_family(false), 0},
      {"llama-70b", herd, sizes({128256, 8192, 28672, 80, 64, 8}) + llama_family(false), 0},
      cohere("cohere-8b", "config.json of CohereForAI/aya-23-8B", {256000, 4096, 14336, 32, 32, 8},
             10000.0),
      cohere("cohere-35b", "config.json of CohereForAI/aya-23-35B, the shape of Command R v01",
             {256000, 8192, 22528, 40, 64, 64}, 8e6),
  };
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> table = make_presets();
  return table;
}

const Preset* find_preset(const std::string& name) {
  for (const Preset& preset : presets())
    if (preset.name == name) return &preset;
  return nullptr;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names = {"none"};
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

}  // namespace espalier
