// SPDX-License-Identifier: Apache-2.0
// Writing the gradient dump.
#include "checkpoint/gradient_dump.hpp"

#include "checkpoint/model_attributes.hpp"

namespace espalier {

void write_gradient_dump(const std::string& path, const Comm* ranks,
                         const std::vector<TensorRow>& rows, const StateTypes& types,
                         const TensorSlabs& parameters, const TensorSlabs& gradients,
                         const DumpTokens& tokens, const Config& config, const DumpInfo& info) {
  TensorFileWriter file(path, ranks);
  file.set_attribute("", "format", kGradientDumpFormat);
  file.set_attribute("", "format_version", kGradientDumpVersion);
  file.set_attribute("", "program_version", info.program_version);
  file.write_text("deck", info.deck);
  write_model_attributes(file, "model", config);
  const Shape shape{tokens.global_batch, tokens.seq_length};
  file.write_tensor("tokens/inputs", shape, tokens.inputs);
  file.write_tensor("tokens/targets", shape, tokens.targets);
  file.write_tensor("tokens/positions", shape, tokens.positions);
  file.write_tensor("tokens/document_start", shape, tokens.document_start);
  file.write_tensor("loss", {}, &info.loss);
  write_rows(file, "parameters", rows, types.parameters, parameters);
  write_rows(file, "gradients", rows, types.moments, gradients);
  file.close();
}

}  // namespace espalier
