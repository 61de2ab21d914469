// SPDX-License-Identifier: Apache-2.0
// One-permutation hashing of folded text, densification for the bands, and their choice.
#include "corpus/clean/min_hash.hpp"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "corpus/clean/character_table.hpp"
#include "corpus/hash.hpp"

namespace espalier {
namespace {

constexpr uint64_t kBase = 0x9E3779B97F4A7C15ull;  // odd, of the rolling polynomial modulo 2^64
constexpr int kBinBits = 7;
static_assert(kSignatureValues == 1 << kBinBits);
constexpr uint32_t kBlankPoint = ' ', kBrokenPoint = 0x110000;  // + byte: outside Unicode
constexpr size_t kChunk = 4096;                                 // characters folded at a time

// The finaliser of MurmurHash3 (Appleby): a polynomial alone is not random in its upper bits.
uint64_t mix(uint64_t h) {
  h ^= h >> 33;
  h *= 0xFF51AFD7ED558CCDull;
  h ^= h >> 33;
  h *= 0xC4CEB9FE1A85EC53ull;
  return h ^ (h >> 33);
}

/// A code point with its case folded, white space as one blank; 2^17 entries, since nothing above
/// has case.
const std::vector<uint32_t>& folding_table() {
  static const std::vector<uint32_t> table = [] {
    const std::vector<uint16_t>& characters = character_table();
    std::vector<uint32_t> made(1 << 17);
    for (size_t c = 0; c < made.size(); ++c) {
      made[c] =
          (characters[c] & kBlank) != 0
              ? kBlankPoint
              : static_cast<uint32_t>(u_foldCase(static_cast<UChar32>(c), U_FOLD_CASE_DEFAULT));
    }
    return made;
  }();
  return table;
}

}  // namespace

struct MinHash::State {
  size_t shingle = 1;
  uint64_t leaving = 1;  // kBase^shingle: weight of the character that leaves the window
  std::vector<uint32_t> points;
  std::array<uint64_t, kSignatureValues> least{};
  uint64_t rolling = 0;
  size_t seen = 0;  // characters in all

  /// Rolls over points[shingle, end), whose first `shingle` are the window so far.
  void roll(size_t end) {
    uint64_t h = rolling;
    size_t i = shingle;
    // Before the window is full nothing may be taken, and what leaves it is zero.
    for (; i < end && seen + 1 < shingle; ++i, ++seen) h = h * kBase + points[i];
    for (; i < end; ++i, ++seen) {
      h = h * kBase + points[i] - points[i - shingle] * leaving;
      const uint64_t hash = mix(h);
      uint64_t& bin = least[hash >> (64 - kBinBits)];
      if (hash < bin) bin = hash;
    }
    rolling = h;
    std::memmove(points.data(), points.data() + (end - shingle), shingle * sizeof(uint32_t));
  }
};

MinHash::MinHash(int64_t shingle) : state_(std::make_unique<State>()) {
  ESPALIER_REQUIRE(shingle >= 1 && shingle <= (int64_t{1} << 20), "shingle = {}", shingle);
  State& s = *state_;
  s.shingle = static_cast<size_t>(shingle);
  for (int64_t i = 0; i < shingle; ++i) s.leaving *= kBase;
  s.points.resize(s.shingle + kChunk);
}

MinHash::~MinHash() = default;

bool MinHash::sign(std::string_view text, Signature& signature) {
  State& s = *state_;
  const uint32_t* const folding = folding_table().data();
  const size_t folded = folding_table().size();
  const auto* const p = reinterpret_cast<const unsigned char*>(text.data());
  const auto size = static_cast<int64_t>(text.size());
  // The largest hash marks an empty bin.
  s.least.fill(std::numeric_limits<uint64_t>::max());
  std::fill(s.points.begin(), s.points.begin() + static_cast<std::ptrdiff_t>(s.shingle), 0u);
  s.rolling = 0;
  s.seen = 0;
  size_t end = s.shingle;
  bool in_text = false, after_blank = false;
  for (int64_t at = 0; at < size;) {
    const int64_t begin = at;
    UChar32 c;
    U8_NEXT(p, at, size, c);
    uint32_t point = static_cast<uint32_t>(c);
    if (c < 0) {
      point = kBrokenPoint + p[begin];
      at = begin + 1;
    } else if (point < folded) {
      point = folding[point];
    }
    if (point == kBlankPoint) {
      after_blank = in_text;
      continue;
    }
    if (end + 2 > s.points.size()) {
      s.roll(end);
      end = s.shingle;
    }
    if (after_blank) s.points[end++] = kBlankPoint;
    s.points[end++] = point;
    in_text = true;
    after_blank = false;
  }
  s.roll(end);
  for (size_t i = 0; i < signature.size(); ++i) {
    const auto value = static_cast<uint16_t>(s.least[i]);
    const bool is_empty = s.least[i] == std::numeric_limits<uint64_t>::max();
    signature[i] = is_empty ? uint16_t{0} : value == 0 ? uint16_t{1} : value;
  }
  return s.seen >= s.shingle;
}

Agreement compare_signatures(const uint16_t* a, const uint16_t* b) {
  uint16_t equal = 0, filled = 0;  // of the values' width, so that the loop becomes vector code
  for (int i = 0; i < kSignatureValues; ++i) {
    const uint16_t any = (a[i] | b[i]) != 0 ? 1 : 0;
    filled = static_cast<uint16_t>(filled + any);
    equal = static_cast<uint16_t>(equal + (a[i] == b[i] ? any : 0));
  }
  return {equal, filled};
}

double estimate_similarity(const Signature& a, const Signature& b) {
  const Agreement found = compare_signatures(a.data(), b.data());
  return found.filled == 0 ? 0.0
                           : static_cast<double>(found.equal) / static_cast<double>(found.filled);
}

double BandChoice::chance(double s) const {
  return 1.0 - std::pow(1.0 - std::pow(s, static_cast<double>(rows)), static_cast<double>(bands));
}

BandChoice choose_bands(double similarity) {
  if (similarity > 0.0 && similarity <= 1.0) {
    for (int64_t rows = kSignatureValues; rows >= 1; --rows) {
      const BandChoice choice{kSignatureValues / rows, rows};
      if (choice.chance(similarity) >= kLeastChance) return choice;
    }
  }
  throw DeckError(fmt::format(
      "clean.similarity = {}: near duplicates can be found for 0.024 to 1; try 0.8", similarity));
}

void band_keys(const Signature& signature, const BandChoice& choice, std::vector<uint64_t>& keys) {
  Signature filled = signature;
  constexpr uint64_t kMask = kSignatureValues - 1;
  for (size_t bin = 0; bin < filled.size(); ++bin) {
    // The places looked at depend on the bin alone, so like texts find the same neighbours.
    for (uint64_t attempt = 1; filled[bin] == 0; ++attempt) {
      ESPALIER_REQUIRE(attempt < 1000000, "a signature without values has no bands");
      filled[bin] = signature[mix((uint64_t{bin} << 32) + attempt) & kMask];
    }
  }
  keys.resize(static_cast<size_t>(choice.bands));
  const auto rows = static_cast<size_t>(choice.rows);
  for (size_t band = 0; band < keys.size(); ++band)
    keys[band] = hash_bytes(filled.data() + band * rows, rows * sizeof(uint16_t), band + 1);
}

}  // namespace espalier
