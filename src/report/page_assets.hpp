// SPDX-License-Identifier: Apache-2.0
// The fixed parts of the page.
#pragma once

namespace espalier {

extern const char* const kPageStyle;  ///< CSS
extern const char* const kPageLogo;   ///< an svg element

/// JavaScript that draws what plots_of() describes: three pieces of one script, in this order.
extern const char* const kPageScriptBegin;
extern const char* const kPageScriptPlot;
extern const char* const kPageScriptEnd;

}  // namespace espalier
