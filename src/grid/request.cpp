// SPDX-License-Identifier: Apache-2.0
// Handles of operations under way.
#include <exception>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "grid/comm.hpp"
#include "grid/device_transfer.hpp"
#include "grid/mpi_check.hpp"
#include "grid/mpi_session.hpp"

namespace espalier {
namespace {

// Only read when a test fails, so that one array serves all requests.
std::vector<MPI_Status>& scratch_statuses(size_t count) {
  static thread_local std::vector<MPI_Status> statuses;
  statuses.resize(count);
  return statuses;
}

}  // namespace

Request& Request::operator=(Request&& other) noexcept {
  std::swap(pending_, other.pending_);
  std::swap(transfer_, other.transfer_);
  std::swap(stats_, other.stats_);
  std::swap(axis_, other.axis_);
  std::swap(operation_, other.operation_);
  std::swap(started_, other.started_);
  return *this;
}

Request::~Request() {
  if (is_complete() || std::uncaught_exceptions() > 0) return;
  try {
    wait();
  } catch (const std::exception& error) {
    // A destructor cannot throw, and to go on would be to compute with half a message.
    print_error(error.what());
    MpiSession::abort(static_cast<int>(ExitCode::launch));
  }
}

MPI_Request* Request::add() {
  pending_.push_back(MPI_REQUEST_NULL);
  return &pending_.back();
}

bool Request::test() {
  if (is_complete()) return true;
  if constexpr (device::kPresent) push_post_queues();  // of all axes; see device_transfer.hpp
  if (transfer_ != nullptr && transfer_->test()) transfer_ = nullptr;
  if (!test_pending() || transfer_ != nullptr) return false;
  stats_->seconds += monotonic_seconds() - started_;
  return true;
}

bool Request::test_pending() {
  if (pending_.empty()) return true;
  int done = 0;
  std::vector<MPI_Status>& statuses = scratch_statuses(pending_.size());
  const int code =
      MPI_Testall(static_cast<int>(pending_.size()), pending_.data(), &done, statuses.data());
  if (code == MPI_ERR_IN_STATUS)
    for (const MPI_Status& status : statuses)
      if (status.MPI_ERROR != MPI_ERR_PENDING)
        check_mpi(status.MPI_ERROR, operation_, __FILE__, __LINE__);
  check_mpi(code, operation_, __FILE__, __LINE__);
  if (done) pending_.clear();
  return done != 0;
}

void Request::wait() {
  if (is_complete()) return;
  wait_until([this] { return test(); }, axis_, operation_, *stats_);
}

}  // namespace espalier
