// SPDX-License-Identifier: Apache-2.0
// The file of a packing plan: a header, the items, the first item of each sequence.
#include "corpus/feed/packing_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "corpus/hash.hpp"

namespace espalier {
namespace {

constexpr uint64_t kMagic = 0x314b434150505345;  // "ESPPACK1", read on a little-endian machine
constexpr int64_t kProbes = 4096;                // places of the index that are looked at

// All of it is 8-byte words, in the machine's order: the magic number tells.
struct PlanHeader {
  uint64_t magic = kMagic;
  int64_t seq_length = 0, long_documents = 0;
  int64_t array_tokens = 0, array_documents = 0;
  uint64_t probe_hash = 0;  // of up to kProbes places of the index, evenly spread
  uint64_t index_hash = 0;  // of all places
  PackingCounts counts;
  uint64_t payload_hash = 0;
  uint64_t header_hash = 0;  // of all before it
};
static_assert(sizeof(PlanHeader) == 17 * 8 && sizeof(PackedItem) == 16, "the file's layout");

uint64_t header_hash(const PlanHeader& header) {
  return hash_bytes(&header, sizeof(header) - sizeof(header.header_hash));
}

uint64_t hash_index(const TokenArray& array, int64_t probes) {
  const int64_t last = array.documents();
  probes = std::min(probes, last + 1);
  RunningHash hash;
  std::vector<int64_t> block;
  for (int64_t i = 0; i < probes; ++i) {
    const auto at = probes > 1
                        ? static_cast<int64_t>(static_cast<__int128>(i) * last / (probes - 1))
                        : int64_t{0};
    block.push_back(array.document_begin(at));
    if (block.size() == 8192 || i + 1 == probes) {
      hash.update(block.data(), block.size() * sizeof(int64_t));
      block.clear();
    }
  }
  return hash.value();
}

class MappedPlan : public PackingPlan {
 public:
  ~MappedPlan() override {
    if (map_ != nullptr) ::munmap(map_, bytes_);
  }

  /// Empty if all is well, else what is wrong.
  std::string open(const std::string& path, const TokenArray& array, const PackingRule& rule,
                   VerifyData verify) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return "cannot be opened";
    struct stat status {};
    if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size >= static_cast<off_t>(sizeof(PlanHeader))) {
      bytes_ = static_cast<size_t>(status.st_size);
      void* map = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file, 0);
      if (map != MAP_FAILED) map_ = map;
    }
    ::close(file);
    if (map_ == nullptr) return "cannot be mapped";
    return check(array, rule, verify);
  }

 private:
  std::string check(const TokenArray& array, const PackingRule& rule, VerifyData verify) {
    PlanHeader header;
    std::memcpy(&header, map_, sizeof(header));
    if (header.magic != kMagic || header.header_hash != header_hash(header)) return "is damaged";
    const PackingCounts& c = header.counts;
    const auto room = static_cast<int64_t>(bytes_ - sizeof(header));
    if (c.items < 0 || c.sequences < 0 || c.items > room / 16 || c.sequences > room / 8 ||
        c.items * 16 + (c.sequences + 1) * 8 != room)
      return "is truncated";
    if (header.seq_length != rule.seq_length ||
        header.long_documents != static_cast<int64_t>(rule.long_documents) ||
        header.array_tokens != array.tokens() || header.array_documents != array.documents() ||
        header.probe_hash != hash_index(array, kProbes))
      return "belongs to other tokens";
    const char* payload = static_cast<const char*>(map_) + sizeof(header);
    if (verify == VerifyData::full) {
      if (header.index_hash != hash_index(array, INT64_MAX)) return "belongs to other tokens";
      if (header.payload_hash != hash_bytes(payload, static_cast<size_t>(room)))
        return "is damaged";
    }
    rule_ = rule;
    counts_ = c;
    items_ = reinterpret_cast<const PackedItem*>(payload);
    first_ = reinterpret_cast<const int64_t*>(payload + c.items * 16);
    return "";
  }

  void* map_ = nullptr;
  size_t bytes_ = 0;
};

