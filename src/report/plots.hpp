// SPDX-License-Identifier: Apache-2.0
// What the page draws, as data: the script of the page knows nothing of training.
#pragma once

#include <nlohmann/json.hpp>

#include "report/run_data.hpp"

namespace espalier {

/// Points of a line at most. A plot is some 1,100 pixels wide at most, so more would not show.
constexpr size_t kMostPoints = 1000;

/// Buckets of the stacked areas at most: finer ones only flicker.
constexpr size_t kMostAreas = 160;

/// The plots of a run; a quantity that the run did not record has none.
///
/// {x: {first, last, tokens}, plots: [{title, note, unit, wide, stack, zero, log, x, series,
/// points, levels, marks}]}: x gives the steps of each bucket, and a plot may have its own; a
/// series has name, color, mean, and min and max where buckets hold several steps; points are the
/// validation losses; levels are horizontal lines; marks are steps worth a sign. Numbers have five
/// digits.
nlohmann::ordered_json plots_of(const RunData& data);

}  // namespace espalier
