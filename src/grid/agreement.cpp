// SPDX-License-Identifier: Apache-2.0
#include "grid/agreement.hpp"

#include <string>

#include "core/error.hpp"

namespace espalier {
namespace {

[[noreturn]] void throw_error(ExitCode code, const std::string& text) {
  switch (code) {
    case ExitCode::deck: throw DeckError(text);
    case ExitCode::launch: throw LaunchError(text);
    case ExitCode::data: throw DataError(text);
    case ExitCode::numerical: throw NumericalError(text);
    default: throw InternalError(text);
  }
}

}  // namespace

void run_agreed(const Comm& ranks, const std::function<void()>& action) {
  if (ranks.size() == 1) return action();
  std::string text;
  int64_t news[2] = {0, 0};  // exit code, length of the text
  try {
    action();
  } catch (const Error& e) {
    text = e.what();
    news[0] = static_cast<int64_t>(e.code());
    news[1] = static_cast<int64_t>(text.size());
  }
  const int own = news[0] == 0 ? ranks.size() : ranks.rank();
  const int first = ranks.all_reduce(int32_t{own}, ReduceOp::min);
  if (first == ranks.size()) return;
  ranks.broadcast(news, 2, first);
  text.resize(static_cast<size_t>(news[1]));
  if (news[1] > 0) ranks.broadcast(text.data(), news[1], first);
  throw_error(static_cast<ExitCode>(news[0]), text);
}

}  // namespace espalier
