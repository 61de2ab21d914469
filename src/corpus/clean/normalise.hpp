// SPDX-License-Identifier: Apache-2.0
// Steps of cleaning that rewrite a text: Unicode normalisation and removal of control characters.
#pragma once

#include <string>
#include <string_view>

#include "deck/corpus_config.hpp"

namespace espalier {

/// The text in the normal form `form`; broken UTF-8 stays byte for byte, and what stands between
/// its sequences is normalised for itself. `none` gives the text back.
/// Source    Unicode Standard Annex 15, by ICU's Normalizer2
std::string normalise_text(std::string_view text, Normalisation form);

/// Takes out control characters (category Cc but tab and line feed) and U+FEFF; CR LF and CR become
/// line feeds. What carries meaning stays: joiners, variation selectors, marks of direction, and
/// U+200B, which parts words in Thai, Khmer and others. Bytes that are not UTF-8 stay.
void remove_control(std::string& text);

}  // namespace espalier
