// SPDX-License-Identifier: Apache-2.0
// From samples of tokens to micro-batches with targets, positions and document starts.
#include "corpus/batch_source.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/random.hpp"
#include "corpus/hash.hpp"
#include "corpus/store/held_out_check.hpp"

namespace espalier {
namespace {

// Passes over the same text that are about as good as new text (Muennighoff et al. 2023).
constexpr double kHarmlessEpochs = 4.0;

// Held-out loss means nothing with another tokenizer, or on the text that was trained on.
void compare_with_training(const OpenTokens& held_out, const Config& config) {
  DataConfig as_is = config.data;
  as_is.verify = VerifyData::header;
  const OpenTokens train =
      open_tokens(config.data.train, Stream::train, as_is, config.model.vocab_size);
  require_same_tokenizer(train, held_out);
  require_disjoint(train, held_out);
}

OpenTokens open_files(const Config& config, Stream stream) {
  if (config.data.source == DataSource::random) return {};
  const bool training = stream == Stream::train;
  const std::vector<std::string>& paths = training ? config.data.train : config.data.validation;
  OpenTokens tokens = open_tokens(paths, stream, config.data, config.model.vocab_size);
  if (!training && !config.data.train.empty()) compare_with_training(tokens, config);
  return tokens;
}

}  // namespace

BatchSource::BatchSource(const Config& config, Stream stream)
    : BatchSource(config, stream, open_files(config, stream)) {}

BatchSource::BatchSource(const Config& config, Stream stream, OpenTokens tokens)
    : seq_length_(config.batch.seq_length),
      micro_batch_size_(config.batch.micro_batch_size),
      global_batch_size_(config.batch.global_batch_size),
      document_mask_(config.data.document_mask),
      reset_positions_(config.data.reset_positions) {
  ESPALIER_REQUIRE(seq_length_ >= 1 && seq_length_ < std::numeric_limits<int32_t>::max() &&
                       micro_batch_size_ >= 1 && global_batch_size_ % micro_batch_size_ == 0,
                   "seq_length {}, micro_batch_size {}, global_batch_size {}", seq_length_,
                   micro_batch_size_, global_batch_size_);
  stream_ = make_stream(config, stream, std::move(tokens));
  if (stream == Stream::validation) {
    spread_validation(config);
    return;
  }
  kept_ = KeptPositions(config.data.skip);
  if (config.data.balance == BalanceWork::attention && document_mask_)
    deals_ = std::make_unique<StepDeals>([this](int64_t step) { return deal(step); });
  stream_->begin([this](int64_t step) { return position_of(step); });
}

std::unique_ptr<SampleStream> BatchSource::make_stream(const Config& config, Stream stream,
                                                       OpenTokens tokens) {
  const auto seed = static_cast<uint64_t>(config.run.seed);
  std::vector<SampleSource> sources;
  if (config.data.source == DataSource::random) {
    const uint64_t purpose =
        hash_name(stream == Stream::train ? "data.random.train" : "data.random.validation");
    auto windows =
        std::make_unique<RandomWindows>(seed, purpose, config.model.vocab_size, seq_length_);
    end_of_document_ = windows->end_of_document();
    SampleSource& random = sources.emplace_back();
    random.name = "random";
    random.samples = std::make_unique<ChunkSamples>(std::move(windows), seq_length_);
    return std::make_unique<SampleStream>(seed, std::move(sources), std::vector<MixtureStage>{});
  }
  tokenizer_ = tokens.tokenizer;
  tokenizer_folder_ = tokens.tokenizer_folder;
  end_of_document_ = tokens.end_of_document;
  sources = make_sample_sources(std::move(tokens.sources), seq_length_, config.data);
  std::vector<MixtureStage> stages;
  if (stream == Stream::train) stages = make_mixture_stages(config.data, sources);
  return std::make_unique<SampleStream>(seed, std::move(sources), std::move(stages));
}

void BatchSource::spread_validation(const Config& config) {
  batches_ = config.monitor.validation_batches;
  if (stream_->is_endless()) return;
  const int64_t available = windows() / global_batch_size_;
  if (available < 1) {
    const std::vector<std::string>& paths = config.data.validation;
    throw DataError(fmt::format(
        "data.validation: {} windows of {} tokens in {} file(s) from {} on, but one global batch "
        "takes {}; hold out more text (corpus build --held-out), or make "
        "batch.global_batch_size or batch.seq_length smaller",
        windows(), seq_length_, paths.size(), paths.empty() ? "?" : paths.front(),
        global_batch_size_));
  }
  batches_ = std::min(available, config.monitor.validation_batches);
  spread_ = batches_ * global_batch_size_;
}

void BatchSource::continue_from(int64_t step, int64_t position, const MixtureState& state) {
  first_step_ = step;
  first_position_ = position;
  if (deals_) deals_->forget();
  stream_->resume(step, position, state, [this](int64_t s) { return position_of(s); });
}

int64_t BatchSource::position_of(int64_t step, int64_t sequence) const {
  return kept_.after(first_position_, (step - first_step_) * global_batch_size_ + sequence);
}

MixtureState BatchSource::mixture_at(int64_t step) const {
  return stream_->state_at(position_of(step));
}

std::vector<IntegerRange> BatchSource::skipped_in(int64_t step) const {
  const int64_t begin =
      step == first_step_ ? first_position_ : position_of(step - 1, global_batch_size_ - 1) + 1;
  return kept_.skipped_between(begin, position_of(step, global_batch_size_ - 1) + 1);
}

double BatchSource::epochs(int64_t steps) const {
  if (windows() == TokenWindows::kEndless) return 0.0;
  return static_cast<double>(steps) * static_cast<double>(global_batch_size_) /
         static_cast<double>(windows());
}

std::vector<SourceUse> BatchSource::sources(int64_t step) const {
  const int64_t position = position_of(step);
  const std::vector<double> shares = stream_->shares_at(position);
  const std::vector<double> epochs = stream_->epochs_before(position);
  std::vector<SourceUse> uses;
  for (size_t s = 0; s < shares.size(); ++s) {
    const SampleSource& source = stream_->sources()[s];
    uses.push_back({source.name, source.language, source.tokens, source.samples->samples(),
                    shares[s], epochs[s]});
  }
  return uses;
}

std::vector<std::string> BatchSource::repeats(int64_t steps, double above, double up_to) const {
  std::vector<std::string> lines;
  for (const SourceUse& use : sources(steps))
    if (use.epochs > above && use.epochs <= up_to)
      lines.push_back(fmt::format("source {} ({} tokens) is gone through {:.1f} times in {} steps",
                                  use.name, use.tokens, use.epochs, steps));
  return lines;
}

std::vector<std::string> BatchSource::repeat_warnings(int64_t steps) const {
  std::vector<std::string> lines =
      repeats(steps, kHarmlessEpochs, std::numeric_limits<double>::infinity());
  for (std::string& line : lines)
    line +=
        "; beyond about 4 times text teaches little (Muennighoff et al. 2023, arXiv 2305.16264): "
        "give more of it, or a smaller weight";
  return lines;
}

std::vector<std::string> BatchSource::repeat_notes(int64_t steps) const {
  return repeats(steps, 1.0, kHarmlessEpochs);
}

PackingCounts BatchSource::packing() const {
  PackingCounts sum;
  for (const SampleSource& source : stream_->sources()) sum += source.packing;
  return sum;
}

SampleStream::Place BatchSource::place_of(int64_t position) const {
  if (spread_ > 0) return stream_->in_row(spread_window(position, spread_, windows()));
  return stream_->at(position);
}

std::vector<int64_t> BatchSource::deal(int64_t step) const {
  std::vector<int64_t> work;
  for (int64_t i = 0; i < global_batch_size_; ++i) {
    const SampleStream::Place place = place_of(position_of(step, i));
    work.push_back(stream_->set(place).work(place.sample));
  }
  return deal_by_work(work, micro_batch_size_);
}

void BatchSource::fill(int64_t step, int64_t micro_batch, MicroBatch& out) const {
  ESPALIER_REQUIRE(position_of(step) >= 0 && step < batches_ && micro_batch >= 0 &&
                       micro_batch < micro_batches(),
                   "step {} of {}, micro-batch {} of {}", step, batches_, micro_batch,
                   micro_batches());
  const auto size = static_cast<size_t>(micro_batch_size_ * seq_length_);
  out.sequences = micro_batch_size_;
  out.length = seq_length_;
  for (auto* array : {&out.inputs, &out.targets, &out.positions, &out.document_start}) {
    array->resize(size);
  }
  out.first_token.resize(static_cast<size_t>(micro_batch_size_));
  out.valid_tokens = out.padding = out.attention_work = 0;
  out.token_hash = 0;
  const auto order = deals_ ? deals_->of(step) : nullptr;
  Sample sample;
  for (int64_t row = 0; row < micro_batch_size_; ++row) {
    int64_t sequence = micro_batch * micro_batch_size_ + row;
    if (order) sequence = (*order)[static_cast<size_t>(sequence)];
    const int64_t position = position_of(step, sequence);
    out.first_token[static_cast<size_t>(row)] = position * seq_length_;
    fill_sequence(position, row, sample, out);
  }
}

void BatchSource::fill_sequence(int64_t position, int64_t row, Sample& sample,
                                MicroBatch& out) const {
  const SampleStream::Place place = place_of(position);
  stream_->set(place).read(place.sample, sample);
  out.attention_work += attention_work(sample, end_of_document_, document_mask_);
  out.padding += seq_length_ - sample.filled;
  std::vector<int32_t>& tokens = sample.tokens;
  const auto length = static_cast<size_t>(seq_length_), filled = static_cast<size_t>(sample.filled);
  const size_t offset = static_cast<size_t>(row) * length;
  int32_t start = 0;
  size_t next_end = 0;
  for (size_t i = 0; i < filled; ++i) {
    const auto index = static_cast<int32_t>(i);
    const bool is_end = next_end < sample.ends.size() && sample.ends[next_end] == index + 1;
    if (is_end) ++next_end;
    const bool ends = document_mask_ && (is_end || tokens[i] == end_of_document_);
    const int32_t target = ends ? -1 : tokens[i + 1];
    out.inputs[offset + i] = tokens[i];
    out.targets[offset + i] = target;
    out.document_start[offset + i] = start;
    out.positions[offset + i] = reset_positions_ ? index - start : index;
    out.valid_tokens += target >= 0 ? 1 : 0;
    if (ends) start = index + 1;  // the end token still belongs to the document that it ends
  }
  for (size_t i = filled; i < length; ++i) {  // attends to itself, predicts nothing
    tokens[i] = std::max(end_of_document_, 0);
    out.inputs[offset + i] = tokens[i];
    out.targets[offset + i] = -1;
    out.document_start[offset + i] = static_cast<int32_t>(i);
    out.positions[offset + i] = 0;
  }
  tokens[length] = out.targets[offset + length - 1];
  out.token_hash +=
      hash_bytes(tokens.data(), tokens.size() * sizeof(int32_t), static_cast<uint64_t>(position));
}

}  // namespace espalier
