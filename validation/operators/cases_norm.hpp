// SPDX-License-Identifier: Apache-2.0
// Norms as operator cases: plain, in place, into a stream, over the heads inside qkv rows, and
// fused with the residual addition.
#pragma once

#include <utility>

#include "cases_dense.hpp"
#include "layers/norm.hpp"

namespace espalier::check {

/// Shape and variant of a norm. Rows lie densely if groups = 0; else row r is the head r % groups
/// of token r / groups in a matrix whose rows hold one head before and two after those normed.
struct NormShape {
  NormKind kind = NormKind::layernorm;
  Bias bias = Bias::yes;
  int64_t rows = 1, columns = 1, groups = 0;
  Accumulate accumulate = Accumulate::no;
  bool in_place = false;  // dx takes the place of dy
};

template <class T>
class NormCase : public OperatorCase {
 public:
  explicit NormCase(const NormShape& shape) : NormCase(shape, shape.kind) {}
  /// `backward_kind` differs from shape.kind only in negative controls.
  NormCase(const NormShape& shape, NormKind backward_kind)
      : shape_(shape), backward_kind_(backward_kind) {
    const int64_t size = shape.rows * shape.columns;
    inputs_ = {activation_port<T>("x", size), parameter_port<T>("weight", shape.columns, 0.3, 1.0)};
    inputs_[0].centre = 0.5;
    if (shape.accumulate == Accumulate::yes) inputs_[0].gradient = Write::add;
    if (shape.bias == Bias::yes) inputs_.push_back(parameter_port<T>("bias", shape.columns, 0.3));
    outputs_ = {activation_port<T>("y", size)};
    saved_ = {Array(sums_, 2 * shape.rows),
              Array(sums_, norm_partial_rows(shape.rows) * 2 * shape.columns)};
  }

  void forward(const Arrays& o, const Arrays& i) override {
    Place x(shape_, i[0]), y(shape_, o[0]);
    norm_forward<T>(shape_.kind, y.rows(), saved_[0].as<Acc<T>>(), x.rows(), parameters(i), kEps);
    y.take_back(o[0]);
  }
  void backward(const Arrays& d, const Arrays& dy, const Arrays& i) override {
    Place x(shape_, i[0]), g(shape_, dy[0]);
    Place separate(shape_, d[0]);
    Place& dx = shape_.in_place ? g : separate;
    const Vec<Acc<T>> db = i.size() > 2 ? d[2].vector<Acc<T>>() : Vec<Acc<T>>(nullptr, 0);
    norm_backward<T>(backward_kind_, dx.rows(), shape_.accumulate, d[1].vector<Acc<T>>(), db,
                     g.rows(), x.rows(), saved_[0].as<Acc<T>>(), i[1].vector<T>(),
                     saved_[1].as<Acc<T>>());
    dx.take_back(d[0]);
  }

  static constexpr double kEps = 1e-5;

 private:
  /// The rows where the shape wants them, with a copy of what stands in `values`.
  class Place {
   public:
    Place(const NormShape& s, const Array& values)
        : shape_(s), width_((s.groups + 3) * s.columns), tokens_(s.groups ? s.rows / s.groups : 0) {
      memory_ = Array(ElementTraits<T>::kType, s.groups ? tokens_ * width_ : s.rows * s.columns);
      move(values, memory_, Direction::into);
    }
    RowSet<T> rows() const {
      if (!shape_.groups) return RowSet<T>(memory_.template matrix<T>(shape_.rows, shape_.columns));
      return {memory_.template as<T>() + shape_.columns,
              shape_.rows,
              shape_.columns,
              shape_.groups,
              width_,
              shape_.columns};
    }
    /// Copies the rows to `values`; poisons it if anything else was written.
    void take_back(Array values) {
      move(memory_, values, Direction::out);
      if (!memory_.guards_are_intact() || wrote_elsewhere()) values.poison();
    }

