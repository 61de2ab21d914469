// SPDX-License-Identifier: Apache-2.0
// Long series made short for a page: smoothing, buckets with their extremes, medians.
#pragma once

#include <cstddef>
#include <vector>

namespace espalier {

using Series = std::vector<double>;  ///< one value a step; NaN where there is none

/// Weighted mean around each value, the weight falling by e over `span` values to both sides: it
/// does not lag behind a falling curve, and at the last value it is the usual moving average of the
/// past. Values that are not finite have no weight; NaN only if none is finite.
Series smooth(const Series& values, double span);

/// Cuts `count` values into at most `most` buckets of nearly equal size: bucket i holds the values
/// [edges[i], edges[i+1]). Each holds one value where count <= most.
std::vector<size_t> bucket_edges(size_t count, size_t most);

/// Mean, least and greatest of the finite values of each bucket; NaN in a bucket without one.
/// So a single outlier among a million steps still shows.
struct Envelope {
  Series mean, min, max;
};
Envelope envelope(const Series& values, const std::vector<size_t>& edges);

/// Of the finite values; NaN if there is none. For an even count the mean of the middle two.
double median(Series values);

}  // namespace espalier
