// SPDX-License-Identifier: Apache-2.0
// Attention of espalier bench kernels: rates by the causal count of operations, forward 4 and
// backward 10 (2.5 times as many: five products instead of two) a query, key at or before it, and
// channel.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "blueprint/activation_plan.hpp"
#include "commands/bench_kernels.hpp"
#include "core/random.hpp"
#include "layers/attention.hpp"

namespace espalier {
namespace {

// Where each token's document starts, and how many pairs of query and key that leaves, counted as
// half a square a document.
struct Documents {
  std::vector<int32_t> starts;
  double pairs = 0.0;
};

// mean 0: one document a sequence.
Documents cut_in_documents(int64_t sequences, int64_t length, int64_t mean) {
  Documents d;
  uint64_t drawn = 0;
  for (int64_t s = 0; s < sequences; ++s)
    for (int64_t start = 0; start < length;) {
      int64_t size = length - start;
      if (mean > 0) {
        const double x = random_uniform(1, hash_name("bench.documents"), drawn++);
        size = std::min(size, 1 + static_cast<int64_t>(2.0 * x * static_cast<double>(mean)));
      }
      d.starts.insert(d.starts.end(), static_cast<size_t>(size), static_cast<int32_t>(start));
      d.pairs += 0.5 * static_cast<double>(size) * static_cast<double>(size);
      start += size;
    }
  return d;
}

struct AttentionCase {
  int64_t head_dim;
  bool has_groups, has_documents;
  std::string name() const {
    return fmt::format("head_dim {}{}{}", head_dim, has_groups ? ", 4 queries a key head" : "",
                       has_documents ? ", documents" : "");
  }
};

template <class T>
void attention_case(KernelTable& table, const AttentionCase& c) {
  const KernelSizes& sizes = table.sizes();
  const int64_t length = sizes.length, sequences = sizes.tokens / length, tokens = sizes.tokens;
  AttentionShape shape;
  shape.head = {sizes.heads, c.has_groups ? sizes.kv_heads : sizes.heads, c.head_dim};
  shape.sequences = sequences;
  shape.length = length;
  shape.scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  const int64_t width = shape.head.row(), query = shape.head.heads * c.head_dim;
  const Documents documents = cut_in_documents(sequences, length, c.has_documents ? length / 4 : 0);
  const Buffer<int32_t> starts = device_copy("bench.documents", documents.starts);
  // One set: it is larger than the caches by itself, and attention reads it many times anyway.
  const Buffer<T> qkv = normal_numbers<T>("bench.qkv", tokens * width);
  const Buffer<T> d_qkv("bench.d_qkv", tokens * width), heads("bench.heads", tokens * query);
  const Buffer<T> d_heads = normal_numbers<T>("bench.d_heads", tokens * query);
  const Buffer<Acc<T>> log_sum("bench.log_sum", tokens * shape.head.heads);
  const Buffer<Acc<T>> scratch(
      "bench.scratch", std::max(attention_scratch(length, c.head_dim),
                                sequences * ((length + 127) / 128 * 128) * (2 * sizes.heads + 1)));
  const QueryKeyValue<T> in = query_key_value(as_matrix(qkv.data(), tokens, width), shape.head);
  const QueryKeyValue<T> d_in = query_key_value(as_matrix(d_qkv.data(), tokens, width), shape.head);
  const HeadRows<T> out(as_matrix(heads.data(), tokens, query)),
      d_out(as_matrix(d_heads.data(), tokens, query));
  const HeadRows<Acc<T>> sums(log_sum.data(), shape.head.heads);
  const double flops = 4.0 * static_cast<double>(shape.head.heads * c.head_dim) * documents.pairs;
  const auto add = [&](const char* what, double work, const KernelWork& launches) {
    return table
        .measure("attention", fmt::format("attention {}, {}", what, c.name()), RateKind::flops,
                 work, 1, launches, KernelForms::tuned)
        .rate();
  };
  const double forward = add("forward", flops, [&](int64_t) {
    attention_forward<T>(out, sums, in, starts.data(), shape, {}, scratch.data());
  });
  const double backward = add("backward", 2.5 * flops, [&](int64_t) {
    attention_backward<T>(d_in, d_out, out, sums, in, starts.data(), shape, {}, scratch.data());
  });
  table.summary("attention_ratio, " + c.name(), backward / forward, "", "backward to forward");
  if (c.head_dim == 128 && !c.has_groups && !c.has_documents) {
    table.summary("attention_forward", forward * 1e-12, "TFLOP/s", c.name());
    table.summary("attention_ratio", backward / forward, "", c.name());
  }
}

}  // namespace

template <class T>
void bench_attention(KernelTable& table) {
  const KernelSizes& s = table.sizes();
  table.heading(fmt::format("causal attention, {} x {} tokens, {} heads", s.tokens / s.length,
                            s.length, s.heads));
  for (const int64_t head_dim : {64, 96, 128, 256})
    attention_case<T>(table, {head_dim, false, false});
  attention_case<T>(table, {128, true, false});
  attention_case<T>(table, {64, false, true});
  attention_case<T>(table, {128, false, true});
}
template void bench_attention<bf16>(KernelTable&);
template void bench_attention<fp16>(KernelTable&);

}  // namespace espalier
