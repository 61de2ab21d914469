// SPDX-License-Identifier: Apache-2.0
// The matrix products of espalier bench kernels, and the ways to a weight and bias gradient.
#include <fmt/format.h>

#include "blueprint/activation_plan.hpp"
#include "commands/bench_kernels.hpp"
#include "cuda/matmul.hpp"
#include "layers/linear.hpp"
#include "tensor/gemm.hpp"
#include "tensor/tuned.hpp"

namespace espalier {
namespace {

// One linear layer of a published model.
struct LinearShape {
  const char *model, *layer;
  int64_t in, out, tokens;
};

// gpt2: Radford et al. 2019, vocabulary padded to a multiple of 128 as in inputs/bench; llama: 3.2
// 1B. Tokens of a micro-batch, for the vocabulary those that numerics.logits_mib lets through.
constexpr LinearShape kShapes[] = {
    {"gpt2-124m", "qkv", 768, 2304, 65536},         {"gpt2-124m", "output", 768, 768, 65536},
    {"gpt2-124m", "up", 768, 3072, 65536},          {"gpt2-124m", "down", 3072, 768, 65536},
    {"gpt2-124m", "vocabulary", 768, 50304, 9472},  {"gpt2-1558m", "qkv", 1600, 4800, 16384},
    {"gpt2-1558m", "output", 1600, 1600, 16384},    {"gpt2-1558m", "up", 1600, 6400, 16384},
    {"gpt2-1558m", "down", 6400, 1600, 16384},      {"gpt2-1558m", "vocabulary", 1600, 50304, 8192},
    {"llama-1b", "qkv", 2048, 3072, 32768},         {"llama-1b", "output", 2048, 2048, 32768},
    {"llama-1b", "up", 2048, 16384, 32768},         {"llama-1b", "down", 8192, 2048, 32768},
    {"llama-1b", "vocabulary", 2048, 128256, 4096},
};

// The operands of one linear layer, in as many sets as the caches cannot hold.
template <class T>
struct LinearOperands {
  LinearOperands(const KernelSizes& sizes, int64_t tokens_, int64_t in_, int64_t out_)
      : tokens(tokens_), in(in_), out(out_) {
    const auto bytes = static_cast<int64_t>(sizeof(T)) * (tokens * (in + out) + in * out);
    sets = operand_sets(sizes, bytes);
    x = normal_numbers<T>("bench.x", sets * tokens * in);
    y = normal_numbers<T>("bench.y", sets * tokens * out);
    w = normal_numbers<T>("bench.w", sets * in * out, 0.02);
    dw = Buffer<Acc<T>>("bench.dw", in * out);
  }
  Mat<T> xs(int64_t i) const { return as_matrix(x.data() + i % sets * tokens * in, tokens, in); }
  Mat<T> ys(int64_t i) const { return as_matrix(y.data() + i % sets * tokens * out, tokens, out); }
  Mat<T> ws(int64_t i) const { return as_matrix(w.data() + i % sets * in * out, out, in); }
  Mat<Acc<T>> weight_gradient() const { return as_matrix(dw.data(), out, in); }
  double flops() const { return 2.0 * static_cast<double>(tokens) * in * out; }

