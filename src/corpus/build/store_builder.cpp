// SPDX-License-Identifier: Apache-2.0
#include "corpus/build/store_builder.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <thread>

#include "core/clock.hpp"
#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "corpus/build/build_folder.hpp"
#include "corpus/build/build_summary.hpp"
#include "corpus/build/piece_builder.hpp"
#include "corpus/build/progress_board.hpp"
#include "corpus/build/work_share.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"

namespace espalier {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kRangeMemory = int64_t{256} << 20;  // bytes of keys that a member holds
constexpr int64_t kLargestList = int64_t{1} << 40;
constexpr std::chrono::milliseconds kFirstLook(1), kLook(100);

// Records of fixed size as a file; read by the build that wrote it, on the same kind of machine.
template <class T>
void write_list(const std::string& path, const std::vector<T>& list) {
  std::string bytes(list.size() * sizeof(T), '\0');
  if (!list.empty()) std::memcpy(bytes.data(), list.data(), bytes.size());
  write_text_file(path, bytes);
}

template <class T>
std::vector<T> read_list(const std::string& path) {
  const std::string bytes = read_text_file(path, kLargestList);
  if (bytes.size() % sizeof(T) != 0)
    throw DataError(fmt::format("{}: is damaged; remove it and build again", path));
  std::vector<T> list(bytes.size() / sizeof(T));
  if (!list.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
  return list;
}

/// Another member failed: this one stops without an error of its own.
struct Stopped {};

class StoreBuilder {
 public:
  StoreBuilder(const BuildRequest& request, const Tokenizer& tokenizer, Team& team)
      : request_(request),
        tokenizer_(tokenizer),
        team_(team),
        config_(request.config),
        folder_{request.config.build.output},
        started_(monotonic_seconds()) {
    if (is_broken_for_test("corpus_pieces")) config_.build.shard_mib /= team.size();
    while (folder_.output.size() > 1 && folder_.output.back() == '/') folder_.output.pop_back();
  }

  BuildReport run() {
    prepare();
    if (state_ != BuildState::whole) {
      read_pieces();
      if (plan_.deduplicates()) drop_duplicates();
    }
    team_.together([&] {
      if (team_.leads()) publish();
    });
    report_.seconds = monotonic_seconds() - started_;
    return std::move(report_);
  }

 private:
  void prepare() {
    std::string text;
    team_.together([&] {
      if (!team_.leads()) return;
      plan_ = make_build_plan(config_, tokenizer_.name());
      TakenFolder taken = take_build_folder(folder_, plan_, request_.may_replace);
      state_ = taken.state;
      lock_ = std::move(taken.lock);
      text = encode_plan(plan_);
    });
    state_ = static_cast<BuildState>(
        std::stoi(team_.from_first(std::to_string(static_cast<int>(state_)))));
    text = team_.from_first(text);
    if (!team_.leads()) plan_ = decode_plan(text, config_, folder_.plan());
    report_.pieces = static_cast<int64_t>(plan_.pieces.size());
  }

  // What is left to do, by member 0: a fast member must not hide work from a slow one.
  template <class Path>
  std::vector<int64_t> missing(int64_t count, const Path& path) {
    std::string list;
    if (team_.leads())
      for (int64_t i = 0; i < count; ++i) list += fs::exists(path(i)) ? '0' : '1';
    list = team_.from_first(list);
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i] == '1') numbers.push_back(static_cast<int64_t>(i));
    return numbers;
  }

  void show(BuildPhase phase, int64_t done, int64_t total, int64_t text_bytes) const {
    if (request_.progress)
      request_.progress({phase, done, total, text_bytes, monotonic_seconds() - started_});
  }

  // Runs work(i) for this member's share of `numbers`, and shows how far all are together.
  template <class Work>
  void share(BuildPhase phase, const std::vector<int64_t>& numbers,
             const std::vector<int64_t>& costs, const Work& work) {
    const int64_t total = std::accumulate(costs.begin(), costs.end(), int64_t{0});
    team_.together([&] {
      if (team_.leads()) ProgressBoard::make(folder_.board(), team_.size());
    });
    team_.together([&] {
      ProgressBoard board(folder_.board(), team_.rank(), team_.size());
      WorkDone done;
      const auto look = [&] {
        const ProgressBoard::View view = board.look();
        if (team_.leads()) show(phase, view.sum.input_bytes, total, view.sum.text_bytes);
        if (phase == BuildPhase::read) report_.text_bytes = view.sum.text_bytes;
        return view;
      };
      const auto tell = [&](const WorkDone& of_this) {
        board.tell({done.input_bytes + of_this.input_bytes, done.text_bytes + of_this.text_bytes});
        if (look().has_failed) throw Stopped{};
      };
      try {
        for (const int64_t i : share_of_work(costs, team_.rank(), team_.size())) {
          WorkDone last;
          work(numbers[static_cast<size_t>(i)], [&](const WorkDone& of_this) {
            last = of_this;
            tell(of_this);
          });
          done.input_bytes += costs[static_cast<size_t>(i)];
          done.text_bytes += last.text_bytes;
          tell({});
        }
        board.tell_finished();
        // Looks often at first: a short build must not wait long for its last piece.
        for (auto pause = kFirstLook; team_.leads(); pause = std::min(2 * pause, kLook)) {
          const ProgressBoard::View view = look();
          if (view.finished == team_.size() || view.has_failed) break;
          std::this_thread::sleep_for(pause);
        }
      } catch (const Stopped&) {
      } catch (...) {
        board.tell_failed();
        throw;
      }
    });
  }

