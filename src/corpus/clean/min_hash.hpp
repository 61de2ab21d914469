// SPDX-License-Identifier: Apache-2.0
// MinHash signatures of texts, their similarity, and the bands by which likely pairs are found.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace espalier {

constexpr int kSignatureValues = 128;
/// For each of 128 bins the low 16 bits of the least hash in it (never 0), or 0 for an empty bin.
using Signature = std::array<uint16_t, kSignatureValues>;

/// Signs texts by one-permutation hashing: each shingle (`shingle` code points in a row, with
/// simple case folding, and a run of white space as one blank, none at the ends) is hashed once to
/// 64 bits; the upper bits choose a bin, and the least hash of each bin is kept.
///
/// Cost      one pass, a few multiplications a character
/// Source    Li, Owen, Zhang 2012, "One Permutation Hashing", NIPS; 16 bits of each minimum: Li,
///           König 2010, "b-Bit Minwise Hashing", WWW (two different minima look alike once in
///           2^16)
class MinHash {
 public:
  explicit MinHash(int64_t shingle);
  ~MinHash();
  MinHash(const MinHash&) = delete;
  MinHash& operator=(const MinHash&) = delete;

  /// False, and all bins empty, for a text shorter than one shingle. Broken UTF-8 counts byte for
  /// byte.
  bool sign(std::string_view text, Signature& signature);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Bins that agree among those that are filled in one at least; 0 if there is none.
struct Agreement {
  int64_t equal = 0, filled = 0;
};
Agreement compare_signatures(const uint16_t* a, const uint16_t* b);

/// Unbiased estimate of the Jaccard similarity of the two sets of shingles, with a standard
/// deviation of at most sqrt(J (1 - J) / filled): 0.035 at J = 0.8. Nearly exact for texts of few
/// shingles, since then most bins hold one shingle.
/// Source    Li, Owen, Zhang 2012, eq. 7
double estimate_similarity(const Signature& a, const Signature& b);

/// Bands of `rows` values each; two texts are compared if they agree in all values of a band.
struct BandChoice {
  int64_t bands = 1, rows = 1;
  /// 1 - (1 - s^rows)^bands: how likely two texts of similarity `s` share a band.
  double chance(double s) const;
};

constexpr double kLeastChance = 0.95;

/// The choice with most rows (fewest idle comparisons) and as many bands as the values allow, for
/// which chance(similarity) >= 0.95. At 0.8: 18 bands of 7 rows, 0.986; at 0.9: 10 of 12, 0.964.
/// Errors    DeckError for a similarity that no choice reaches (below 0.0232) or above 1
BandChoice choose_bands(double similarity);

/// One key a band, from the signature with its empty bins filled (a copy of the value of a bin that
/// is chosen by hashing). Keys of different bands are different. The signature must not be empty.
/// Source    Shrivastava 2017, "Optimal Densification for Fast and Accurate Minwise Hashing", ICML
void band_keys(const Signature& signature, const BandChoice& choice, std::vector<uint64_t>& keys);

}  // namespace espalier