   private:
    enum class Direction { into, out };
    int64_t at(int64_t r, int64_t c) const {
      if (!shape_.groups) return r * shape_.columns + c;
      return (r / shape_.groups) * width_ + (r % shape_.groups + 1) * shape_.columns + c;
    }
    void move(const Array& from, Array& to, Direction direction) const {
      if (!shape_.groups) return copy_array<T>(to, from);
      const auto old = from.read();
      auto now = to.read();
      for (int64_t r = 0; r < shape_.rows; ++r)
        for (int64_t c = 0; c < shape_.columns; ++c) {
          const int64_t dense = r * shape_.columns + c;
          if (direction == Direction::into)
            now[at(r, c)] = old[dense];
          else
            now[dense] = old[at(r, c)];
        }
      to.fill(now);
    }
    /// What lies between the rows was poisoned and must still be.
    bool wrote_elsewhere() const {
      if (!shape_.groups) return false;
      const auto now = memory_.read();
      for (size_t i = 0; i < now.size(); ++i) {
        const int64_t head = static_cast<int64_t>(i) % width_ / shape_.columns;
        if ((head < 1 || head > shape_.groups) && now[i] == now[i]) return true;
      }
      return false;
    }
    const NormShape& shape_;
    int64_t width_, tokens_;
    Array memory_;
  };

  NormParameters<T> parameters(const Arrays& i) const {
    NormParameters<T> p{i[1].vector<T>(), Vec<const T>(nullptr, 0)};
    if (i.size() > 2) p.bias = i[2].vector<T>();
    return p;
  }

  static constexpr ElementType sums_ = sum_type(ElementTraits<T>::kType);
  NormShape shape_;
  NormKind backward_kind_;
};

/// x = stream + dropout(delta + bias) and y = norm(x); both are outputs, as in a transformer block.
/// `backward_mask` differs from `mask` only in negative controls.
template <class T>
class ResidualNormCase : public OperatorCase {
 public:
  ResidualNormCase(NormKind kind, Bias delta_bias, int64_t tokens, int64_t hidden,
                   const DropoutMask& mask = {})
      : ResidualNormCase(kind, delta_bias, tokens, hidden, mask, mask) {}
  ResidualNormCase(NormKind kind, Bias delta_bias, int64_t tokens, int64_t hidden,
                   const DropoutMask& mask, const DropoutMask& backward_mask)
      : kind_(kind),
        has_bias_(delta_bias == Bias::yes),
        tokens_(tokens),
        hidden_(hidden),
        mask_(mask),
        backward_mask_(backward_mask),
        token_index_(scattered_tokens(tokens)) {
    const int64_t size = tokens * hidden;
    inputs_ = {activation_port<T>("stream", size), activation_port<T>("delta", size),
               parameter_port<T>("weight", hidden, 0.3, 1.0),
               parameter_port<T>("norm_bias", hidden, 0.3)};
    if (has_bias_) inputs_.push_back(parameter_port<T>("delta_bias", hidden));
    outputs_ = {activation_port<T>("x", size), activation_port<T>("y", size)};
    saved_ = {Array(sums_, 2 * tokens), Array(sums_, norm_partial_rows(tokens) * 2 * hidden),
              Array(ElementTraits<T>::kType, size), bias_scratch<T>(hidden)};
  }

  void forward(const Arrays& o, const Arrays& i) override {
    const NormParameters<T> p{i[2].vector<T>(), i[3].vector<T>()};
    const Vec<const T> bias = has_bias_ ? Vec<const T>(i[4].vector<T>()) : Vec<const T>(nullptr, 0);
    residual_norm_forward<T>(kind_, matrix(o[1]), saved_[0].as<Acc<T>>(), matrix(o[0]),
                             matrix(i[0]), matrix(i[1]), bias, p, NormCase<T>::kEps, mask_,
                             token_index_.data());
    copy_array<T>(saved_[2], o[0]);
  }
  void backward(const Arrays& d, const Arrays& dy, const Arrays& i) override {
    copy_array<T>(d[0], dy[0]);
    norm_backward<T>(kind_, RowSet<T>(matrix(d[0])), Accumulate::yes, d[2].vector<Acc<T>>(),
                     d[3].vector<Acc<T>>(), RowSet<T>(matrix(dy[1])), RowSet<T>(matrix(saved_[2])),
                     saved_[0].as<Acc<T>>(), i[2].vector<T>(), saved_[1].as<Acc<T>>());
    apply_dropout<T>(matrix(d[1]), matrix(d[0]), backward_mask_, token_index_.data());
    if (has_bias_)
      linear_backward_bias<T>(d[4].vector<Acc<T>>(), Mat<const T>(matrix(d[1])),
                              saved_[3].as<Acc<T>>());
  }

 private:
  Mat<T> matrix(const Array& a) const { return a.matrix<T>(tokens_, hidden_); }
  static constexpr ElementType sums_ = sum_type(ElementTraits<T>::kType);
  NormKind kind_;
  bool has_bias_;
  int64_t tokens_, hidden_;
  DropoutMask mask_, backward_mask_;
  DeviceList<int64_t> token_index_;
};

}  // namespace espalier::check
