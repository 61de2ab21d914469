// SPDX-License-Identifier: Apache-2.0
// Attention and rotary embedding as operator cases.
#pragma once

#include <cmath>

#include "cases_dense.hpp"
#include "layers/attention.hpp"
#include "layers/rope.hpp"

namespace espalier::check {

/// Rotation of queries and keys. `back` differs from inverse only in negative controls.
template <class T>
class RopeCase : public OperatorCase {
 public:
  RopeCase(RopeStyle style, const HeadShape& shape, std::vector<int32_t> positions,
           Buffer<Acc<T>> table, Rotation back = Rotation::inverse)
      : style_(style),
        shape_(shape),
        positions_(std::move(positions)),
        table_(std::move(table)),
        back_(back) {
    inputs_ = {activation_port<T>("qkv", tokens() * shape.row())};
    outputs_ = {activation_port<T>("rotated", tokens() * shape.row())};
  }

  void forward(const Arrays& o, const Arrays& i) override { turn(Rotation::forward, o[0], i[0]); }
  void backward(const Arrays& d, const Arrays& dy, const Arrays& /*inputs*/) override {
    turn(back_, d[0], dy[0]);
  }

 private:
  int64_t tokens() const { return static_cast<int64_t>(positions_.size()); }
  void turn(Rotation rotation, const Array& to, const Array& from) const {
    copy_array<T>(to, from);
    rope<T>(style_, rotation, to.matrix<T>(tokens(), shape_.row()), shape_, table_,
            positions_.data());
  }
  RopeStyle style_;
  HeadShape shape_;
  std::vector<int32_t> positions_;
  Buffer<Acc<T>> table_;
  Rotation back_;
};

inline AttentionShape attention_shape(int64_t heads, int64_t kv_heads, int64_t head_dim,
                                      int64_t sequences, int64_t length) {
  return {{heads, kv_heads, head_dim},
          sequences,
          length,
          1.0 / std::sqrt(static_cast<double>(head_dim))};
}

/// Which part of attention's backward a negative control leaves out.
enum class Omission { none, softmax_normalisation, document_mask };

template <class T>
class AttentionCase : public OperatorCase {
 public:
  AttentionCase(const AttentionShape& shape, std::vector<int32_t> document_start,
                Omission omission = Omission::none)
      : shape_(shape), start_(std::move(document_start)), omission_(omission) {
    const ElementType sums = sum_type(ElementTraits<T>::kType);
    inputs_ = {activation_port<T>("qkv", tokens() * shape.head.row())};
    outputs_ = {activation_port<T>("heads", tokens() * out_width())};
    saved_ = {Array(sums, tokens() * shape.head.heads),
              Array(sums, attention_scratch(shape.length, shape.head.head_dim)),
              Array(ElementTraits<T>::kType, tokens() * out_width())};
  }

  void forward(const Arrays& o, const Arrays& i) override {
    attention_forward<T>(o[0].matrix<T>(tokens(), out_width()), log_sum(), qkv(i[0]), start_.data(),
                         shape_, saved_[1].as<Acc<T>>());
    copy_array<T>(saved_[2], o[0]);
  }
  void backward(const Arrays& d, const Arrays& dy, const Arrays& i) override {
    // D = d_o . o vanishes with the outputs, and with it the gradient of softmax's denominator.
    if (omission_ == Omission::softmax_normalisation)
      Kokkos::deep_copy(saved_[2].vector<T>(), T(0.0f));
    const std::vector<int32_t> all(start_.size(), 0);
    const int32_t* start = omission_ == Omission::document_mask ? all.data() : start_.data();
    saved_[1].poison();
    attention_backward<T>(qkv(d[0]), dy[0].matrix<T>(tokens(), out_width()),
                          saved_[2].matrix<T>(tokens(), out_width()), log_sum(), qkv(i[0]), start,
                          shape_, saved_[1].as<Acc<T>>());
  }

 private:
  int64_t tokens() const { return shape_.sequences * shape_.length; }
  int64_t out_width() const { return shape_.head.heads * shape_.head.head_dim; }
  Mat<T> qkv(const Array& a) const { return a.matrix<T>(tokens(), shape_.head.row()); }
  Mat<Acc<T>> log_sum() const { return saved_[0].matrix<Acc<T>>(tokens(), shape_.head.heads); }

  AttentionShape shape_;
  std::vector<int32_t> start_;
  Omission omission_;
};

}  // namespace espalier::check
