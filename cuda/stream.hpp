// SPDX-License-Identifier: Apache-2.0
// The name of a CUDA stream without a CUDA header.
#pragma once

struct CUstream_st;

namespace espalier::cuda {

/// A cudaStream_t.
using Stream = CUstream_st*;

}  // namespace espalier::cuda
