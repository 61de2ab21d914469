// SPDX-License-Identifier: Apache-2.0
// Shards written and read back, and batches made of them.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "commands/corpus_bench_stages.hpp"
#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "corpus/batch_source.hpp"
#include "corpus/build/store_builder.hpp"
#include "corpus/data_order.hpp"
#include "corpus/hash.hpp"
#include "corpus/store/shard.hpp"
#include "corpus/store/shard_writer.hpp"

namespace espalier {
namespace {

constexpr int64_t kReadTokens = int64_t{1} << 16;
constexpr int64_t kMicroBatch = 4, kGlobalBatch = 64;
constexpr size_t kWriteBytes = size_t{1} << 18;

/// Documents as tokens: what a shard is written from.
struct Encoded {
  std::vector<int32_t> tokens;
  std::vector<int64_t> ends;
};

Encoded encode(const BenchText& text, const Tokenizer& tokenizer) {
  Encoded all;
  all.tokens.reserve(static_cast<size_t>(text.bytes));
  text.for_each([&](const std::string& document) {
    tokenizer.append_tokens(document, all.tokens);
    all.ends.push_back(static_cast<int64_t>(all.tokens.size()));
  });
  return all;
}

void write_shard(const std::string& path, const Tokenizer& tokenizer, const Encoded& all) {
  ShardWriter shard(path, tokenizer);
  int64_t begin = 0;
  for (const int64_t end : all.ends) {
    shard.append(all.tokens.data() + begin, end - begin);
    shard.end_document(0, end - begin);  // hashing is measured by itself
    begin = end;
  }
  shard.finish();
  shard.publish();
}

void read_in_order(const Shard& shard) {
  std::vector<int32_t> tokens(static_cast<size_t>(kReadTokens));
  for (int64_t at = 0; at < shard.tokens(); at += kReadTokens)
    shard.read(at, std::min(kReadTokens, shard.tokens() - at), tokens.data());
}

void read_windows(const Shard& shard, int64_t length) {
  const int64_t windows = std::max<int64_t>(1, (shard.tokens() - 1) / length);
  const DataOrder order(1, windows);
  std::vector<int32_t> tokens(static_cast<size_t>(length) + 1);
  for (int64_t p = 0; p < windows; ++p) {
    const int64_t begin = order(p) * length;
    shard.read(begin, std::min(length + 1, shard.tokens() - begin), tokens.data());
  }
}

std::string make_store(const BenchPlace& place) {
  const std::string folder = place.folder + "/feed";
  std::filesystem::create_directories(folder);
  BuildRequest request;
  int64_t written = 0;
  request.config.deck_path = place.config.deck_path;
  request.config.sources = write_build_inputs(place.text, folder, 0, written);
  request.config.build.output = folder + "/store";
  Alone alone;
  build_store(request, ByteTokenizer(), alone);
  return request.config.build.output;
}

struct FeedCase {
  const char* name;
  void (*turn_on)(DataConfig& data);
};

const FeedCase kFeedCases[] = {
    {"chunk", [](DataConfig&) {}},
    {"best_fit", [](DataConfig& d) { d.packing = Packing::best_fit; }},
    {"mixed", [](DataConfig& d) { d.temperature = 2.0; }},
    {"balanced", [](DataConfig& d) { d.balance = BalanceWork::attention; }},
    {"best_fit, mixed and balanced",
     [](DataConfig& d) {
       d.packing = Packing::best_fit;
       d.temperature = 2.0;
       d.balance = BalanceWork::attention;
     }},
};

}  // namespace

void write_plainly(const std::string& path, int64_t bytes) {
  const std::string block(kWriteBytes, 'x');
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) fail_file(path, "be created", errno);
  while (bytes > 0) {
    const auto part = std::min<int64_t>(bytes, static_cast<int64_t>(block.size()));
    const ssize_t done = ::write(file, block.data(), static_cast<size_t>(part));
    if (done < 0) {
      const int error = errno;
      ::close(file);
      fail_file(path, "be written", error);
    }
    bytes -= done;
  }
  ::close(file);
  flush_file(path);
}

std::vector<BenchRow> bench_shards(const BenchPlace& place) {
  const ByteTokenizer tokenizer;
  const Encoded all = encode(place.text, tokenizer);
  const std::string path = place.folder + "/bench.tok", plain = place.folder + "/plain";
  const int64_t bytes = place.text.bytes;
  write_shard(path, tokenizer, all);
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  // No lap pays for taking an old file away.
  const auto remove = [](const std::string& file) {
    return [file] { std::filesystem::remove(file); };
  };
  std::vector<BenchRow> rows = measure_stages(
      "a shard written and flushed, 2 bytes a token", BenchClock::wall, place.repeats,
      {{"write(2) and fsync(2)", bytes, [&] { write_plainly(plain, file_bytes); }, "",
        remove(plain)},
       {"shard", bytes, [&] { write_shard(path, tokenizer, all); }, "write(2) and fsync(2)",
        remove(path)}});
  const Shard shard(path, VerifyData::header);
  const std::vector<BenchRow> back = measure_stages(
      "read back, from the page cache", BenchClock::cpu, place.repeats,
      {{"in order", bytes, [&] { read_in_order(shard); }, ""},
       {"windows in the order of a stream", bytes, [&] { read_windows(shard, place.seq_length); },
        "in order"},
       {"opened and verified", bytes, [&] { Shard(path, VerifyData::full); }, "in order"}});
  rows.insert(rows.end(), back.begin(), back.end());
  return rows;
}

std::vector<BenchRow> bench_feeding(const BenchPlace& place) {
  Config config;
  config.model.vocab_size = ByteTokenizer().vocab_size();
  config.batch = {place.seq_length, kMicroBatch, kGlobalBatch};
  config.data.train = {make_store(place)};
  config.data.verify = VerifyData::header;
  const int64_t step_tokens = place.seq_length * kGlobalBatch;
  const int64_t steps = std::max<int64_t>(1, place.text.bytes / step_tokens);
  std::vector<BenchStage> stages;
  for (const FeedCase& one : kFeedCases) {
    Config own = config;
    one.turn_on(own.data);
    const auto source = std::make_shared<BatchSource>(own, Stream::train);
    stages.push_back({one.name, steps * step_tokens,
                      [source, steps] {
                        MicroBatch batch;
                        for (int64_t step = 0; step < steps; ++step)
                          for (int64_t m = 0; m < source->micro_batches(); ++m)
                            source->fill(step, m, batch);
                      },
                      one.name == kFeedCases[0].name ? "" : kFeedCases[0].name});
  }
  return measure_stages("batches, a byte a token (millions of tokens/s)", BenchClock::cpu,
                        place.repeats, stages);
}

}  // namespace espalier
