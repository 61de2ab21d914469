// SPDX-License-Identifier: Apache-2.0
// A deterministic fuzzer of the reader: thousands of seeded mutations of a small valid file. Each
// is refused with a DataError, or reads as the original; none crashes, and none takes more memory
// than the file could explain.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "checkpoint/tensor_file.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "scratch_folder.hpp"

namespace espalier {
namespace {

const std::vector<std::string> kNames = {"parameters/a", "parameters/b.weight", "history/loss"};

std::string make_file(const std::string& path, StorageLayout layout) {
  FileOptions options;
  options.layout = layout;
  options.chunk_bytes = 512;
  options.alignment = 256;
  TensorFileWriter out(path, nullptr, options);
  std::vector<double> values(400);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25 * static_cast<double>(i) - 7;
  out.write_tensor(kNames[0], {20, 20}, values.data());
  out.write_tensor(kNames[1], {3, 5, 7}, values.data() + 40);
  out.write_tensor(kNames[2], {33}, values.data() + 100);
  out.write_text("deck", "[run]\nseed = 3\n");
  out.set_attribute("", "format", "espalier test");
  out.set_attribute("", "step", int64_t{12});
  out.close();
  return file_bytes(path);
}

/// All that a program would read, as one text.
std::string content_of(const std::string& path) {
  TensorFileReader in(path, nullptr);
  std::string all = in.text_attribute("", "format") + in.read_text("deck") +
                    std::to_string(in.integer_attribute("", "step"));
  for (const std::string& name : kNames) {
    if (!in.has_checksum(name)) throw DataError(name + " has no checksum");
    const std::vector<double> values = in.read_values<double>(name);
    all.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
    all += shape_text(in.info(name).shape);
  }
  return all;
}

/// Mutation number `n`: a pure function of it.
std::string mutate(std::string bytes, uint64_t n) {
  uint64_t draws = 0;
  const auto below = [&](size_t limit) {
    return static_cast<size_t>(random_bits(5, n, draws++) % limit);
  };
  switch (below(6)) {
    case 0: bytes.resize(below(bytes.size())); break;
    case 1:  // a run of one value, as a lost sector leaves it
      for (size_t at = below(bytes.size()), left = 1 + below(64); left > 0 && at < bytes.size();
           --left, ++at)
        bytes[at] = static_cast<char>(below(2) ? 0xff : 0);
      break;
    case 2:  // two blocks change places
      for (size_t width = 8 << below(5), a = below(bytes.size() - width),
                  b = below(bytes.size() - width), i = 0;
           i < width; ++i)
        std::swap(bytes[a + i], bytes[b + i]);
      break;
    case 3:  // a number that is too large by far
      for (size_t at = below(bytes.size() - 8), i = 0; i < 8; ++i)
        bytes[at + i] = static_cast<char>(i < 4 + below(4) ? 0xff : 0x7f);
      break;
    case 4: bytes += std::string(1 + below(1000), 'x'); break;
    default: break;
  }
  for (size_t flips = below(4); flips > 0 && !bytes.empty(); --flips) {
    const size_t at = below(bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
  }
  return bytes;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsMemory = false;  // sanitizers reserve terabytes of addresses
#else
constexpr bool kLimitsMemory = true;
#endif

/// Address space that this process has, in bytes.
rlim_t address_space() {
  std::ifstream in("/proc/self/statm");
  rlim_t pages = 0;
  in >> pages;
  return pages * 4096;
}

/// No more than `extra` bytes beyond what is used now.
class MemoryLimit {
 public:
  explicit MemoryLimit(rlim_t extra) {
    getrlimit(RLIMIT_AS, &old_);
    const rlimit limit{address_space() + extra, old_.rlim_max};
    if (kLimitsMemory) setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &old_); }

 private:
  rlimit old_{};
};

struct Outcomes {
  int equal = 0, refused = 0, wrong = 0, memory = 0;
  std::set<std::string> reasons;
};

Outcomes read_mutations(const std::string& path, const std::string& good, uint64_t first,
                        int count) {
  write_bytes(path, good);
  const std::string expected = content_of(path);
  const MemoryLimit limit(rlim_t{16} << 20);
  Outcomes outcomes;
  for (int k = 0; k < count; ++k) {
    std::filesystem::remove(path);  // file systems flush one that is cut and written again
    write_bytes(path, mutate(good, first + static_cast<uint64_t>(k)));
    try {
      if (content_of(path) == expected)
        ++outcomes.equal;
      else
        ++outcomes.wrong;
    } catch (const DataError& e) {
      ++outcomes.refused;
      const std::string message = e.what();
      outcomes.memory += message.find("memory allocation failed") != std::string::npos;
      outcomes.reasons.insert(message.substr(std::min(message.size(), path.size())));
    }
  }
  return outcomes;
}

void check_mutations(StorageLayout layout, uint64_t first) {
  const ScratchFolder folder;
  const std::string good = make_file(folder.file("good.h5"), layout);
  ASSERT_LT(good.size(), size_t{1} << 16);
  const Outcomes o = read_mutations(folder.file("bad.h5"), good, first, 2000);
  EXPECT_EQ(o.wrong, 0) << "read without a word, with other content";
  EXPECT_EQ(o.memory, 0) << "asked for more memory than the file could explain";
  EXPECT_EQ(o.equal + o.refused, 2000);
  // The mutations reach many places, and some that nobody reads.
  EXPECT_GT(o.refused, 1000);
  EXPECT_GT(o.equal, 50);
  EXPECT_GT(o.reasons.size(), 20u);
}

TEST(MutatedFile, ContiguousIsRefusedOrReadsAsItWas) {
  check_mutations(StorageLayout::contiguous, 0);
}
TEST(MutatedFile, ChunkedIsRefusedOrReadsAsItWas) {
  check_mutations(StorageLayout::chunked, 100000);
}

// The limit of the tests above works: HDF5 says so when it is hit.
TEST(MutatedFile, TheMemoryLimitIsReal) {
  if (!kLimitsMemory) GTEST_SKIP() << "sanitizers reserve terabytes of addresses";
  const MemoryLimit limit(rlim_t{16} << 20);
  EXPECT_EQ(std::malloc(size_t{64} << 20), nullptr);
}

}  // namespace
}  // namespace espalier
