// SPDX-License-Identifier: Apache-2.0
// Linear layers, activations, embedding and loss as operator cases.
#pragma once

#include "../device_list.hpp"
#include "blueprint/activation_plan.hpp"
#include "harness.hpp"
#include "layers/activation.hpp"
#include "layers/cross_entropy.hpp"
#include "layers/embedding.hpp"
#include "layers/linear.hpp"

namespace espalier::check {

template <class T>
void copy_array(const Array& to, const Array& from) {
  ESPALIER_REQUIRE(to.size() == from.size(), "{} elements to {}", from.size(), to.size());
  device::copy(to.as<T>(), from.as<T>(), to.size() * static_cast<int64_t>(sizeof(T)));
}

/// What linear_backward_bias wants.
template <class T>
Array bias_scratch(int64_t columns) {
  return Array(sum_type(ElementTraits<T>::kType), kBiasPartials * columns);
}

/// y = x W^T + b; the gradient of x overwritten or, where a second branch reads x, added to.
template <class T>
class LinearCase : public OperatorCase {
 public:
  LinearCase(int64_t tokens, int64_t out, int64_t in, Write input_gradient = Write::overwrite)
      : tokens_(tokens), out_(out), in_(in), write_(input_gradient) {
    inputs_ = {activation_port<T>("x", tokens * in), parameter_port<T>("w", out * in),
               parameter_port<T>("b", out)};
    inputs_[0].gradient = write_;
    outputs_ = {activation_port<T>("y", tokens * out)};
    saved_ = {bias_scratch<T>(out)};
  }

  void forward(const Arrays& o, const Arrays& i) override {
    const Mat<T> y = o[0].matrix<T>(tokens_, out_);
    linear_forward<T>(y, i[0].matrix<T>(tokens_, in_), i[1].matrix<T>(out_, in_));
    add_bias<T>(y, i[2].vector<T>());
  }
  void backward(const Arrays& d, const Arrays& dy, const Arrays& i) override {
    const Mat<const T> dy_matrix = dy[0].matrix<T>(tokens_, out_);
    linear_backward_input<T>(d[0].matrix<T>(tokens_, in_), dy_matrix, i[1].matrix<T>(out_, in_),
                             write_);
    linear_backward_weight<T>(d[1].matrix<Acc<T>>(out_, in_), dy_matrix,
                              i[0].matrix<T>(tokens_, in_));
    linear_backward_bias<T>(d[2].vector<Acc<T>>(), dy_matrix, saved_[0].as<Acc<T>>());
  }

 private:
  int64_t tokens_, out_, in_;
  Write write_;
};

/// y = y0 + x W^T by a product that is added to its output.
template <class T>
class LinearAddCase : public OperatorCase {
 public:
  LinearAddCase(int64_t tokens, int64_t out, int64_t in) : tokens_(tokens), out_(out), in_(in) {
    inputs_ = {activation_port<T>("y0", tokens * out), activation_port<T>("x", tokens * in),
               parameter_port<T>("w", out * in)};
    outputs_ = {activation_port<T>("y", tokens * out)};
  }

  void forward(const Arrays& o, const Arrays& i) override {
    copy_array<T>(o[0], i[0]);
    linear_forward<T>(o[0].matrix<T>(tokens_, out_), i[1].matrix<T>(tokens_, in_),
                      i[2].matrix<T>(out_, in_), Write::add);
  }
  void backward(const Arrays& d, const Arrays& dy, const Arrays& i) override {
    const Mat<const T> dy_matrix = dy[0].matrix<T>(tokens_, out_);
    copy_array<T>(d[0], dy[0]);
    linear_backward_input<T>(d[1].matrix<T>(tokens_, in_), dy_matrix, i[2].matrix<T>(out_, in_));
    linear_backward_weight<T>(d[2].matrix<Acc<T>>(out_, in_), dy_matrix,
                              i[1].matrix<T>(tokens_, in_));
  }

 private:
  int64_t tokens_, out_, in_;
};

enum class Bias { no, yes };

/// y = f(up + bias). `backward_kind` differs from `kind` only in negative controls.
template <class T>
class ActivationCase : public OperatorCase {
 public:
  ActivationCase(Activation kind, Bias bias, int64_t tokens, int64_t width)
      : ActivationCase(kind, kind, bias, tokens, width) {}
  ActivationCase(Activation kind, Activation backward_kind, Bias bias, int64_t tokens,
                 int64_t width)
      : kind_(kind),
        backward_kind_(backward_kind),
        tokens_(tokens),
        width_(width),
        up_width_(kind == Activation::swiglu ? 2 * width : width) {
    inputs_ = {activation_port<T>("up", tokens * up_width_)};
    inputs_[0].spread = 1.5;
    if (bias == Bias::yes) inputs_.push_back(parameter_port<T>("bias", up_width_));
    outputs_ = {activation_port<T>("y", tokens * width)};
    saved_ = {Array(ElementTraits<T>::kType, tokens * up_width_), bias_scratch<T>(up_width_)};
  }

