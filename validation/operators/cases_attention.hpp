// SPDX-License-Identifier: Apache-2.0
// Attention and rotary embedding as operator cases.
#pragma once

#include <algorithm>
#include <cmath>

#include "cases_dense.hpp"
#include "layers/attention.hpp"
#include "layers/rope.hpp"

namespace espalier::check {

/// Rotates the queries and the keys of packed rows.
template <class T>
void rotate_packed(RopeStyle style, Rotation rotation, const Mat<T>& qkv, const HeadShape& shape,
                   const Buffer<Acc<T>>& table, const int32_t* positions) {
  const auto parts = query_key_value(qkv, shape);
  const int64_t tokens = qkv.extent(0), dim = shape.head_dim;
  rope<T>(style, rotation, parts.q, shape.heads, dim, tokens, table, positions);
  rope<T>(style, rotation, parts.k, shape.kv_heads, dim, tokens, table, positions);
}

/// Rotation of queries and keys. `back` differs from inverse only in negative controls.
template <class T>
class RopeCase : public OperatorCase {
 public:
  RopeCase(RopeStyle style, const HeadShape& shape, DeviceList<int32_t> positions,
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
  int64_t tokens() const { return positions_.size(); }
  void turn(Rotation rotation, const Array& to, const Array& from) const {
    copy_array<T>(to, from);
    rotate_packed<T>(style_, rotation, to.matrix<T>(tokens(), shape_.row()), shape_, table_,
                     positions_.data());
  }
  RopeStyle style_;
  HeadShape shape_;
  DeviceList<int32_t> positions_;
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

/// What attention_forward and attention_backward want on the host or on a device.
template <class T>
Array scratch_of(const AttentionShape& s) {
  const int64_t dots = s.sequences * s.length * s.head.heads;
  return Array(sum_type(ElementTraits<T>::kType),
               std::max(attention_scratch(s.length, s.head.head_dim), dots));
}

/// Which part of attention's backward a negative control leaves out.
enum class Omission { none, softmax_normalisation, document_mask, dropout, dropout_purpose };

/// Attention on packed rows. With dropout, the call's heads stand inside those of a larger model
/// and its sequences at scattered places of a larger batch.
template <class T>
class AttentionCase : public OperatorCase {
 public:
  AttentionCase(const AttentionShape& shape, DeviceList<int32_t> document_start,
                Omission omission = Omission::none, const DropoutMask& mask = {})
      : shape_(shape), start_(std::move(document_start)), omission_(omission), mask_(mask) {
    const ElementType sums = sum_type(ElementTraits<T>::kType);
    std::vector<int64_t> first_token;
    for (int64_t b = 0; b < shape.sequences; ++b)
      first_token.push_back((int64_t{1} << 40) - 7919 * b);
    first_token_ = first_token;
    inputs_ = {activation_port<T>("qkv", tokens() * shape.head.row())};
    outputs_ = {activation_port<T>("heads", tokens() * out_width())};
    saved_ = {Array(sums, tokens() * shape.head.heads), scratch_of<T>(shape),
              Array(ElementTraits<T>::kType, tokens() * out_width())};
  }

  void forward(const Arrays& o, const Arrays& i) override {
    attention_forward<T>(heads(o[0]), log_sum(), qkv(i[0]), start_.data(), shape_, dropout(),
                         saved_[1].as<Acc<T>>());
    copy_array<T>(saved_[2], o[0]);
  }
  void backward(const Arrays& d, const Arrays& dy, const Arrays& i) override {
    // D = d_o . o vanishes with the outputs, and with it the gradient of softmax's denominator.
    if (omission_ == Omission::softmax_normalisation)
      saved_[2].fill(std::vector<double>(saved_[2].size(), 0.0));
    const DeviceList<int32_t> all(start_.size());
    const int32_t* start = omission_ == Omission::document_mask ? all.data() : start_.data();
    AttentionDropout mask = dropout();
    if (omission_ == Omission::dropout) mask = {};
    if (omission_ == Omission::dropout_purpose) ++mask.mask.purpose;
    saved_[1].poison();
    attention_backward<T>(qkv(d[0]), heads(dy[0]), heads(saved_[2]), log_sum(), qkv(i[0]), start,
                          shape_, mask, saved_[1].as<Acc<T>>());
  }

  AttentionDropout dropout() const {
    return {mask_, first_token_.data(), 1, shape_.head.heads + 2};
  }
  std::vector<int64_t> first_token() const { return first_token_.host(); }

 private:
  int64_t tokens() const { return shape_.sequences * shape_.length; }
  int64_t out_width() const { return shape_.head.heads * shape_.head.head_dim; }
  QueryKeyValue<T> qkv(const Array& a) const {
    return query_key_value(a.matrix<T>(tokens(), shape_.head.row()), shape_.head);
  }
  HeadRows<T> heads(const Array& a) const { return a.matrix<T>(tokens(), out_width()); }
  HeadRows<Acc<T>> log_sum() const { return saved_[0].matrix<Acc<T>>(tokens(), shape_.head.heads); }

  AttentionShape shape_;
  DeviceList<int32_t> start_;
  Omission omission_;
  DropoutMask mask_;
  DeviceList<int64_t> first_token_;
};

}  // namespace espalier::check
