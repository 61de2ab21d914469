// SPDX-License-Identifier: Apache-2.0
#include "model_cases.hpp"

#include "draw.hpp"
#include "model_problem.hpp"

namespace espalier::check {
namespace {

template <class Change>
ModelCase make_case(const std::string& name, int64_t mean_document, const Change& change) {
  ModelCase c{name, small_config(), mean_document};
  change(c.config);
  return c;
}

Config random_config(Draw& draw) {
  Config c = small_config();
  ModelConfig& m = c.model;
  m.vocab_size = draw.integer(5, 40);
  m.hidden_size = draw.integer(3, 21);
  m.intermediate_size = draw.integer(3, 37);
  m.num_layers = draw.integer(1, 3);
  m.num_kv_heads = draw.integer(1, 3);
  m.num_heads = m.num_kv_heads * draw.choose<int64_t>({1, 2, 4});
  m.head_dim = 2 * draw.integer(2, 5);
  m.norm = draw.choose<NormKind>({NormKind::layernorm, NormKind::rmsnorm});
  m.norm_bias = draw.chance(0.5);
  m.norm_eps = draw.choose<double>({1e-6, 1e-5, 1e-2});
  m.position =
      draw.choose<PositionKind>({PositionKind::learned, PositionKind::rope, PositionKind::none});
  m.rope_theta = draw.choose<double>({100.0, 10000.0});
  m.rope_style = draw.choose<RopeStyle>({RopeStyle::half, RopeStyle::interleaved});
  m.rope_scaling =
      draw.choose<RopeScaling>({RopeScaling::none, RopeScaling::linear, RopeScaling::llama3});
  m.rope_scaling_factor = draw.real(1.0, 8.0);
  m.rope_original_length = draw.integer(8, 64);
  m.activation =
      draw.choose<Activation>({Activation::gelu_tanh, Activation::gelu, Activation::swiglu});
  m.bias = draw.chance(0.5);
  m.tie_embeddings = draw.chance(0.5);
  m.residual = draw.choose<Residual>({Residual::sequential, Residual::parallel});
  m.qk_norm = draw.chance(0.5);
  m.logit_scale = draw.choose<double>({1.0, 0.3});
  c.batch.seq_length = draw.choose<int64_t>({1, 5, 19, 63, 64, 65, 83});
  c.batch.micro_batch_size = c.batch.global_batch_size = draw.integer(1, 3);
  c.data.document_mask = draw.chance(0.7);
  c.data.reset_positions = draw.chance(0.5);
  if (draw.chance(0.3)) set_dropout(c.model, draw.real(0.05, 0.5));
  return c;
}

// As published models have them.
std::vector<ModelCase> families() {
  std::vector<ModelCase> cases;
  cases.push_back(make_case("gpt2", 0, [](Config&) {}));
  cases.push_back(make_case("gpt2_untied_exact_gelu", 5, [](Config& c) {
    c.model.tie_embeddings = false;
    c.model.activation = Activation::gelu;
  }));
  cases.push_back(make_case("llama", 6, [](Config& c) {
    c.model.norm = NormKind::rmsnorm;
    c.model.position = PositionKind::rope;
    c.model.activation = Activation::swiglu;
    c.model.bias = false;
    c.model.tie_embeddings = false;
    c.model.num_kv_heads = 2;
  }));
  cases.push_back(make_case("cohere", 6, [](Config& c) {
    c.model.norm_bias = false;
    c.model.position = PositionKind::rope;
    c.model.rope_style = RopeStyle::interleaved;
    c.model.activation = Activation::swiglu;
    c.model.bias = false;
    c.model.residual = Residual::parallel;
    c.model.logit_scale = 0.25;
    c.model.num_kv_heads = 1;
  }));
  return cases;
}

// What no family has, and sizes beside every tile.
void add_mixtures(std::vector<ModelCase>& cases) {
  cases.push_back(make_case("parallel_biased_qk_norm", 4, [](Config& c) {
    c.model.residual = Residual::parallel;
    c.model.qk_norm = true;
    c.model.position = PositionKind::rope;
    c.model.num_kv_heads = 2;
    c.data.reset_positions = false;
  }));
  cases.push_back(make_case("rmsnorm_qk_norm_no_position", 0, [](Config& c) {
    c.model.norm = NormKind::rmsnorm;
    c.model.qk_norm = true;
    c.model.position = PositionKind::none;
  }));
  cases.push_back(make_case("layernorm_qk_norm_no_position", 4, [](Config& c) {
    c.model.qk_norm = true;
    c.model.position = PositionKind::none;
  }));
  cases.push_back(make_case("every_token_a_document", 1, [](Config& c) {
    c.model.position = PositionKind::rope;
    c.model.rope_scaling = RopeScaling::linear;
    c.model.rope_scaling_factor = 3.0;
  }));
  cases.push_back(make_case("tiles_and_odd_sizes", 90, [](Config& c) {
    c.batch.seq_length = 259;
    c.batch.micro_batch_size = c.batch.global_batch_size = 1;
    c.model.hidden_size = 7;
    c.model.intermediate_size = 33;
    c.model.num_layers = 1;
    c.model.num_kv_heads = 2;
    c.model.position = PositionKind::rope;
    c.model.rope_scaling = RopeScaling::llama3;
    c.model.rope_scaling_factor = 8.0;
    c.model.rope_original_length = 64;
  }));
  cases.push_back(make_case("dropout", 0, [](Config& c) { set_dropout(c.model, 0.3); }));
  cases.push_back(make_case("parallel_dropout", 5, [](Config& c) {
    set_dropout(c.model, 0.2);
    c.model.residual = Residual::parallel;
    c.model.position = PositionKind::rope;
    c.model.activation = Activation::swiglu;
    c.model.num_kv_heads = 2;
  }));
  cases.push_back(make_case("one_token", 0, [](Config& c) {
    c.batch.seq_length = 1;
    c.model.num_layers = 1;
  }));
}

}  // namespace

void PrintTo(const ModelCase& c, std::ostream* out) {
  *out << c.name;
}

std::vector<ModelCase> named_cases() {
  std::vector<ModelCase> cases = families();
  add_mixtures(cases);
  return cases;
}

std::vector<ModelCase> all_cases() {
  std::vector<ModelCase> cases = named_cases();
  for (uint64_t seed = 1; seed <= 14; ++seed) {
    Draw draw(seed);
    Config config = random_config(draw);
    cases.push_back({"random" + std::to_string(seed), config, draw.integer(1, 12)});
  }
  return cases;
}

}  // namespace espalier::check
