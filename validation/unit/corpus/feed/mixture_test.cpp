// SPDX-License-Identifier: Apache-2.0
// Shares are exact in every block, and no phase, however short, makes a source repeat or miss.
#include "corpus/feed/mixture.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "../corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using Numbers = std::vector<int64_t>;

TEST(Mixture, QuotasFillTheBlock) {
  EXPECT_EQ(mixture_quotas({1}), (Numbers{65536}));
  EXPECT_EQ(mixture_quotas({1, 1}), (Numbers{32768, 32768}));
  EXPECT_EQ(mixture_quotas({3, 0, 1}), (Numbers{49152, 0, 16384}));
  EXPECT_EQ(mixture_quotas({1, 1, 1}), (Numbers{21846, 21845, 21845}));
  EXPECT_EQ(mixture_quotas({1, 1e-12, 1e-300}), (Numbers{65534, 1, 1}));
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<double> weights;
    for (uint64_t s = 0; s <= seed % 40; ++s) {
      const double u = random_uniform(seed, 1, s);
      weights.push_back(u < 0.2 && s > 0 ? 0.0 : std::pow(u, 9.0));
    }
    const Numbers quota = mixture_quotas(weights);
    EXPECT_EQ(std::accumulate(quota.begin(), quota.end(), int64_t{0}), kMixtureBlock);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (size_t s = 0; s < weights.size(); ++s) {
      EXPECT_EQ(quota[s] == 0, weights[s] == 0.0);
      // Those that were lifted to 1 take at most one each from the others.
      EXPECT_NEAR(static_cast<double>(quota[s]), weights[s] / sum * 65536.0,
                  1.0 + static_cast<double>(weights.size()));
    }
  }
  EXPECT_THROW(mixture_quotas({0, 0}), InternalError);
  EXPECT_THROW(mixture_quotas({1, -1}), InternalError);
}

/// Walks positions [begin, end): every source's samples must come one by one.
void walk(const Mixture& mixture, int64_t begin, int64_t end, Numbers& next) {
  for (int64_t p = begin; p < end; ++p) {
    const Mixture::Place place = mixture.at(p);
    int64_t& expected = next.at(static_cast<size_t>(place.source));
    ASSERT_EQ(place.sample, expected) << "position " << p;
    ++expected;
  }
}

TEST(Mixture, NoGapNoRepeatExactShares) {
  Mixture mixture(5, {"a", "b", "c"});
  const Numbers first = mixture_quotas({5, 3, 0.001}), second = mixture_quotas({1, 0, 1});
  mixture.start(0, first);
  mixture.change(100000, second);  // in the middle of a block
  mixture.change(100007, first);   // a phase of seven positions
  mixture.change(300000, second);
  Numbers next(3, 0);
  walk(mixture, 0, 65536, next);
  EXPECT_EQ(next, first);
  walk(mixture, 65536, 100007, next);
  EXPECT_EQ(mixture.taken_before(100007), next);
  const Numbers before = next;
  walk(mixture, 100007, 100007 + 65536, next);
  for (size_t s = 0; s < 3; ++s) EXPECT_EQ(next[s] - before[s], first[s]);
  walk(mixture, 100007 + 65536, 450000, next);
  EXPECT_EQ(mixture.taken_before(450000), next);
  EXPECT_EQ(mixture.state_at(99999).phase_start, 0);
  EXPECT_EQ(mixture.state_at(100000).phase_start, 100000);
  EXPECT_EQ(mixture.state_at(450000).base, mixture.taken_before(300000));
  EXPECT_THROW(mixture.change(10, first), InternalError);
}

TEST(Mixture, ShortStretchesAreMixedToo) {
  Mixture mixture(1, {"a", "b"});
  mixture.start(0, mixture_quotas({1, 1}));
  double squares = 0.0;
  for (int64_t begin = 0; begin < 65536; begin += 256) {
    int64_t count = 0;
    for (int64_t p = begin; p < begin + 256; ++p) count += mixture.at(p).source;
    squares += static_cast<double>((count - 128) * (count - 128));
  }
  // 256 stretches of deviation 8: the mean square is 64 up to 64 * sqrt(2 / 256) = 5.7.
  EXPECT_NEAR(squares / 256.0, 64.0, 30.0);
}

TEST(Mixture, GoesOnFromItsState) {
  const Numbers quota = mixture_quotas({2, 1});
  Mixture whole(9, {"a", "b"});
  whole.start(0, quota);
  whole.change(70000, mixture_quotas({1, 2}));
  for (const int64_t position : {0, 3, 65536, 69999, 70000, 70001, 200000}) {
    Mixture resumed(9, {"a", "b"});
    resumed.resume(decode_mixture(encode_mixture(whole.state_at(position)), "x"));
    if (position < 70000) resumed.change(70000, mixture_quotas({1, 2}));
    for (int64_t p = position; p < position + 80000; p += 7) {
      ASSERT_EQ(resumed.at(p).source, whole.at(p).source);
      ASSERT_EQ(resumed.at(p).sample, whole.at(p).sample);
    }
  }
  Mixture other(10, {"a", "b"});
  other.start(0, quota);
  int64_t same = 0;
  for (int64_t p = 0; p < 1000; ++p) same += other.at(p).source == whole.at(p).source ? 1 : 0;
  EXPECT_LT(same, 700);  // 5/9 of them by chance
}

TEST(Mixture, SeeksInConstantTime) {
  Mixture mixture(9, {"a", "b", "c"});
  mixture.start(0, mixture_quotas({1, 2, 3}));
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < 20; ++i) {
    const auto taken = mixture.taken_before(1000000000000000 + i * 1000003);
    EXPECT_EQ(std::accumulate(taken.begin(), taken.end(), int64_t{0}),
              1000000000000000 + i * 1000003);
    EXPECT_GE(mixture.at(1000000000000000 - i).sample, 100000000000000);
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(spent.count(), 5.0);  // about 1 ms each; a walk would take years
}

TEST(Mixture, RefusesBadStates) {
  const auto refused = [](const std::string& text) {
    return data_error([&] { decode_mixture(text, "state.h5"); });
  };
  EXPECT_TRUE(decode_mixture("", "x").names.empty());
  EXPECT_EQ(encode_mixture({}), "");
  EXPECT_CONTAINS(refused("{"), "state.h5: the state of the data mixture cannot be read");
  EXPECT_CONTAINS(refused("{\"names\": [\"a\"]}"), "cannot be read");
  const std::string good =
      "{\"phase_start\":3,\"names\":[\"a\",\"b\"],\"base\":[1,2],\"quota\":[65535,1]}";
  EXPECT_EQ(encode_mixture(decode_mixture(good, "x")), good);
  for (const auto& [part, instead] :
       std::vector<std::pair<std::string, std::string>>{{"65535,1", "65535,2"},
                                                        {"65535,1", "65537,-1"},
                                                        {"65535,1", "65536"},
                                                        {"[1,2]", "[-1,2]"},
                                                        {"[1,2]", "[1]"},
                                                        {":3", ":-3"},
                                                        {"\"b\"", "\"a\""}}) {
    std::string bad = good;
    bad.replace(bad.find(part), part.size(), instead);
    EXPECT_CONTAINS(refused(bad), "contradicts itself");
  }
}

}  // namespace
}  // namespace espalier
