// SPDX-License-Identifier: Apache-2.0
#include "corpus/build/text_sample.hpp"

#include <algorithm>

#include "core/random.hpp"
#include "corpus/clean/cleaner.hpp"
#include "corpus/data_order.hpp"
#include "corpus/held_out.hpp"
#include "corpus/source/document_stream.hpp"

namespace espalier {

namespace {

constexpr int64_t kPartBytes = int64_t{1} << 20;  // of a file that are read together
constexpr int64_t kMostOfAPart = 4 * kPartBytes;  // of text, where a part is a whole large file

int64_t bytes_of_mib(double mib) {
  return static_cast<int64_t>(mib * 1048576.0);
}

/// Draws from one source until `wanted` bytes of text are there or it ends.
SampleSize draw_from(const CorpusConfig& config, size_t index, int64_t wanted,
                     const std::function<void(std::string&&)>& take) {
  const SourceConfig& source = config.sources[index];
  const std::vector<InputFile> files = list_inputs(source);
  const std::vector<InputPiece> pieces =
      cut_pieces(source, static_cast<int64_t>(index), files, kPartBytes);
  SampleSize size;
  if (pieces.empty()) return size;
  const auto seed = random_bits(static_cast<uint64_t>(config.train_tokenizer.seed),
                                hash_name("corpus.sample"), hash_name(source.name));
  const DataOrder order(seed, static_cast<int64_t>(pieces.size()));
  Cleaner cleaner(config.clean, source);
  CleanCounts counts;
  for (int64_t i = 0; i < order.size() && size.bytes < wanted; ++i) {
    InputFaults faults(0);
    DocumentStream stream(source, files, pieces[static_cast<size_t>(order(i))], config.faults,
                          bytes_of_mib(config.build.longest_document_mib), faults);
    Document document;
    const int64_t end = std::min(wanted, size.bytes + kMostOfAPart);
    while (size.bytes < end && stream.next(document)) {
      if (!cleaner.clean(document.text, counts) || document.text.empty()) continue;
      if (is_held_out(document.text, config.build.held_out,
                      static_cast<uint64_t>(config.build.seed)))
        continue;
      size.documents += 1;
      size.bytes += static_cast<int64_t>(document.text.size());
      take(std::move(document.text));
    }
  }
  return size;
}

}  // namespace

SampleSize draw_sample(const CorpusConfig& config, const std::function<void(std::string&&)>& take) {
  double weights = 0.0;
  for (const SourceConfig& source : config.sources) weights += source.weight;
  const auto wanted = static_cast<double>(bytes_of_mib(config.train_tokenizer.sample_mib));
  SampleSize all;
  for (size_t i = 0; i < config.sources.size(); ++i) {
    const double share = config.sources[i].weight / weights;
    if (share <= 0.0) continue;
    const SampleSize size =
        draw_from(config, i, std::max<int64_t>(1, static_cast<int64_t>(wanted * share)), take);
    all.documents += size.documents;
    all.bytes += size.bytes;
  }
  return all;
}

}  // namespace espalier
