// SPDX-License-Identifier: Apache-2.0
// What a source of tokens offers: numbered samples, each one sequence for the model.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "corpus/store/token_array.hpp"
#include "corpus/token_windows.hpp"

namespace espalier {

/// One sequence: tokens [0, filled) and behind them padding.
struct Sample {
  std::vector<int32_t> tokens;  // [seq_length + 1] the last one is the last target; -1: none known
  int64_t filled = 0;         // <= seq_length; tokens from here on are -1, but for the last target
  std::vector<int32_t> ends;  // ascending: index behind a document that ends, besides those that
                              // an end-of-document token shows
};

/// Sum over the documents of a sample of length^2: what attention within documents costs, up to a
/// constant. Padding counts nothing. With one document for all (no mask) filled^2.
int64_t attention_work(const Sample& sample, int32_t end_of_document, bool document_mask);

/// A numbered set of samples of one length. Thread-safe, all calls are const.
class SampleSet {
 public:
  virtual ~SampleSet() = default;
  virtual int64_t samples() const = 0;  ///< TokenWindows::kEndless if there is no end
  /// Vectors in `out` are reused.
  /// Errors    DataError if a token is damaged; Internal if the number is out of range
  virtual void read(int64_t sample, Sample& out) const = 0;
  /// attention_work of a sample with the document mask.
  virtual int64_t work(int64_t sample) const = 0;
};

/// Windows as samples: every one full, documents cut anywhere.
class ChunkSamples : public SampleSet {
 public:
  ChunkSamples(std::unique_ptr<const TokenWindows> windows, int64_t seq_length)
      : windows_(std::move(windows)), seq_length_(seq_length) {}
  int64_t samples() const override { return windows_->windows(); }
  void read(int64_t sample, Sample& out) const override;
  int64_t work(int64_t sample) const override;

 private:
  std::unique_ptr<const TokenWindows> windows_;
  int64_t seq_length_;
};

}  // namespace espalier
