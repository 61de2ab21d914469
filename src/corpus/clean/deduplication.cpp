// SPDX-License-Identifier: Apache-2.0
// Duplicates of one range of keys, gathered from all files and sorted; then groups of them.
#include "corpus/clean/deduplication.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/error.hpp"
#include "corpus/clean/key_file.hpp"
#include "corpus/clean/near_group.hpp"

namespace espalier {
namespace {

struct ExactKey {
  uint64_t high, low;
  DocumentId id;
  bool same_key(const ExactKey& o) const { return high == o.high && low == o.low; }
  bool operator<(const ExactKey& o) const {
    return std::tie(high, low, id) < std::tie(o.high, o.low, o.id);
  }
};

struct NearKey {
  uint64_t key;
  DocumentId id;
  bool same_key(const NearKey& o) const { return key == o.key; }
  bool operator<(const NearKey& o) const { return std::tie(key, id) < std::tie(o.key, o.id); }
};

/// One open file a piece that has documents.
struct OpenFile {
  int64_t piece;
  KeyFile file;
};

std::vector<OpenFile> open_files(const CleanConfig& config,
                                 const std::vector<std::string>& key_files) {
  std::vector<OpenFile> files;
  for (size_t piece = 0; piece < key_files.size(); ++piece) {
    if (!key_files[piece].empty())
      files.push_back({static_cast<int64_t>(piece), KeyFile(key_files[piece], config)});
  }
  return files;
}

/// Calls `visit(begin, end)` for each run of two and more records with one key, in order.
template <class Key, class Visit>
void visit_groups(const std::vector<Key>& keys, Visit visit) {
  for (size_t begin = 0; begin < keys.size();) {
    size_t end = begin + 1;
    while (end < keys.size() && keys[end].same_key(keys[begin])) ++end;
    if (end - begin > 1) visit(keys.data() + begin, keys.data() + end);
    begin = end;
  }
}

template <class Key>
void reserve_for(std::vector<Key>& keys, const std::vector<Span>& spans) {
  int64_t count = 0;
  for (const Span& span : spans) count += span.end - span.begin;
  keys.reserve(static_cast<size_t>(count));
}

void find_exact(const std::vector<OpenFile>& files, int64_t range, int64_t ranges,
                std::vector<DuplicatePair>& pairs) {
  std::vector<Span> spans;
  spans.reserve(files.size());
  for (const OpenFile& f : files) spans.push_back(f.file.exact_range(range, ranges));
  std::vector<ExactKey> keys;
  reserve_for(keys, spans);
  for (size_t f = 0; f < files.size(); ++f) {
    const ExactRecord* const records = files[f].file.exact();
    for (int64_t i = spans[f].begin; i < spans[f].end; ++i)
      keys.push_back({records[i].high,
                      records[i].low,
                      {files[f].piece, static_cast<int64_t>(records[i].index)}});
  }
  std::sort(keys.begin(), keys.end());
  visit_groups(keys, [&](const ExactKey* begin, const ExactKey* end) {
    for (const ExactKey* later = begin + 1; later < end; ++later)
      pairs.push_back({begin->id, later->id, true});
  });
}

void find_near(const CleanConfig& config, const std::vector<OpenFile>& files, int64_t range,
               int64_t ranges, std::vector<DuplicatePair>& pairs) {
  std::vector<Span> spans;
  spans.reserve(files.size());
  for (const OpenFile& f : files) {
    f.file.verify_signatures(range, ranges);
    spans.push_back(f.file.near_range(range, ranges));
  }
  std::vector<NearKey> keys;
  reserve_for(keys, spans);
  // The number of the file stands in for that of the piece until the signatures are looked up.
  for (size_t f = 0; f < files.size(); ++f) {
    const NearRecord* const records = files[f].file.near_records();
    for (int64_t i = spans[f].begin; i < spans[f].end; ++i)
      keys.push_back(
          {records[i].key, {static_cast<int64_t>(f), static_cast<int64_t>(records[i].index)}});
  }
  std::sort(keys.begin(), keys.end());
  visit_groups(keys, [&](const NearKey* begin, const NearKey* end) {
    NearGroup group(config.similarity, pairs);
    for (const NearKey* k = begin; k < end; ++k) {
      const OpenFile& f = files[static_cast<size_t>(k->id.piece)];
      group.add({f.piece, k->id.index}, f.file.signature(k->id.index));
    }
  });
}

}  // namespace

bool operator<(const DuplicatePair& a, const DuplicatePair& b) {
  return std::tie(a.first, a.later, b.is_exact) < std::tie(b.first, b.later, a.is_exact);
}

int64_t count_key_ranges(const std::vector<std::string>& key_files, int64_t memory_bytes) {
  ESPALIER_REQUIRE(memory_bytes > 0, "{} bytes of memory", memory_bytes);
  constexpr auto exact_bytes = static_cast<int64_t>(sizeof(ExactKey) + sizeof(DuplicatePair));
  constexpr auto near_bytes = static_cast<int64_t>(sizeof(NearKey) + sizeof(DuplicatePair));
  int64_t bytes = 0;
  for (const std::string& path : key_files) {
    if (path.empty()) continue;
    const KeyHeader header = read_key_header(path);
    bytes += header.documents * exact_bytes + header.near_records * near_bytes;
  }
  return std::max<int64_t>(1, bytes / memory_bytes + (bytes % memory_bytes != 0 ? 1 : 0));
}

std::vector<DuplicatePair> find_duplicates(const CleanConfig& config,
                                           const std::vector<std::string>& key_files, int64_t range,
                                           int64_t ranges) {
  ESPALIER_REQUIRE(config.deduplicate != Deduplication::none, "duplicates of no deduplication");
  ESPALIER_REQUIRE(range >= 0 && range < ranges, "range {} of {}", range, ranges);
  const std::vector<OpenFile> files = open_files(config, key_files);
  std::vector<DuplicatePair> pairs;
  find_exact(files, range, ranges, pairs);
  if (config.deduplicate == Deduplication::near) find_near(config, files, range, ranges, pairs);
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

std::vector<DroppedDocument> choose_dropped(const std::vector<DuplicatePair>& pairs) {
  std::vector<DocumentId> ids;
  ids.reserve(pairs.size() * 2);
  for (const DuplicatePair& pair : pairs) {
    ids.push_back(pair.first);
    ids.push_back(pair.later);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto place = [&](const DocumentId& id) {
    return static_cast<size_t>(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin());
  };
  std::vector<size_t> parent(ids.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto find_root = [&](size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  std::vector<bool> exact(ids.size(), false);
  for (const DuplicatePair& pair : pairs) {
    const size_t first = place(pair.first), later = place(pair.later);
    if (pair.is_exact) exact[later] = true;
    const size_t a = find_root(first), b = find_root(later);
    parent[std::max(a, b)] = std::min(a, b);  // so the root is the smallest
  }
  std::vector<DroppedDocument> dropped;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (find_root(i) != i) dropped.push_back({ids[i], exact[i]});
  }
  return dropped;
}

}  // namespace espalier