  std::vector<int64_t> bytes_of(const std::vector<int64_t>& pieces) const {
    std::vector<int64_t> bytes;
    for (const int64_t piece : pieces)
      bytes.push_back(plan_.pieces[static_cast<size_t>(piece)].bytes);
    return bytes;
  }

  void read_pieces() {
    const std::vector<int64_t> todo =
        missing(report_.pieces, [&](int64_t i) { return folder_.record(i); });
    report_.pieces_found = report_.pieces - static_cast<int64_t>(todo.size());
    share(BuildPhase::read, todo, bytes_of(todo), [&](int64_t piece, const PieceWatch& watch) {
      test_point("corpus_piece");
      build_piece(plan_, folder_, piece, tokenizer_, watch);
    });
  }

  void drop_duplicates() {
    const CleanConfig& clean = plan_.config.clean;
    std::vector<std::string> keys;
    for (int64_t i = 0; i < report_.pieces; ++i) keys.push_back(folder_.keys(i));
    int64_t ranges = 0;
    team_.together([&] {
      if (team_.leads()) ranges = count_key_ranges(keys, kRangeMemory);
    });
    ranges = std::stoll(team_.from_first(std::to_string(ranges)));
    const std::vector<int64_t> open = missing(ranges, [&](int64_t i) { return folder_.pairs(i); });
    const auto one = [](const std::vector<int64_t>& numbers) {
      return std::vector<int64_t>(numbers.size(), 1);
    };
    share(BuildPhase::find_duplicates, open, one(open), [&](int64_t range, const PieceWatch&) {
      test_point("corpus_pairs");
      write_list(folder_.pairs(range), find_duplicates(clean, keys, range, ranges));
    });
    const std::string dropped = folder_.work() + "/dropped";
    team_.together([&] {
      if (!team_.leads()) return;
      std::vector<DuplicatePair> pairs;
      for (int64_t i = 0; i < ranges; ++i) {
        const auto some = read_list<DuplicatePair>(folder_.pairs(i));
        pairs.insert(pairs.end(), some.begin(), some.end());
      }
      write_list(dropped, choose_dropped(pairs));
    });
    finish_pieces(dropped);
  }

  void finish_pieces(const std::string& path) {
    std::vector<DroppedDocument> dropped;
    team_.together([&] { dropped = read_list<DroppedDocument>(path); });
    const std::vector<int64_t> todo =
        missing(report_.pieces, [&](int64_t i) { return folder_.final_record(i); });
    share(BuildPhase::drop_duplicates, todo, bytes_of(todo), [&](int64_t piece, const PieceWatch&) {
      const auto before = [](const DroppedDocument& d, int64_t p) { return d.id.piece < p; };
      const auto first = std::lower_bound(dropped.begin(), dropped.end(), piece, before);
      const auto last = std::lower_bound(first, dropped.end(), piece + 1, before);
      finish_piece(plan_, folder_, piece, tokenizer_, {first, last});
    });
  }

  // A file of the same size that changed under the readers; another size they see themselves.
  void require_same_inputs() const {
    const auto changes =
        plan_differences(read_text_file(folder_.plan(), kLargestList), encode_plan(plan_));
    if (changes.empty()) return;
    throw DataError(fmt::format(
        "the inputs changed while they were read; leave them alone, and build again with "
        "--overwrite. What differs:{}",
        list_faults(changes)));
  }

  void publish() {
    if (state_ != BuildState::whole) {
      require_same_inputs();
      report_.manifest = make_manifest(plan_, folder_, tokenizer_);
      save_tokenizer(tokenizer_, tokenizer_folder(folder_.building()));
      for (const char* stream : {"/train", "/validation"})
        flush_folder(folder_.building() + stream);
      test_point("corpus_manifest");
      write_text_file(manifest_path(folder_.building()), encode_manifest(report_.manifest));
    } else {
      report_.manifest = read_manifest(folder_.building());
      report_.pieces_found = report_.pieces;
    }
    publish_store(folder_);
  }

  const BuildRequest& request_;
  const Tokenizer& tokenizer_;
  Team& team_;
  CorpusConfig config_;
  BuildFolder folder_;
  double started_;
  BuildState state_ = BuildState::fresh;
  std::unique_ptr<FolderLock> lock_;  // on member 0
  BuildPlan plan_;
  BuildReport report_;
};

}  // namespace

BuildReport build_store(const BuildRequest& request, const Tokenizer& tokenizer, Team& team) {
  return StoreBuilder(request, tokenizer, team).run();
}

}  // namespace espalier
