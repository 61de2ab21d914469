// SPDX-License-Identifier: Apache-2.0
// What a reader sees of a web page, as plain text.
#pragma once

#include <cstddef>
#include <string>

namespace espalier {

/// The text of a page: blanks collapsed except in <pre>, a line for each block and table row, a
/// blank line around paragraphs, headings, lists and tables, a tab between cells, images by their
/// alternative text, rubies without their reading. Left out: scripts, styles, templates, what
/// stands for scripts in the head, tags and comments. Nothing is fetched, and no entity is defined
/// by a page. Never ends or begins with a blank.
///
/// `page` is valid UTF-8 and is changed: zero bytes become blanks.
/// Returns   the byte of `page` where the parser gave up, or its size
/// Cost      linear in the page, however deep its elements nest
std::size_t html_to_text(std::string& page, std::string& text);

}  // namespace espalier
