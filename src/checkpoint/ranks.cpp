// SPDX-License-Identifier: Apache-2.0
// Who writes and reads together: HDF5's access and transfer properties for a communicator. One rank
// alone uses plain files; they come out the same, byte for byte.
#include "checkpoint/ranks.hpp"

#include "core/error.hpp"
#include "grid/comm.hpp"

namespace espalier {

int Ranks::rank() const {
  return comm_ ? comm_->rank() : 0;
}
int Ranks::size() const {
  return comm_ ? comm_->size() : 1;
}

void Ranks::run_agreed(const std::function<void()>& action) const {
  if (size() == 1) return action();
  std::string error;
  try {
    action();
  } catch (const DataError& e) {
    error = e.what();
  }
  const int first = comm_->all_reduce(int32_t{error.empty() ? size() : rank()}, ReduceOp::min);
  if (first == size()) return;
  auto length = static_cast<int64_t>(error.size());
  comm_->broadcast(&length, 1, first);
  error.resize(static_cast<size_t>(length));
  comm_->broadcast(error.data(), length, first);
  throw DataError(error);
}

void Ranks::broadcast(void* data, int64_t bytes) const {
  if (size() > 1) comm_->broadcast(static_cast<char*>(data), bytes, 0);
}

H5Properties Ranks::file_access(const std::string& file) const {
  H5Properties properties(checked(H5Pcreate(H5P_FILE_ACCESS), file, "", "make access properties"));
  const hid_t id = properties.get();
  checked(H5Pset_fclose_degree(id, H5F_CLOSE_STRONG), file, "", "choose closing");
  if (size() == 1) return properties;
  checked(H5Pset_fapl_mpio(id, comm_->handle(), MPI_INFO_NULL), file, "", "use MPI-IO");
  // Metadata stays independent: HDF5's collective metadata write goes through MPI-IO's buffers,
  // which fill the gaps between its pieces with whatever they held before.
  return properties;
}

H5Properties Ranks::transfer(Transfer kind, const std::string& file) const {
  H5Properties properties(
      checked(H5Pcreate(H5P_DATASET_XFER), file, "", "make transfer properties"));
  if (kind == Transfer::collective && size() > 1)
    checked(H5Pset_dxpl_mpio(properties.get(), H5FD_MPIO_COLLECTIVE), file, "",
            "transfer collectively");
  return properties;
}

}  // namespace espalier
