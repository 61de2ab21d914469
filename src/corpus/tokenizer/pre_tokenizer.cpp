// SPDX-License-Identifier: Apache-2.0
// The steps of pre-tokenisation.
#include "corpus/tokenizer/pre_tokenizer.hpp"

#include <algorithm>

#include "corpus/tokenizer/byte_alphabet.hpp"

namespace espalier {
namespace {

using Kind = PreTokenizerStep::Kind;
using Piece = PreTokenizer::Piece;

void join_like(std::vector<Stretch>& stretches) {
  std::vector<Stretch> joined;
  for (const Stretch& s : stretches) {
    if (!joined.empty() && joined.back().match == s.match) {
      joined.back().end = s.end;
    } else {
      joined.push_back(s);
    }
  }
  stretches = std::move(joined);
}

// A match joins what stands before it, unless that was a match too.
void join_backward(std::vector<Stretch>& stretches) {
  std::vector<Stretch> joined;
  bool after_match = false;
  for (const Stretch& s : stretches) {
    if (s.match && !after_match && !joined.empty()) {
      joined.back().end = s.end;
    } else {
      joined.push_back(s);
    }
    after_match = s.match;
  }
  stretches = std::move(joined);
}

void join_forward(std::vector<Stretch>& stretches) {
  std::vector<Stretch> joined;  // from the end
  bool after_match = false;
  for (auto s = stretches.rbegin(); s != stretches.rend(); ++s) {
    if (s->match && !after_match && !joined.empty()) {
      joined.back().begin = s->begin;
    } else {
      joined.push_back(*s);
    }
    after_match = s->match;
  }
  std::reverse(joined.begin(), joined.end());
  stretches = std::move(joined);
}

void append_stretches(const Piece& piece, const Pattern& pattern, bool invert,
                      SplitBehaviour behaviour, std::vector<Piece>& out) {
  std::vector<Stretch> stretches;
  pattern.find(piece.text, stretches);
  if (invert) {
    for (Stretch& s : stretches) s.match = !s.match;
  }
  switch (behaviour) {
    case SplitBehaviour::removed:
      stretches.erase(std::remove_if(stretches.begin(), stretches.end(),
                                     [](const Stretch& s) { return s.match; }),
                      stretches.end());
      break;
    case SplitBehaviour::merged_with_previous: join_backward(stretches); break;
    case SplitBehaviour::merged_with_next: join_forward(stretches); break;
    case SplitBehaviour::contiguous: join_like(stretches); break;
    case SplitBehaviour::isolated: break;
  }
  for (const Stretch& s : stretches) {
    if (s.begin == s.end) continue;
    out.push_back({piece.text.substr(s.begin, s.end - s.begin), piece.first && s.begin == 0});
  }
}

bool begins_with(std::string_view text, std::string_view what) {
  return text.substr(0, what.size()) == what;
}

void append_metaspace(const PreTokenizerStep& step, const Piece& piece,
                      std::deque<std::string>& owned, std::vector<Piece>& out) {
  std::string text;
  text.reserve(piece.text.size() + step.replacement.size());
  for (const char c : piece.text) {
    if (c == ' ') {
      text += step.replacement;
    } else {
      text.push_back(c);
    }
  }
  const bool wanted =
      step.scheme == PrependScheme::always || (step.scheme == PrependScheme::first && piece.first);
  if (wanted && !begins_with(text, step.replacement)) text.insert(0, step.replacement);
  owned.push_back(std::move(text));
  const Piece whole{owned.back(), piece.first};
  if (step.is_split) {
    append_stretches(whole, *step.pattern, false, SplitBehaviour::merged_with_next, out);
  } else {
    out.push_back(whole);
  }
}

void append_step(const PreTokenizerStep& step, const Piece& piece, std::deque<std::string>& owned,
                 std::vector<Piece>& out) {
  switch (step.kind) {
    case Kind::scan:
      for (size_t at = 0; at < piece.text.size();) {
        const size_t end = scan_piece(step.scanner, piece.text, at);
        out.push_back({piece.text.substr(at, end - at), piece.first && at == 0});
        at = end;
      }
      break;
    case Kind::split:
      append_stretches(piece, *step.pattern, step.invert, step.behaviour, out);
      break;
    case Kind::metaspace: append_metaspace(step, piece, owned, out); break;
    case Kind::prefix_space:
      if (begins_with(piece.text, " ")) {
        out.push_back(piece);
      } else {
        owned.push_back(" " + std::string(piece.text));
        out.push_back({owned.back(), piece.first});
      }
      break;
    case Kind::byte_alphabet:
      owned.push_back(to_byte_alphabet(piece.text));
      out.push_back({owned.back(), piece.first});
      break;
  }
}

}  // namespace

Scanner PreTokenizer::only_scanner() const {
  return steps_.size() == 1 && steps_[0].kind == Kind::scan ? steps_[0].scanner : Scanner::none;
}

std::vector<Piece> PreTokenizer::split(std::string_view text, bool first,
                                       std::deque<std::string>& owned) const {
  std::vector<Piece> pieces;
  if (!text.empty()) pieces.push_back({text, first});
  for (const PreTokenizerStep& step : steps_) {
    std::vector<Piece> next;
    for (const Piece& piece : pieces) append_step(step, piece, owned, next);
    pieces = std::move(next);
  }
  return pieces;
}

}  // namespace espalier