  int64_t tokens, in, out, sets = 1;
  Buffer<T> x, y, w;
  Buffer<Acc<T>> dw;
};

template <class T>
void square_product(KernelTable& table) {
  const int64_t n = table.sizes().square;
  const LinearOperands<T> o(table.sizes(), n, n, n);
  const KernelRow& row = table.measure(
      "products", fmt::format("{} x {} x {}", n, n, n), RateKind::flops, o.flops(), o.sets,
      [&](int64_t i) { linear_forward<T>(o.ys(i), o.xs(i), o.ws(i)); }, KernelForms::tuned);
  table.set_gemm_rate(row.rate());
  table.summary("gemm_rate", row.rate() * 1e-12, "TFLOP/s", "the reference of shares of FLOPs");
}

template <class T>
void linear_layer(KernelTable& table, const LinearShape& shape) {
  const KernelSizes& sizes = table.sizes();
  const LinearOperands<T> o(sizes, sizes.of_model(shape.tokens), sizes.of_model(shape.in),
                            sizes.of_model(shape.out));
  const auto add = [&](const char* what, const KernelWork& work) {
    table.measure("products", fmt::format("{} {} {}", shape.model, shape.layer, what),
                  RateKind::flops, o.flops(), o.sets, work, KernelForms::tuned);
  };
  add("forward", [&](int64_t i) { linear_forward<T>(o.ys(i), o.xs(i), o.ws(i)); });
  add("input gradient", [&](int64_t i) { linear_backward_input<T>(o.xs(i), o.ys(i), o.ws(i)); });
  add("weight gradient",
      [&](int64_t i) { linear_backward_weight<T>(o.weight_gradient(), o.ys(i), o.xs(i)); });
}

// What the bias costs beside the product: a pass of its own over y, or the epilogue.
template <class T>
void forward_and_bias(KernelTable& table) {
  const KernelSizes& sizes = table.sizes();
  const LinearOperands<T> o(sizes, sizes.of_model(16384), sizes.of_model(1600),
                            sizes.of_model(4800));
  const Buffer<T> b = normal_numbers<T>("bench.b", o.out);
  const Vec<T> bias = as_vector(b);
  table.heading("product with bias, gpt2-1558m qkv");
  const auto add = [&](const char* name, const KernelWork& work) {
    table.measure("bias", name, RateKind::flops, o.flops(), o.sets, work, KernelForms::tuned);
  };
  add("product, then bias", [&](int64_t i) {
    linear_forward<T>(o.ys(i), o.xs(i), o.ws(i));
    add_bias<T>(o.ys(i), bias);
  });
  bool has_epilogue = false;
  const auto together = [&](int64_t i) {
    has_epilogue = linear_forward_with_bias<T>(o.ys(i), o.xs(i), o.ws(i), bias);
  };
  together(0);
  const char* name = "product with bias";
  if (has_epilogue)
    add(name, together);
  else
    table.absent("bias", name, "no such epilogue for the shape");
}

// What the bias gradient costs beside the weight gradient: a pass of its own over dy, or the
// epilogue of the product, also where a step does not take it.
template <class T>
void gradients_and_bias(KernelTable& table) {
  const KernelSizes& sizes = table.sizes();
  const int64_t in = sizes.of_model(1600), out = sizes.of_model(6400);
  const LinearOperands<T> o(sizes, sizes.of_model(16384), in, out);
  const Buffer<Acc<T>> db("bench.db", out), scratch("bench.scratch", kBiasPartials * out);
  const Vec<Acc<T>> bias = as_vector(db);
  table.heading("weight gradient with bias, gpt2-1558m up");
  const auto add = [&](const char* name, const KernelWork& work) {
    table.measure("bias", name, RateKind::flops, o.flops(), o.sets, work, KernelForms::tuned);
  };
  add("weight gradient alone",
      [&](int64_t i) { linear_backward_weight<T>(o.weight_gradient(), o.ys(i), o.xs(i)); });
  add("weight gradient, then bias gradient", [&](int64_t i) {
    linear_backward_weight<T>(o.weight_gradient(), o.ys(i), o.xs(i));
    linear_backward_bias<T>(bias, o.ys(i), scratch.data());
  });
  if constexpr (device::kPresent) {
    bool has_epilogue = true;
    const auto together = [&](int64_t i) {
      has_epilogue = cuda::matmul_weight_and_bias(
          o.dw.data(), in, db.data(), o.ys(i).data(), out, o.xs(i).data(), in, out, in, o.tokens,
          ElementTraits<T>::kType, scratch.data(), tuned_stream(), cuda::BiasGradient::epilogue);
    };
    together(0);
    const char* name = "weight and bias gradient in one product";
    if (has_epilogue)
      add(name, together);
    else
      table.absent("bias", name, "this cuBLASLt has no such epilogue for the shape");
  }
}

}  // namespace

template <class T>
void bench_products(KernelTable& table) {
  table.heading("matrix products");
  square_product<T>(table);
  for (const LinearShape& shape : kShapes) linear_layer<T>(table, shape);
  forward_and_bias<T>(table);
  gradients_and_bias<T>(table);
}
template void bench_products<bf16>(KernelTable&);
template void bench_products<fp16>(KernelTable&);

}  // namespace espalier
