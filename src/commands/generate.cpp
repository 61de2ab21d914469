// SPDX-License-Identifier: Apache-2.0
// espalier generate RUN: continues a prompt with the model of a run, or of a checkpoint.
#include <filesystem>
#include <memory>
#include <optional>

#include "checkpoint/state_file.hpp"
#include "commands/checkpoint_place.hpp"
#include "commands/run_folder.hpp"
#include "commands/spmd_context.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"
#include "corpus/utf8.hpp"
#include "engine/generator.hpp"
#include "engine/sampling.hpp"

namespace espalier {
namespace {

struct GenerateRequest {
  std::string run, prompt;
  std::string tokenizer;  // folder; empty: the run's
  int64_t tokens = 256;
  SamplingOptions sampling;
};

// Feeds `next`; when the sequence is full, starts again with its second half as context.
std::vector<float> feed_sliding(Generator<float>& generator, std::vector<int32_t>& context,
                                const std::vector<int32_t>& next) {
  context.insert(context.end(), next.begin(), next.end());
  if (generator.position() + static_cast<int64_t>(next.size()) <= generator.capacity())
    return generator.feed(next);
  const int64_t keep = std::max<int64_t>(1, generator.capacity() / 2);
  context.erase(context.begin(), context.end() - std::min<int64_t>(keep, context.size()));
  generator.reset();
  return generator.feed(context);
}

void check(const GenerateRequest& r) {
  const auto refuse = [](const std::string& what) { throw DeckError(what); };
  if (!(r.sampling.temperature >= 0.0))
    refuse(fmt::format("--temperature {} (must be 0 or more); 0 takes the likeliest token",
                       r.sampling.temperature));
  if (!(r.sampling.top_p > 0.0 && r.sampling.top_p <= 1.0))
    refuse(fmt::format("--top-p {} (must be above 0 and at most 1)", r.sampling.top_p));
  if (r.sampling.top_k < 0)
    refuse(fmt::format("--top-k {} (must be 0 or more; 0 means all)", r.sampling.top_k));
  if (r.tokens < 1) refuse(fmt::format("--tokens {} (must be at least 1)", r.tokens));
}

/// The parameters of a run: model.h5, or what its newest checkpoint holds while there is none.
struct ModelSource {
  std::string path, deck;
  std::optional<CheckpointManifest> manifest;  // of a checkpoint
  void read(const std::vector<TensorRow>& rows, float* flat) const;
};

ModelSource find_model(const std::string& run) {
  namespace fs = std::filesystem;
  const RunFolder folder{run};
  std::error_code error;
  const bool is_checkpoint = fs::exists(fs::path(run) / kManifestFile, error);
  if (!is_checkpoint &&
      (fs::exists(folder.model(), error) || !fs::exists(folder.checkpoints(), error)))
    return {folder.model(), read_model_info(folder.model(), nullptr).deck, std::nullopt};
  const CheckpointEntry entry = find_places(run, Choose::newest_whole).front().entry;
  if (!entry.is_whole()) throw DataError(fmt::format("{}: {}", entry.path, entry.fault));
  return {entry.path, entry.manifest.deck, entry.manifest};
}

// That of the run, which train copied from its store. A run on files that do not bring one was of
// bytes in all releases before stores.
std::unique_ptr<Tokenizer> find_tokenizer(const GenerateRequest& request, const ModelSource& model,
                                          const Config& config) {
  namespace fs = std::filesystem;
  std::string folder = request.tokenizer;
  std::error_code error;
  // RUN/model.h5, or RUN/checkpoints/step-N.
  for (fs::path place = fs::absolute(model.path).parent_path();
       folder.empty() && place.has_relative_path() && place != place.root_path();
       place = place.parent_path()) {
    const std::string candidate = RunFolder{place.string()}.tokenizer();
    if (fs::is_directory(candidate, error)) folder = candidate;
    if (place.filename() != fs::path(RunFolder{"x"}.checkpoints()).filename()) break;
  }
  std::unique_ptr<Tokenizer> tokenizer;
  if (!folder.empty()) {
    tokenizer = open_tokenizer(folder, "");
  } else {
    tokenizer = std::make_unique<ByteTokenizer>();
    if (config.model.vocab_size != tokenizer->vocab_size())
      warn(
          "{}: no tokenizer lies beside it, so its ids are taken for bytes; name the folder of one "
          "with --tokenizer (STORE/tokenizer)",
          model.path);
  }
  if (config.model.vocab_size < tokenizer->vocab_size())
    throw DataError(fmt::format("{} has a vocabulary of {}, fewer than the {} of tokenizer {}",
                                model.path, config.model.vocab_size, tokenizer->vocab_size(),
                                tokenizer->name()));
  return tokenizer;
}

void ModelSource::read(const std::vector<TensorRow>& rows, float* flat) const {
  if (!manifest) {
    read_model(path, nullptr, rows, flat);
    return;
  }
  StateReader reader(path, manifest->files, nullptr);
  reader.require_those_of(manifest->step, manifest->state_digest);
  reader.require(rows, StoredType::fp32);
  TensorSlabs whole = whole_slabs(rows, static_cast<const float*>(flat));
  add_group(whole, kParameterGroup);
  reader.read(targets_of(whole));
}

int generate(const GenerateRequest& request) {
  check(request);
  if (mpi_session().size() != 1)
    throw LaunchError(
        fmt::format("generate runs on one rank, but {} were started; start it without mpiexec",
                    mpi_session().size()));
  // The file says which model it holds; the grid that trained it does not matter here.
  const ModelSource model = find_model(request.run);
  const DeckResult deck = parse_deck(
      model.deck, model.path + ":deck",
      {"grid.data_parallel=1", "grid.tensor_parallel=1", "grid.pipeline_parallel=1",
       "grid.pipeline_schedule=1f1b", "grid.virtual_stages=1", "grid.stage_blocks=[]",
       "grid.stage_balance=cost", "grid.sequence_parallel=false", "grid.zero_stage=0",
       "grid.zero_shards=0", "numerics.reproducible=false", "numerics.virtual_tensor_parallel=1",
       "numerics.compute_type=fp32", "numerics.gradient_reduce_type=fp32", "numerics.graphs=false",
       "numerics.master_type=fp32", "grid.device_transport=auto"});
  if (!deck.ok())
    throw DataError(
        fmt::format("the deck in {} cannot be read: {}", model.path, deck.faults.front().text()));
  Config config = deck.config;
  config.grid.data_parallel = 1;
  config.batch.micro_batch_size = config.batch.global_batch_size = 1;
  compute_session().start(config);
  const Blueprint blueprint = make_blueprint(config, 1);
  ParameterStore<float> parameters(blueprint.parameters);
  model.read(tensor_rows(blueprint.parameters), parameters.master());
  parameters.refresh_compute_copy();

  const std::unique_ptr<Tokenizer> opened = find_tokenizer(request, model, config);
  const Tokenizer& tokenizer = *opened;
  const int32_t end = tokenizer.end_of_document();
  std::vector<int32_t> prompt = tokenizer.encode(request.prompt);
  if (prompt.empty()) prompt.push_back(end);
  if (static_cast<int64_t>(prompt.size()) > config.batch.seq_length)
    throw DeckError(
        fmt::format("the prompt has {} tokens, but the model sees at most {} "
                    "(batch.seq_length); shorten it",
                    prompt.size(), config.batch.seq_length));
  Generator<float> generator(blueprint, parameters);
  std::vector<int32_t> context, written;
  std::vector<float> logits = feed_sliding(generator, context, prompt);
  for (int64_t i = 0; i < request.tokens; ++i) {
    logits.resize(tokenizer.vocab_size());  // ids beyond the tokenizer's mean nothing
    const int32_t token = sample_token(logits, request.sampling, static_cast<uint64_t>(i));
    if (token == end) break;
    written.push_back(token);
    logits = feed_sliding(generator, context, {token});
  }
  print_line(request.prompt + printable_text(tokenizer.decode(written)));
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, Action& action) {
  const auto r = std::make_shared<GenerateRequest>();
  CLI::App* verb = app.add_subcommand("generate", "Continue a prompt with the model of a run");
  verb->add_option("RUN", r->run, "Folder of the run (run.directory), or of a checkpoint")
      ->required();
  verb->add_option("--prompt", r->prompt, "Text to continue; empty: the start of a document");
  verb->add_option("--tokenizer", r->tokenizer,
                   "Folder of the tokenizer (STORE/tokenizer); default: the run's copy");
  verb->add_option("--tokens", r->tokens, "Most tokens to write (default 256)");
  verb->add_option("--temperature", r->sampling.temperature, "0: the likeliest token (default 1)");
  verb->add_option("--top-k", r->sampling.top_k, "Only the k likeliest tokens; 0: all (default)");
  verb->add_option("--top-p", r->sampling.top_p,
                   "Only the likeliest tokens of this total probability (default 1)");
  verb->add_option("--seed", r->sampling.seed, "The same seed gives the same text (default 1)");
  verb->callback([r, &action] { action = [r] { return generate(*r); }; });
}

}  // namespace espalier
