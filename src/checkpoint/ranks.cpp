// SPDX-License-Identifier: Apache-2.0
// Who writes and reads together: HDF5's access and transfer properties for a communicator. One rank
// alone uses plain files; they come out the same, byte for byte.
#include "checkpoint/ranks.hpp"

#include "core/error.hpp"
#include "grid/agreement.hpp"
#include "grid/io_hints.hpp"

namespace espalier {

int Ranks::rank() const {
  return comm_ ? comm_->rank() : 0;
}
int Ranks::size() const {
  return comm_ ? comm_->size() : 1;
}

void Ranks::run_agreed(const std::function<void()>& action) const {
  if (size() == 1) return action();
  espalier::run_agreed(*comm_, action);
}

void Ranks::broadcast(void* data, int64_t bytes) const {
  if (size() > 1) comm_->broadcast(static_cast<char*>(data), bytes, 0);
}

void Ranks::add_up(std::vector<uint64_t>& numbers) const {
  if (size() > 1)
    comm_->all_reduce(numbers.data(), static_cast<int64_t>(numbers.size()), ReduceOp::sum);
}

void Ranks::keep_largest(std::vector<int64_t>& numbers) const {
  if (size() > 1)
    comm_->all_reduce(numbers.data(), static_cast<int64_t>(numbers.size()), ReduceOp::max);
}

namespace {

H5Properties make_access(const std::string& file) {
  H5Properties properties(checked(H5Pcreate(H5P_FILE_ACCESS), file, "", "make access properties"));
  checked(H5Pset_fclose_degree(properties.get(), H5F_CLOSE_STRONG), file, "", "choose closing");
  return properties;
}

}  // namespace

H5Properties Ranks::shared_access(const std::string& file,
                                  const std::vector<std::string>& hints) const {
  H5Properties properties = make_access(file);
  if (size() == 1) return properties;
  const IoHints info(hints);  // HDF5 keeps a copy
  checked(H5Pset_fapl_mpio(properties.get(), comm_->handle(), info.handle()), file, "",
          "use MPI-IO");
  // Metadata stays independent: HDF5's collective metadata write goes through MPI-IO's buffers,
  // which fill the gaps between its pieces with whatever they held before.
  return properties;
}

H5Properties own_access(const std::string& file) {
  H5Properties properties = make_access(file);
#if H5_VERSION_GE(1, 10, 7)
  // A finished file never changes, and some file systems know no locks.
  checked(H5Pset_file_locking(properties.get(), false, true), file, "", "do without a lock");
#endif
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
