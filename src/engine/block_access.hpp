// SPDX-License-Identifier: Apache-2.0
// How a stage comes by the parameters and the gradients of a block: they may be resident, or be
// gathered and reduced around their use (ZeRO).
#pragma once

#include "engine/parameter_store.hpp"
#include "layers/linear.hpp"

namespace espalier {

/// Gradients of a block. Vectors are added to. `write` is for its matrices: overwrite where a sum
/// over micro-batches begins, which finds them undefined; then the first product into each of them
/// does so, or whoever can only add clears it first.
template <class Real>
struct GradientView : BlockView<Real> {
  Write write = Write::add;
};

/// Blocks are numbered as in the rank's parameter table.
template <class T>
class BlockAccess {
 public:
  virtual ~BlockAccess() = default;

  /// The block will be needed next.
  virtual void prefetch(int64_t block) { (void)block; }
  /// Values to compute with; waits for them where it must. Valid until release().
  virtual BlockView<const T> values(int64_t block) = 0;
  virtual void release(int64_t block) { (void)block; }

  /// Where the current micro-batch adds the block's gradients; several calls may come before ...
  virtual GradientView<Acc<T>> gradients(int64_t block) = 0;
  /// Whether gradients(block) would say overwrite: it says so once.
  virtual bool is_new(int64_t block) const {
    (void)block;
    return false;
  }
  /// ... the one that says that the micro-batch has added all. Micro-batches come in their order.
  virtual void gradients_done(int64_t block) { (void)block; }

  /// Called between operators, so that transfers move on.
  virtual void progress() {}
};

/// A block in use: its values, released at the end.
template <class T>
class BlockUse {
 public:
  BlockUse() = default;
  BlockUse(BlockAccess<T>& access, int64_t block)
      : access_(&access), block_(block), values_(access.values(block)) {}
  BlockUse(BlockUse&& other) noexcept { *this = std::move(other); }
  BlockUse& operator=(BlockUse&& other) noexcept {
    std::swap(access_, other.access_);
    std::swap(block_, other.block_);
    std::swap(values_, other.values_);
    return *this;
  }
  ~BlockUse() {
    if (access_ != nullptr) access_->release(block_);
  }
  const BlockView<const T>& values() const { return values_; }

 private:
  BlockAccess<T>* access_ = nullptr;
  int64_t block_ = -1;
  BlockView<const T> values_;
};

/// Everything resident: parameters in a store, gradients in one flat buffer, always added to.
template <class T>
class ResidentBlocks : public BlockAccess<T> {
 public:
  explicit ResidentBlocks(const ParameterStore<T>& store) : store_(store) {}
  void set_gradients(Acc<T>* flat) { flat_ = flat; }
  BlockView<const T> values(int64_t block) override { return store_.block(block); }
  GradientView<Acc<T>> gradients(int64_t block) override {
    return {{flat_ + store_.table().blocks[static_cast<size_t>(block)].offset}, Write::add};
  }

 private:
  const ParameterStore<T>& store_;
  Acc<T>* flat_ = nullptr;
};

}  // namespace espalier
