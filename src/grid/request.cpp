// SPDX-License-Identifier: Apache-2.0
// Handles of operations under way, and the types of long messages.
#include <algorithm>
#include <exception>
#include <utility>

#include "core/error.hpp"
#include "grid/byte_type.hpp"
#include "grid/comm.hpp"
#include "grid/mpi_check.hpp"

namespace espalier {

Request& Request::operator=(Request&& other) noexcept {
  std::swap(pending_, other.pending_);
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
  } catch (const std::exception&) {
    // A destructor cannot report; the next call on this communicator meets the same error.
  }
}

MPI_Request* Request::add() {
  pending_.push_back(MPI_REQUEST_NULL);
  return &pending_.back();
}

bool Request::test() {
  if (is_complete()) return true;
  int done = 0;
  ESPALIER_MPI(
      MPI_Testall(static_cast<int>(pending_.size()), pending_.data(), &done, MPI_STATUSES_IGNORE));
  if (!done) return false;
  pending_.clear();
  stats_->seconds += now_s() - started_;
  return true;
}

void Request::wait() {
  if (is_complete()) return;
  wait_until([this] { return test(); }, axis_, operation_, *stats_);
}

ByteType::ByteType(int64_t bytes, int64_t limit) {
  if (bytes <= limit) {
    count_ = static_cast<int>(bytes);
    return;
  }
  const int64_t blocks = bytes / limit, rest = bytes % limit;
  ESPALIER_REQUIRE(blocks <= 2147483647, "a message of {} bytes", bytes);
  MPI_Datatype block = MPI_DATATYPE_NULL, whole = MPI_DATATYPE_NULL;
  ESPALIER_MPI(MPI_Type_contiguous(static_cast<int>(limit), MPI_BYTE, &block));
  ESPALIER_MPI(MPI_Type_contiguous(static_cast<int>(blocks), block, &whole));
  const int lengths[2] = {1, static_cast<int>(rest)};
  const MPI_Aint places[2] = {0, static_cast<MPI_Aint>(blocks * limit)};
  const MPI_Datatype types[2] = {whole, MPI_BYTE};
  ESPALIER_MPI(MPI_Type_create_struct(2, lengths, places, types, &type_));
  ESPALIER_MPI(MPI_Type_commit(&type_));
  ESPALIER_MPI(MPI_Type_free(&block));
  ESPALIER_MPI(MPI_Type_free(&whole));
  count_ = 1;
}

ByteType::~ByteType() {
  if (type_ != MPI_BYTE) MPI_Type_free(&type_);
}

}  // namespace espalier
