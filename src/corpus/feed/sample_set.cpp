// SPDX-License-Identifier: Apache-2.0
// Samples of windows, and the work of a sample.
#include "corpus/feed/sample_set.hpp"

namespace espalier {

int64_t attention_work(const Sample& sample, int32_t end_of_document, bool document_mask) {
  if (!document_mask) return sample.filled * sample.filled;
  int64_t work = 0, begin = 0;
  size_t next = 0;
  for (int64_t i = 0; i < sample.filled; ++i) {
    bool ends = sample.tokens[static_cast<size_t>(i)] == end_of_document;
    if (next < sample.ends.size() && sample.ends[next] == i + 1) {
      ends = true;
      ++next;
    }
    if (!ends && i + 1 < sample.filled) continue;
    work += (i + 1 - begin) * (i + 1 - begin);
    begin = i + 1;
  }
  return work;
}

void ChunkSamples::read(int64_t sample, Sample& out) const {
  out.tokens.resize(static_cast<size_t>(seq_length_) + 1);
  out.filled = seq_length_;
  out.ends.clear();
  windows_->read(sample, out.tokens.data());
}

int64_t ChunkSamples::work(int64_t sample) const {
  Sample read_here;
  read(sample, read_here);
  return attention_work(read_here, windows_->end_of_document(), true);
}

}  // namespace espalier
