// SPDX-License-Identifier: Apache-2.0
// From windows of tokens to micro-batches with targets, positions and document starts.
#include "corpus/batch_source.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/random.hpp"
#include "corpus/hash.hpp"

namespace espalier {
namespace {

void check_vocabulary(const FileWindows& windows, int64_t model_vocab_size) {
  const TokenFile& file = windows.files().front();
  if (file.header().vocab_size <= model_vocab_size) return;
  throw DataError(fmt::format(
      "{}: its tokenizer {} has {} ids, but model.vocab_size = {}; set model.vocab_size to {} or "
      "more",
      file.path(), file.header().tokenizer, file.header().vocab_size, model_vocab_size,
      file.header().vocab_size));
}

// Held-out loss means nothing with another tokenizer, or on the text that was trained on.
void compare_with_training(const FileWindows& validation, const std::vector<std::string>& train) {
  for (const std::string& path : train) {
    const TokenFile file(path, VerifyData::header);
    for (const TokenFile& held_out : validation.files()) {
      require_same_tokenizer(file, held_out);
      const TokenHeader &a = file.header(), &b = held_out.header();
      if (a.checksum == b.checksum && a.tokens == b.tokens) {
        warn("{} holds the same tokens as {}: the validation loss is that of training text",
             held_out.path(), path);
      }
    }
  }
}

}  // namespace

BatchSource::BatchSource(const Config& config, Stream stream)
    : seq_length_(config.batch.seq_length),
      micro_batch_size_(config.batch.micro_batch_size),
      global_batch_size_(config.batch.global_batch_size),
      document_mask_(config.data.document_mask),
      reset_positions_(config.data.reset_positions) {
  ESPALIER_REQUIRE(seq_length_ >= 1 && seq_length_ < std::numeric_limits<int32_t>::max() &&
                       micro_batch_size_ >= 1 && global_batch_size_ % micro_batch_size_ == 0,
                   "seq_length {}, micro_batch_size {}, global_batch_size {}", seq_length_,
                   micro_batch_size_, global_batch_size_);
  if (config.data.source == DataSource::files) {
    open_files(config, stream);
  } else {
    const uint64_t purpose =
        hash_name(stream == Stream::train ? "data.random.train" : "data.random.validation");
    windows_ = std::make_unique<RandomWindows>(static_cast<uint64_t>(config.run.seed), purpose,
                                               config.model.vocab_size, seq_length_);
    if (stream == Stream::validation) batches_ = config.monitor.validation_batches;
  }
}

void BatchSource::open_files(const Config& config, Stream stream) {
  const bool training = stream == Stream::train;
  const std::vector<std::string>& paths = training ? config.data.train : config.data.validation;
  if (paths.empty()) {
    throw DeckError(
        fmt::format("data.{} names no file (data.source = \"files\"); name token files "
                    "made by espalier corpus build",
                    training ? "train" : "validation"));
  }
  auto files = std::make_unique<FileWindows>(paths, seq_length_, config.data.verify);
  check_vocabulary(*files, config.model.vocab_size);
  tokenizer_ = files->files().front().header().tokenizer;
  if (training) {
    order_.emplace(static_cast<uint64_t>(config.run.seed), files->windows());
  } else {
    compare_with_training(*files, config.data.train);
    const int64_t available = files->windows() / global_batch_size_;
    if (available < 1) {
      throw DataError(fmt::format(
          "data.validation: {} windows of {} tokens in {} file(s) from {} on, but one global batch "
          "takes {}; hold out more text (corpus build --held-out), or make "
          "batch.global_batch_size or batch.seq_length smaller",
          files->windows(), seq_length_, paths.size(), paths.front(), global_batch_size_));
    }
    batches_ = std::min(available, config.monitor.validation_batches);
    spread_ = batches_ * global_batch_size_;
  }
  windows_ = std::move(files);
}

int64_t BatchSource::tokens() const {
  const auto* files = dynamic_cast<const FileWindows*>(windows_.get());
  if (files == nullptr) return TokenWindows::kEndless;
  int64_t sum = 0;
  for (const TokenFile& file : files->files()) sum += file.tokens();
  return sum;
}

double BatchSource::epochs(int64_t steps) const {
  if (windows() == TokenWindows::kEndless) return 0.0;
  return static_cast<double>(steps) * static_cast<double>(global_batch_size_) /
         static_cast<double>(windows());
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
  out.valid_tokens = 0;
  out.token_hash = 0;
  std::vector<int32_t> window(static_cast<size_t>(seq_length_ + 1));
  const int64_t first = position_of(step) + micro_batch * micro_batch_size_;
  for (int64_t row = 0; row < micro_batch_size_; ++row) {
    out.first_token[static_cast<size_t>(row)] = (first + row) * seq_length_;
    fill_sequence(first + row, row, window, out);
  }
}

void BatchSource::fill_sequence(int64_t position, int64_t row, std::vector<int32_t>& window,
                                MicroBatch& out) const {
  int64_t index_of_window = position;
  if (order_) index_of_window = (*order_)(position);
  if (spread_ > 0) index_of_window = spread_window(position, spread_, windows());
  windows_->read(index_of_window, window.data());
  const int32_t end = end_of_document();
  const auto length = static_cast<size_t>(seq_length_);
  const size_t offset = static_cast<size_t>(row) * length;
  int32_t start = 0;
  for (size_t i = 0; i < length; ++i) {
    const bool ends = document_mask_ && window[i] == end;
    const auto index = static_cast<int32_t>(i);
    out.inputs[offset + i] = window[i];
    out.targets[offset + i] = ends ? -1 : window[i + 1];
    out.document_start[offset + i] = start;
    out.positions[offset + i] = reset_positions_ ? index - start : index;
    out.valid_tokens += ends ? 0 : 1;
    if (ends) start = index + 1;  // the end token still belongs to the document that it ends
  }
  window[length] = out.targets[offset + length - 1];
  out.token_hash +=
      hash_bytes(window.data(), window.size() * sizeof(int32_t), static_cast<uint64_t>(position));
}

}  // namespace espalier
