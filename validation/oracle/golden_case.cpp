// SPDX-License-Identifier: Apache-2.0
// Reads a gradient dump of fp32 parameters for tests.
#include "golden_case.hpp"

#include <algorithm>

#include "checkpoint/gradient_dump.hpp"
#include "checkpoint/model_attributes.hpp"
#include "core/error.hpp"
#include "deck/deck.hpp"
#include "deck/key_table.hpp"

namespace espalier {

namespace {

Config read_config(TensorFileReader& file) {
  const DeckResult deck = parse_deck(file.read_text("deck"), file.path() + "/deck");
  std::string faults;
  for (const Fault& fault : deck.faults) faults += "\n  " + fault.text();
  if (!deck.ok()) throw DataError(file.path() + ": the deck in it has faults:" + faults);
  Config config = deck.config;
  read_model_attributes(file, "model", config);
  for (const Key& key : key_table())
    if (key.section == "model" && key.get(config) != key.get(deck.config))
      throw DataError(
          fmt::format("{}: deck and attributes disagree about {}", file.path(), key.full_name()));
  return config;
}

std::vector<int32_t> read_tokens(TensorFileReader& file, const std::string& name,
                                 const GoldenCase& c, int64_t lowest, int64_t bound) {
  file.require("tokens/" + name, {c.sequences, c.length}, StoredType::int32);
  std::vector<int32_t> tokens = file.read_values<int32_t>("tokens/" + name);
  for (const int32_t t : tokens)
    if (t < lowest || t >= bound)
      throw DataError(fmt::format("{}: tokens/{}: {} is outside {} to {}", file.path(), name, t,
                                  lowest, bound - 1));
  return tokens;
}

}  // namespace

std::vector<double> GoldenCase::values(const std::vector<float>& flat,
                                       const ParameterSpec& tensor) const {
  const auto first = flat.begin() + tensor.offset;
  return {first, first + tensor.size()};
}

GoldenCase load_golden_case(const std::string& path) {
  TensorFileReader file(path, nullptr);
  const int64_t version = file.integer_attribute("", "format_version");
  // Version 1, which the golden files are, is the same without checksums.
  if (file.text_attribute("", "format") != kGradientDumpFormat ||
      (version != 1 && version != kGradientDumpVersion))
    throw DataError(path + ": is not a gradient dump of the version that this program reads");
  GoldenCase c;
  c.config = read_config(file);
  const Shape shape = file.info("tokens/inputs").shape;
  if (shape.size() != 2 || shape[0] < 1 || shape[1] != c.config.batch.seq_length)
    throw DataError(fmt::format("{}: tokens/inputs: found {}, expected [*, {}]", path,
                                shape_text(shape), c.config.batch.seq_length));
  c.sequences = shape[0];
  c.length = shape[1];
  const int64_t vocab = c.config.model.vocab_size;
  c.inputs = read_tokens(file, "inputs", c, 0, vocab);
  c.targets = read_tokens(file, "targets", c, -1, vocab);
  c.positions = read_tokens(file, "positions", c, 0, c.length);
  c.document_start = read_tokens(file, "document_start", c, 0, c.length);
  c.valid_tokens =
      std::count_if(c.targets.begin(), c.targets.end(), [](int32_t t) { return t >= 0; });
  c.config.batch.micro_batch_size = c.config.batch.global_batch_size = c.sequences;
  c.config.grid.data_parallel = 1;
  c.blueprint = make_blueprint(c.config, 1);
  const std::vector<TensorRow> rows = tensor_rows(c.blueprint.parameters);
  c.parameters.assign(static_cast<size_t>(c.blueprint.parameters.flat_size), 0.0f);
  c.gradients = c.parameters;
  read_rows(file, "parameters", rows, c.parameters.data());
  read_rows(file, "gradients", rows, c.gradients.data());
  c.loss = file.read_values<double>("loss").front();
  return c;
}

}  // namespace espalier
