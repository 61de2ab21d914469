// SPDX-License-Identifier: Apache-2.0
// What a blueprint says, as text: shared by check, plan and the run header. No MPI, no Kokkos.
#pragma once

#include "blueprint/blueprint.hpp"

namespace espalier {

/// "bf16", and what is unusual about the master weights.
std::string types_text(const Config& config);

/// Prints the total of one rank and a line an item, by memory where a device has its own.
void print_memory_bill(const MemoryBill& bill);

/// Prints model size, work and memory of one rank (espalier check, espalier plan).
void print_blueprint(const Blueprint& blueprint);

/// The table of parameters: name, shape, role, decay (espalier plan --parameters).
void print_parameters(const Blueprint& blueprint);

}  // namespace espalier
