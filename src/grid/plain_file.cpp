// SPDX-License-Identifier: Apache-2.0
// Plain MPI-IO.
#include "grid/plain_file.hpp"

#include <algorithm>
#include <exception>

#include "core/error.hpp"
#include "grid/io_hints.hpp"
#include "grid/mpi_check.hpp"

namespace espalier {

namespace {

constexpr int64_t kCallBytes = int64_t{1} << 30;  // MPI counts with int

/// Calls f(done, count) for the parts of `bytes` that one call takes, `rounds` times at least.
template <class F>
void for_each_call(int64_t bytes, int64_t rounds, const F& f) {
  int64_t done = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t count = std::min(kCallBytes, bytes - done);
    f(done, static_cast<int>(count));
    done += count;
  }
}

int64_t calls_for(int64_t bytes) {
  return (bytes + kCallBytes - 1) / kCallBytes;
}

void require_count(const std::string& path, const MPI_Status& status, int count) {
  int found = 0;
  ESPALIER_MPI(MPI_Get_count(&status, MPI_BYTE, &found));
  ESPALIER_REQUIRE(found == count, "{}: {} of {} bytes were transferred", path, found, count);
}

}  // namespace

PlainFile::PlainFile(const Comm& comm, const std::string& path, Access access,
                     const std::vector<std::string>& hints)
    : comm_(comm), path_(path), exceptions_at_start_(std::uncaught_exceptions()) {
  const IoHints info(hints);
  const int mode = access == Access::read ? MPI_MODE_RDONLY : MPI_MODE_WRONLY | MPI_MODE_CREATE;
  ESPALIER_MPI(MPI_File_open(comm.handle(), path.c_str(), mode, info.handle(), &file_));
  if (access == Access::write) ESPALIER_MPI(MPI_File_set_size(file_, 0));
}

PlainFile::~PlainFile() {
  if (file_ != MPI_FILE_NULL && std::uncaught_exceptions() == exceptions_at_start_)
    MPI_File_close(&file_);
}

int64_t PlainFile::rounds(int64_t bytes) const {
  return comm_.size() > 1 ? comm_.all_reduce(calls_for(bytes), ReduceOp::max) : calls_for(bytes);
}

void PlainFile::write_at(int64_t offset, const void* data, int64_t bytes) {
  for_each_call(bytes, calls_for(bytes), [&](int64_t done, int count) {
    MPI_Status status;
    ESPALIER_MPI(MPI_File_write_at(file_, offset + done, static_cast<const char*>(data) + done,
                                   count, MPI_BYTE, &status));
    require_count(path_, status, count);
  });
}

void PlainFile::read_at(int64_t offset, void* data, int64_t bytes) {
  for_each_call(bytes, calls_for(bytes), [&](int64_t done, int count) {
    MPI_Status status;
    ESPALIER_MPI(MPI_File_read_at(file_, offset + done, static_cast<char*>(data) + done, count,
                                  MPI_BYTE, &status));
    require_count(path_, status, count);
  });
}

void PlainFile::write_at_all(int64_t offset, const void* data, int64_t bytes) {
  for_each_call(bytes, rounds(bytes), [&](int64_t done, int count) {
    MPI_Status status;
    ESPALIER_MPI(MPI_File_write_at_all(file_, offset + done, static_cast<const char*>(data) + done,
                                       count, MPI_BYTE, &status));
    require_count(path_, status, count);
  });
}

void PlainFile::read_at_all(int64_t offset, void* data, int64_t bytes) {
  for_each_call(bytes, rounds(bytes), [&](int64_t done, int count) {
    MPI_Status status;
    ESPALIER_MPI(MPI_File_read_at_all(file_, offset + done, static_cast<char*>(data) + done, count,
                                      MPI_BYTE, &status));
    require_count(path_, status, count);
  });
}

void PlainFile::sync() {
  ESPALIER_MPI(MPI_File_sync(file_));
}

void PlainFile::close() {
  ESPALIER_MPI(MPI_File_close(&file_));
}

}  // namespace espalier