  void forward(const Arrays& o, const Arrays& i) override {
    copy_array<T>(saved_[0], i[0]);
    const Vec<const T> bias = i.size() > 1 ? Vec<const T>(i[1].vector<T>()) : Vec<const T>();
    activation_forward<T>(kind_, o[0].matrix<T>(tokens_, width_),
                          saved_[0].matrix<T>(tokens_, up_width_), bias);
  }
  void backward(const Arrays& d, const Arrays& dy, const Arrays& i) override {
    const Mat<T> d_up = d[0].matrix<T>(tokens_, up_width_);
    activation_backward<T>(backward_kind_, d_up, dy[0].matrix<T>(tokens_, width_),
                           saved_[0].matrix<T>(tokens_, up_width_));
    if (i.size() > 1)
      linear_backward_bias<T>(d[1].vector<Acc<T>>(), Mat<const T>(d_up), saved_[1].as<Acc<T>>());
  }

 private:
  Activation kind_, backward_kind_;
  int64_t tokens_, width_, up_width_;
};

/// Global indices of the tokens of a test: neither in order nor from 0 on.
inline DeviceList<int64_t> scattered_tokens(int64_t count) {
  std::vector<int64_t> index;
  for (int64_t t = 0; t < count; ++t) index.push_back((int64_t{1} << 33) + (t * 37) % 1009 + t / 3);
  return index;
}

/// Rows of a token table, plus those of a position table where `positions` is not empty. Of the
/// vocabulary the table holds the rows from `first` on; a part of it goes without positions.
template <class T>
class EmbeddingCase : public OperatorCase {
 public:
  EmbeddingCase(int64_t vocab, int64_t position_count, int64_t hidden, DeviceList<int32_t> tokens,
                DeviceList<int32_t> positions, const DropoutMask& mask = {}, int64_t first = 0)
      : vocab_(vocab),
        position_count_(position_count),
        hidden_(hidden),
        tokens_(std::move(tokens)),
        positions_(std::move(positions)),
        mask_(mask),
        first_(first),
        token_index_(scattered_tokens(tokens_.size())) {
    inputs_ = {parameter_port<T>("token_table", vocab * hidden)};
    if (!positions_.empty())
      inputs_.push_back(parameter_port<T>("position_table", position_count * hidden));
    outputs_ = {activation_port<T>("x", tokens_.size() * hidden)};
  }

  void forward(const Arrays& o, const Arrays& i) override {
    Mat<const T> table(nullptr, 0, 0);
    if (!positions_.empty()) table = i[1].matrix<T>(position_count_, hidden_);
    embedding_forward<T>(matrix(o[0]), i[0].matrix<T>(vocab_, hidden_), table, tokens_.data(),
                         positions_.data(), first_, mask_, token_index_.data());
  }
  void backward(const Arrays& d, const Arrays& dx, const Arrays& /*inputs*/) override {
    const Array kept(ElementTraits<T>::kType, dx[0].size());
    const Mat<const T> dy = matrix(kept);
    apply_dropout<T>(matrix(kept), matrix(dx[0]), mask_, token_index_.data());
    embedding_backward<T>(d[0].matrix<Acc<T>>(vocab_, hidden_), dy, tokens_.data(), first_);
    if (!positions_.empty())
      embedding_backward<T>(d[1].matrix<Acc<T>>(position_count_, hidden_), dy, positions_.data());
  }

 private:
  Mat<T> matrix(const Array& a) const { return a.matrix<T>(tokens_.size(), hidden_); }
  int64_t vocab_, position_count_, hidden_;
  DeviceList<int32_t> tokens_, positions_;
  DropoutMask mask_;
  int64_t first_;
  DeviceList<int64_t> token_index_;
};

/// Losses of a chunk of logits. Their gradients are one number for all tokens.
template <class T>
class CrossEntropyCase : public OperatorCase {
 public:
  CrossEntropyCase(int64_t vocab, DeviceList<int32_t> targets, double logit_scale,
                   double spread = 2.0)
      : vocab_(vocab), targets_(std::move(targets)), logit_scale_(logit_scale) {
    inputs_ = {activation_port<T>("logits", tokens() * vocab)};
    inputs_[0].spread = spread;
    outputs_ = {activation_port<T>("losses", tokens())};
    outputs_[0].type = sum_type(ElementTraits<T>::kType);
    saved_ = {Array(ElementTraits<T>::kType, tokens() * vocab),
              Array(sum_type(ElementTraits<T>::kType), tokens())};
  }

  void restrict_output_gradients(std::vector<std::vector<double>>& values) const override {
    std::fill(values[0].begin(), values[0].end(), values[0][0]);
  }
  void forward(const Arrays& o, const Arrays& i) override {
    copy_array<T>(saved_[0], i[0]);  // the pass works in place of the logits
    cross_entropy<T>(saved_[0].matrix<T>(tokens(), vocab_), targets_.data(), o[0].as<Acc<T>>(),
                     logit_scale_, 1.0, Gradient::none);
  }
  void backward(const Arrays& d, const Arrays& dy, const Arrays& i) override {
    copy_array<T>(d[0], i[0]);
    cross_entropy<T>(d[0].matrix<T>(tokens(), vocab_), targets_.data(), saved_[1].as<Acc<T>>(),
                     logit_scale_, dy[0].read()[0], Gradient::in_place);
  }

 private:
  int64_t tokens() const { return targets_.size(); }
  int64_t vocab_;
  DeviceList<int32_t> targets_;
  double logit_scale_;
};

}  // namespace espalier::check