PlanHeader make_header(const TokenArray& array, const PackingPlan& plan) {
  PlanHeader header;
  header.seq_length = plan.rule().seq_length;
  header.long_documents = static_cast<int64_t>(plan.rule().long_documents);
  header.array_tokens = array.tokens();
  header.array_documents = array.documents();
  header.probe_hash = hash_index(array, kProbes);
  header.index_hash = hash_index(array, INT64_MAX);
  header.counts = plan.counts();
  RunningHash hash;
  hash.update(plan.items(), static_cast<size_t>(plan.counts().items) * sizeof(PackedItem));
  hash.update(plan.first(), static_cast<size_t>(plan.counts().sequences + 1) * sizeof(int64_t));
  header.payload_hash = hash.value();
  header.header_hash = header_hash(header);
  return header;
}

// Errors are the caller's to judge: a plan that cannot be kept is no reason to stop.
void write_plan(const std::string& path, const PlanHeader& header, const PackingPlan& plan) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  // Processes on other hosts have the same numbers: a random one tells them apart.
  std::random_device random;
  const std::string part =
      fmt::format("{}.{}-{:08x}.part", path, static_cast<int64_t>(::getpid()), random());
  std::FILE* file = std::fopen(part.c_str(), "wbx");
  if (file == nullptr) fail_file(part, "create", errno);
  const auto put = [&](const void* data, size_t bytes) {
    return bytes == 0 || std::fwrite(data, bytes, 1, file) == 1;
  };
  const bool is_whole =
      put(&header, sizeof(header)) &&
      put(plan.items(), static_cast<size_t>(header.counts.items) * sizeof(PackedItem)) &&
      put(plan.first(), static_cast<size_t>(header.counts.sequences + 1) * sizeof(int64_t));
  const int error = errno;
  const bool is_closed = std::fclose(file) == 0;
  try {
    if (!is_whole || !is_closed) fail_file(part, "write", is_whole ? errno : error);
    publish_file(part, path);
  } catch (...) {
    std::remove(part.c_str());
    throw;
  }
}

}  // namespace

std::string packing_path(const TokenArray& array, const PackingRule& rule) {
  namespace fs = std::filesystem;
  const fs::path path(array.path());
  const fs::path folder = path.parent_path();
  const std::string name =
      fmt::format("{}-{}-{}.plan", path.stem().string(), rule.seq_length,
                  rule.long_documents == LongDocuments::split ? "split" : "drop");
  std::error_code ignored;
  if (!folder.filename().empty() && fs::exists(folder.parent_path() / "manifest.json", ignored))
    return (folder.parent_path() / "packing" / (folder.filename().string() + "-" + name)).string();
  return (folder / "packing" / name).string();
}

std::unique_ptr<const PackingPlan> open_packing_plan(const TokenArray& array,
                                                     const PackingRule& rule, VerifyData verify) {
  if (!array.has_index())
    throw DataError(fmt::format(
        "{}: has no index of its documents, which data.packing = \"best_fit\" places whole; use "
        "data.packing = \"chunk\", or make a token store of the text with espalier corpus build",
        array.path()));
  const std::string path = packing_path(array, rule);
  std::error_code ignored;
  const bool exists = std::filesystem::exists(path, ignored);
  auto mapped = std::make_unique<MappedPlan>();
  if (exists) {
    const std::string wrong = mapped->open(path, array, rule, verify);
    if (wrong.empty()) return mapped;
    info("packing      {} {}: it is made again", path, wrong);
  }
  auto plan = pack_documents(array, rule);
  try {
    write_plan(path, make_header(array, *plan), *plan);
  } catch (const std::exception& error) {  // Error or filesystem_error
    info("packing      the plan stays in memory and is made anew by each run: {}", error.what());
    return plan;
  }
  // What was just written needs no second look.
  mapped = std::make_unique<MappedPlan>();
  const std::string wrong = mapped->open(path, array, rule, VerifyData::header);
  if (wrong.empty()) return mapped;
  info("packing      the plan stays in memory: {} {}", path, wrong);
  return plan;
}

}  // namespace espalier
