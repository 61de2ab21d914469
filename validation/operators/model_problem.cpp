// SPDX-License-Identifier: Apache-2.0
#include "model_problem.hpp"

namespace espalier::check {

Config small_config() {
  Config c;
  c.model.vocab_size = 23;
  c.model.hidden_size = 12;
  c.model.intermediate_size = 20;
  c.model.num_layers = 2;
  c.model.num_heads = 4;
  c.model.num_kv_heads = 4;
  c.model.head_dim = 4;
  c.batch.seq_length = 17;
  c.batch.micro_batch_size = 2;
  c.batch.global_batch_size = 2;
  c.grid.data_parallel = 1;
  c.numerics.compute_type = ElementType::fp64;
  return c;
}

bool has_dropout(const ModelConfig& m) {
  return m.embedding_dropout > 0 || m.attention_dropout > 0 || m.residual_dropout > 0;
}

void set_dropout(ModelConfig& m, double probability) {
  m.embedding_dropout = m.attention_dropout = m.residual_dropout = probability;
}

Tokens draw_tokens(const Config& config, int64_t mean_document, Draw& draw) {
  Tokens tokens;
  tokens.sequences = config.batch.micro_batch_size;
  tokens.length = config.batch.seq_length;
  const int64_t last_token = config.model.vocab_size - 1;
  for (int64_t s = 0; s < tokens.sequences; ++s) {
    const auto start =
        draw_documents(draw, tokens.length, config.data.document_mask ? mean_document : 0);
    for (int64_t t = 0; t < tokens.length; ++t) {
      tokens.inputs.push_back(static_cast<int32_t>(draw.integer(0, last_token)));
      tokens.targets.push_back(
          draw.chance(0.125) ? -1 : static_cast<int32_t>(draw.integer(0, last_token)));
      tokens.document_start.push_back(start[t]);
      const int64_t position = config.data.reset_positions ? t - start[t] : t;
      tokens.positions.push_back(static_cast<int32_t>(position));
    }
  }
  if (!has_dropout(config.model)) return tokens;
  const int64_t first = draw.integer(0, 1000) * tokens.length;
  for (int64_t s = 0; s < tokens.sequences; ++s)
    tokens.first_token.push_back(first + s * tokens.length);
  return tokens;
}

std::vector<double> draw_parameters(const ParameterTable& table, Draw& draw) {
  std::vector<double> flat(table.flat_size, 0.0);
  for (const auto& p : table.parameters) {
    const bool is_scale = p.initializer == Initializer::ones;
    const auto values = draw.normals(p.size(), is_scale ? 0.2 : 0.35, is_scale ? 1.0 : 0.0);
    std::copy(values.begin(), values.end(), flat.begin() + p.offset);
  }
  return flat;
}

}  // namespace espalier::check
