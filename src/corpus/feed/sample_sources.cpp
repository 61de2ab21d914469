// SPDX-License-Identifier: Apache-2.0
// Sources of samples and their shares.
#include "corpus/feed/sample_sources.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/log.hpp"
#include "corpus/feed/mixture.hpp"
#include "corpus/feed/packed_samples.hpp"
#include "deck/mixture_text.hpp"

namespace espalier {
namespace {

SampleSource make_source(TokenSource tokens, int64_t seq_length, const DataConfig& config) {
  SampleSource source;
  source.name = tokens.name;
  source.language = tokens.language;
  source.weight = tokens.weight;
  source.tokens = tokens.tokens();
  if (config.packing == Packing::best_fit) {
    auto packed = std::make_unique<PackedSamples>(
        std::move(tokens.parts), PackingRule{seq_length, config.long_documents}, config.verify);
    source.packing = packed->counts();
    source.samples = std::move(packed);
    return source;
  }
  // Files are named one by one, and one too short is a mistake; a store's last shard is not.
  const ShortArrays shorter = tokens.weight > 0.0 ? ShortArrays::leave_out : ShortArrays::refuse;
  source.samples = std::make_unique<ChunkSamples>(
      std::make_unique<ArrayWindows>(std::move(tokens.parts), seq_length, shorter), seq_length);
  return source;
}

std::string names_of(const std::vector<SampleSource>& sources) {
  std::string names;
  for (const SampleSource& source : sources) names += (names.empty() ? "" : ", ") + source.name;
  return names;
}

// Weights in the order of the sources.
std::vector<double> by_source(const std::vector<SourceWeight>& named,
                              const std::vector<SampleSource>& sources, const char* key) {
  std::vector<double> weights(sources.size(), -1.0);
  for (const SourceWeight& given : named) {
    const auto found =
        std::find_if(sources.begin(), sources.end(),
                     [&](const SampleSource& source) { return source.name == given.name; });
    if (found == sources.end())
      throw DeckError(fmt::format("{} names {}, but the sources of data.train are {}; name these",
                                  key, given.name, names_of(sources)));
    weights[static_cast<size_t>(found - sources.begin())] = given.weight;
  }
  for (size_t s = 0; s < sources.size(); ++s)
    if (weights[s] < 0.0)
      throw DeckError(fmt::format(
          "{} leaves out {} (the sources of data.train are {}); add it, with weight 0 if nothing "
          "of it is wanted",
          key, sources[s].name, names_of(sources)));
  return weights;
}

std::vector<int64_t> quotas_of(const std::vector<double>& weights,
                               const std::vector<SampleSource>& sources) {
  for (size_t s = 0; s < sources.size(); ++s)
    if (weights[s] > 0.0 && sources[s].samples->samples() == 0)
      throw DataError(fmt::format(
          "{}: its {} tokens fill no sequence, but it has a weight of {}; give it weight 0 or more "
          "text, or make batch.seq_length smaller",
          sources[s].name, sources[s].tokens, weights[s]));
  if (std::all_of(weights.begin(), weights.end(), [](double w) { return w == 0.0; }))
    throw DataError(
        "no source of data.train fills a sequence; give more text, or make batch.seq_length "
        "smaller");
  return mixture_quotas(weights);
}

bool have_unlike_weights(const std::vector<SampleSource>& sources) {
  const auto weight = [](const SampleSource& s) { return s.weight > 0.0 ? s.weight : 1.0; };
  return std::any_of(sources.begin(), sources.end(),
                     [&](const SampleSource& s) { return weight(s) != weight(sources.front()); });
}

std::vector<double> first_weights(const DataConfig& config,
                                  const std::vector<SampleSource>& sources) {
  if (!config.weights.empty()) {
    const auto read = read_weights(config.weights);
    if (!read.fault.empty()) throw DeckError(fmt::format("data.weights: {}; mend it", read.fault));
    return by_source(read.value, sources, "data.weights");
  }
  std::vector<double> weights;
  for (const SampleSource& source : sources) {
    const auto tokens = static_cast<double>(source.samples->samples() > 0 ? source.tokens : 0);
    const double factor = source.weight > 0.0 ? source.weight : 1.0;
    weights.push_back(config.temperature > 1.0 ? std::pow(tokens, 1.0 / config.temperature)
                                               : factor * tokens);
  }
  return weights;
}

}  // namespace

std::vector<SampleSource> make_sample_sources(std::vector<TokenSource> tokens, int64_t seq_length,
                                              const DataConfig& config) {
  std::vector<SampleSource> sources;
  for (TokenSource& source : tokens) {
    sources.push_back(make_source(std::move(source), seq_length, config));
    const SampleSource& made = sources.back();
    if (made.samples->samples() == 0)
      warn("{}: its {} tokens fill no sequence of {}, so nothing of it is seen", made.name,
           made.tokens, seq_length);
  }
  return sources;
}

std::vector<MixtureStage> make_mixture_stages(const DataConfig& config,
                                              const std::vector<SampleSource>& sources) {
  std::vector<MixtureStage> stages;
  const bool has_wish = !config.weights.empty() || !config.curriculum.empty();
  if (!has_wish &&
      (sources.size() == 1 || (config.temperature == 1.0 && !have_unlike_weights(sources))))
    return stages;
  stages.push_back({0, quotas_of(first_weights(config, sources), sources)});
  for (const std::string& item : config.curriculum) {
    const auto read = read_stage(item);
    if (!read.fault.empty())
      throw DeckError(fmt::format("data.curriculum: {} {}; mend it", item, read.fault));
    const auto weights = by_source(read.value.weights, sources, "data.curriculum");
    MixtureStage stage{read.value.step - 1, quotas_of(weights, sources)};
    if (stage.step == 0) stages.clear();
    stages.push_back(std::move(stage));
  }
  if (sources.size() == 1) stages.clear();  // names were checked; there is nothing to mix
  return stages;
}

}  // namespace espalier
