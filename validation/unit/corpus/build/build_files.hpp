// SPDX-License-Identifier: Apache-2.0
// Small corpora, all files of a folder, and a team of threads, for the tests of building stores.
#pragma once

#include <condition_variable>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../corpus_files.hpp"
#include "corpus/build/store_builder.hpp"
#include "corpus/build/team.hpp"

namespace espalier::testing {

/// Every regular file below `folder`: name from there, bytes.
inline std::map<std::string, std::string> all_files(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder).string()] =
          read_bytes(entry.path().string());
  return files;
}

/// What the members of a team of threads share.
class Meeting {
 public:
  explicit Meeting(int members) : texts(static_cast<size_t>(members)), members_(members) {}

  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int64_t round = round_;
    if (++arrived_ == members_) {
      arrived_ = 0;
      ++round_;
      all_.notify_all();
      return;
    }
    all_.wait(lock, [&] { return round_ != round; });
  }

  std::vector<std::string> texts;
  std::map<int, std::exception_ptr> errors;
  std::mutex errors_mutex;

 private:
  std::mutex mutex_;
  std::condition_variable all_;
  int members_, arrived_ = 0;
  int64_t round_ = 0;
};

class ThreadMember : public Team {
 public:
  ThreadMember(Meeting& meeting, int rank, int size)
      : meeting_(meeting), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void together(const std::function<void()>& action) override {
    try {
      action();
    } catch (...) {
      const std::lock_guard<std::mutex> lock(meeting_.errors_mutex);
      meeting_.errors[rank_] = std::current_exception();
    }
    meeting_.wait();
    const std::exception_ptr error =
        meeting_.errors.empty() ? nullptr : meeting_.errors.begin()->second;
    meeting_.wait();  // all have looked before anyone's next action may fail
    if (error) std::rethrow_exception(error);
  }

  std::string from_first(const std::string& text) override { return from_all(text).front(); }

  std::vector<std::string> from_all(const std::string& text) override {
    meeting_.texts[static_cast<size_t>(rank_)] = text;
    meeting_.wait();
    std::vector<std::string> texts = meeting_.texts;
    meeting_.wait();
    return texts;
  }

 private:
  Meeting& meeting_;
  int rank_, size_;
};

/// Runs `action` as each member of a team of threads: its error by rank, "" for none.
template <class Action>
std::vector<std::string> run_team(int members, const Action& action) {
  Meeting meeting(members);
  std::vector<std::string> errors(static_cast<size_t>(members));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < members; ++rank)
    threads.emplace_back([&, rank] {
      ThreadMember member(meeting, rank, members);
      try {
        action(member);
      } catch (const Error& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// A config of one source of lines, pieces of `piece_bytes`.
inline CorpusConfig line_config(const std::string& input, const std::string& output,
                                int64_t piece_bytes = 1024) {
  CorpusConfig config;
  config.deck_path = "a test";
  config.build.output = output;
  config.build.shard_mib = static_cast<double>(piece_bytes) / 1048576.0;
  SourceConfig source;
  source.name = "lines";
  source.paths = {input};
  source.documents = DocumentCut::line;
  config.sources = {source};
  return config;
}

/// Words drawn by (seed, i), 3 to 22 of them.
inline std::string random_line(uint64_t seed, int64_t i) {
  const auto at = static_cast<uint64_t>(i) * 64;
  std::string text;
  const uint64_t words = 3 + random_bits(seed, hash_name("words"), at) % 20;
  for (uint64_t w = 0; w < words; ++w)
    text += fmt::format("{}{:x}", w == 0 ? "" : " ",
                        random_bits(seed, hash_name("word"), at + w) % 65536);
  return text;
}

inline BuildReport build_alone(const CorpusConfig& config, bool may_replace = false) {
  Alone team;
  return build_store({config, may_replace, {}}, ByteTokenizer(), team);
}

}  // namespace espalier::testing
