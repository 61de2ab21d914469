// SPDX-License-Identifier: Apache-2.0
#include "commands/blueprint_text.hpp"

#include "core/log.hpp"
#include "core/units.hpp"

namespace espalier {
namespace {

const char* role_name(ParameterRole role) {
  switch (role) {
    case ParameterRole::weight: return "weight";
    case ParameterRole::bias: return "bias";
    case ParameterRole::norm: return "norm";
    case ParameterRole::embedding: return "embedding";
  }
  return "?";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace

std::string types_text(const Config& config) {
  const std::string compute = element_name(config.numerics.compute_type);
  if (config.numerics.compute_type == ElementType::bf16 && master_type(config) == ElementType::bf16)
    return compute + ", bf16 master weights rounded stochastically";
  return compute;
}

void print_memory_bill(const MemoryBill& bill) {
  const auto text = [](int64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
  const auto print_items = [&](MemorySpace space) {
    for (const MemoryItem& item : bill.items)
      if (item.space == space) info("               {:<26} {:>12}", item.name, text(item.bytes));
  };
  if (const int64_t device = bill.total(MemorySpace::device); device > 0) {
    info("memory       {} of device memory a rank needed:", text(device));
    print_items(MemorySpace::device);
    info("host memory  {} a rank needed:", text(bill.total(MemorySpace::host)));
  } else {
    info("memory       {} a rank needed:", text(bill.total()));
  }
  print_items(MemorySpace::host);
}

void print_blueprint(const Blueprint& b) {
  const ModelConfig& m = b.config.model;
  info("model        {} parameters ({}), {} layers x {}, {} heads ({} for keys), {}",
       format_count(static_cast<double>(b.parameters.parameter_count)),
       b.parameters.parameter_count, m.num_layers, m.hidden_size, m.num_heads, m.num_kv_heads,
       types_text(b.config));
  info("batch        {} tokens a step; {} micro-batches on each of {} data-parallel ranks",
       b.tokens_per_step, b.micro_batches, b.data_parallel);
  info("work         {}FLOP a token ({} in products, {} in attention), {}FLOP a step",
       format_count(static_cast<double>(b.flops_per_token())),
       format_count(static_cast<double>(b.matmul_flops_per_token)),
       format_count(static_cast<double>(b.attention_flops_per_token)),
       format_count(static_cast<double>(b.flops_per_token()) *
                    static_cast<double>(b.tokens_per_step)));
}

void print_parameters(const Blueprint& b) {
  for (const ParameterSpec& p : b.parameters.parameters)
    info("{:<40} {:<20} {:<10} {}", p.name, shape_text(p.shape), role_name(p.role),
         p.decay ? "decay" : "no decay");
}

}  // namespace espalier
