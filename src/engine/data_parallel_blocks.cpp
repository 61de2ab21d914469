// SPDX-License-Identifier: Apache-2.0
#include "engine/data_parallel_blocks.hpp"

#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "tensor/sums.hpp"

namespace espalier {
namespace {

std::vector<std::vector<FlatRange>> tree_spans(const Blueprint& b) {
  std::vector<std::vector<FlatRange>> spans;
  for (size_t block = 0; block < b.parameters.blocks.size(); ++block) {
    spans.emplace_back();
    if (b.config.grid.zero_stage < 2) {
      spans.back().push_back({b.parameters.blocks[block].offset, b.parameters.blocks[block].size});
      continue;
    }
    for (const OwnedRange& r :
         b.partition.owned_in_block(b.own_shard(), static_cast<int64_t>(block)))
      spans.back().push_back({r.compact, r.size});
  }
  return spans;
}

// Vectors and padding: micro-batches are added to them. Sums over ranks arrive whole: the first of
// a run is copied.
std::vector<std::vector<FlatRange>> tree_zeroed(const Blueprint& b) {
  auto ranges = ranges_beside_matrices(b.parameters);
  for (size_t block = 0; block < ranges.size(); ++block) {
    if (b.config.grid.zero_stage >= 2) ranges[block].clear();
    for (FlatRange& r : ranges[block]) r.offset += b.parameters.blocks[block].offset;
  }
  return ranges;
}

int64_t tree_size(const Blueprint& b) {
  return b.config.grid.zero_stage < 2 ? b.parameters.flat_size
                                      : b.partition.compact_size(b.own_shard());
}

ReducerOptions reducer_options(const Config& config) {
  ReducerOptions options;
  options.wire = config.numerics.gradient_reduce_type;
  options.time = config.grid.overlap ? ReduceTime::during_backward : ReduceTime::at_finish;
  options.result =
      config.grid.zero_stage == 0 ? ReducerResult::everywhere : ReducerResult::at_owner;
  return options;
}

}  // namespace

template <class T>
DataParallelBlocks<T>::DataParallelBlocks(const Blueprint& blueprint, ParameterStore<T>& store,
                                          const Comm& shard, const Comm& replica)
    : blueprint_(blueprint),
      store_(store),
      zero_(blueprint.config.grid.zero_stage),
      tree_(tree_size(blueprint), reproducible_levels(blueprint), tree_spans(blueprint),
            tree_zeroed(blueprint)),
      scratch_zeroed_(ranges_beside_matrices(blueprint.parameters)),
      held_(blueprint.parameters.blocks.size(), nullptr),
      ranges_left_(blueprint.parameters.blocks.size(), 0) {
  const ReducerOptions options = reducer_options(blueprint.config);
  if (zero_ < 2) {
    reducer_ =
        std::make_unique<GradientReducer<Real>>(shard, replica, blueprint.partition, options);
  } else {
    const auto sink = [this](int64_t block, const OwnedRange& range, const Real* sum) {
      Real* to = tree_.current(block) + range.compact;
      if (tree_.is_new(block) && !is_broken_for_test("first_gradient"))
        device::copy(to, sum, range.size * static_cast<int64_t>(sizeof(Real)));
      else
        add_to(to, sum, range.size);
      size_t& left = ranges_left_[static_cast<size_t>(block)];
      if (left == 0)
        left = blueprint_.partition.owned_in_block(blueprint_.own_shard(), block).size();
      if (--left == 0) tree_.next(block);
    };
    block_reducer_ = std::make_unique<BlockReducer<Real>>(shard, replica, blueprint.partition,
                                                          options.wire, sink);
  }
  if (zero_ > 0) gather_ = std::make_unique<ParameterGather<T>>(shard, blueprint.partition);
}

template <class T>
void DataParallelBlocks<T>::begin_step() {
  tree_.begin(blueprint_.micro_batches);
  if (reducer_ && !is_broken_for_test("gradient_reduction")) reducer_->begin(tree_.total());
}

template <class T>
void DataParallelBlocks<T>::finish_step() {
  if (reducer_) {
    if (!is_broken_for_test("gradient_reduction")) reducer_->finish();
    return;
  }
  block_reducer_->drain();
  block_reducer_->reduce_over_replicas(tree_.total());
}

template <class T>
bool DataParallelBlocks<T>::is_new(int64_t block) const {
  if (is_broken_for_test("first_gradient")) return false;
  return zero_ < 2 ? tree_.is_new(block) : held_[static_cast<size_t>(block)] == nullptr;
}

template <class T>
GradientView<Acc<T>> DataParallelBlocks<T>::gradients(int64_t block) {
  const Write write = is_new(block) ? Write::overwrite : Write::add;
  if (zero_ < 2) {
    tree_.set_used(block);
    return {{tree_.current(block) + blueprint_.parameters.blocks[block].offset}, write};
  }
  Real*& scratch = held_[static_cast<size_t>(block)];
  if (scratch == nullptr) {
    scratch = block_reducer_->acquire(block);
    scratch_zeroed_.clear(scratch, block);
  }
  return {{scratch}, write};
}

template <class T>
void DataParallelBlocks<T>::gradients_done(int64_t block) {
  if (zero_ < 2) {
    tree_.next(block);
    if (tree_.done(block) == blueprint_.micro_batches && !is_broken_for_test("gradient_reduction"))
      reducer_->ready(block);
    return;
  }
  Real*& scratch = held_[static_cast<size_t>(block)];
  ESPALIER_REQUIRE(scratch != nullptr, "block {} has no gradients to hand over", block);
  block_reducer_->submit(block, scratch);
  scratch = nullptr;
}

template <class T>
void DataParallelBlocks<T>::progress() {
  if (reducer_ && !is_broken_for_test("gradient_reduction")) reducer_->progress();
  if (block_reducer_) block_reducer_->progress();
  for (auto& g : gathered_)
    if (g->is_arriving) g->request.test();
  if (also_) also_();
}

template <class T>
void DataParallelBlocks<T>::parameters_changed() {
  if (zero_ == 1 || zero_ == 2) gather_->gather_all(store_.values());
}

template <class T>
typename DataParallelBlocks<T>::Gathered* DataParallelBlocks<T>::find(int64_t block) {
  for (auto& g : gathered_)
    if (g->block == block) return g.get();
  return nullptr;
}

// A buffer of the block's kind that nobody uses, or a new one while there may be more; null if all
// are in use. The token table and the output share one.
template <class T>
typename DataParallelBlocks<T>::Gathered* DataParallelBlocks<T>::start(int64_t block) {
  const BlockSpan& span = blueprint_.parameters.blocks[static_cast<size_t>(block)];
  const BlockKind kind = span.kind == BlockKind::output ? BlockKind::token : span.kind;
  Gathered* free = nullptr;
  int64_t of_kind = 0;
  for (auto& g : gathered_) {
    if (g->kind != kind) continue;
    ++of_kind;
    if (g->uses == 0 && !g->is_arriving) free = g.get();
  }
  if (free == nullptr && of_kind < (kind == BlockKind::layer ? kGatheredLayers : 1)) {
    int64_t size = 0;
    for (const BlockSpan& b : blueprint_.parameters.blocks) {
      const bool is_table = b.kind == BlockKind::token || b.kind == BlockKind::output;
      if (b.kind == kind || (kind == BlockKind::token && is_table)) size = std::max(size, b.size);
    }
    gathered_.push_back(std::make_unique<Gathered>());
    free = gathered_.back().get();
    free->kind = kind;
    free->data = Buffer<T>("parameters.gathered", size, Contents::undefined);
  }
  if (free == nullptr) return nullptr;
  free->block = block;
  free->is_arriving = true;
  free->request = gather_->start(block, store_.values(), free->data.data());
  return free;
}

template <class T>
void DataParallelBlocks<T>::prefetch(int64_t block) {
  if (zero_ == 3 && find(block) == nullptr) start(block);
}

template <class T>
BlockView<const T> DataParallelBlocks<T>::values(int64_t block) {
  if (zero_ < 3) return store_.block(block);
  Gathered* g = find(block);
  if (g == nullptr) g = start(block);
  ESPALIER_REQUIRE(g != nullptr, "no buffer is free to gather block {}", block);
  if (g->is_arriving) g->request.wait();
  g->is_arriving = false;
  ++g->uses;
  return {g->data.data()};
}

template <class T>
void DataParallelBlocks<T>::release(int64_t block) {
  if (zero_ < 3) return;
  Gathered* g = find(block);
  ESPALIER_REQUIRE(g != nullptr && g->uses > 0, "block {} is released but not in use", block);
  if (--g->uses == 0) g->block = -1;  // the next use gathers it again: it may have changed
}

template <class Real>
void sum_tied_gradients(const Blueprint& b, Real* sums, Indexing indexing, const Comm* pp,
                        Buffer<Real>& received) {
  if (!has_tied_copy(b.config) || is_broken_for_test("tied_gradients")) return;
  const auto ranges = [&](BlockKind kind) {
    std::vector<FlatRange> found;
    for (size_t i = 0; i < b.parameters.blocks.size(); ++i) {
      const BlockSpan& span = b.parameters.blocks[i];
      if (span.kind != kind) continue;
      if (b.config.grid.zero_stage == 0) return std::vector<FlatRange>{{span.offset, span.size}};
      for (const OwnedRange& r : b.partition.owned_in_block(b.own_shard(), static_cast<int64_t>(i)))
        found.push_back({indexing == Indexing::flat ? r.flat : r.compact, r.size});
    }
    return found;
  };
  const std::vector<FlatRange> token = ranges(BlockKind::token), output = ranges(BlockKind::output);
  if (pp == nullptr || pp->size() == 1) {
    for (size_t i = 0; i < token.size(); ++i)
      make_sum_of_both(sums + token[i].offset, sums + output[i].offset, token[i].size);
    return;
  }
  const bool is_first = pp->rank() == 0;
  if (!is_first && pp->rank() + 1 != pp->size()) return;
  const int64_t portion = tied_portion(b);
  if (received.size() == 0) received = Buffer<Real>("tied gradients", portion, Contents::undefined);
  for (const FlatRange& range : is_first ? token : output)
    for (int64_t at = 0; at < range.size; at += portion) {
      const int64_t size = std::min(portion, range.size - at);
      Real* own = sums + range.offset + at;
      const int peer = is_first ? pp->size() - 1 : 0;
      const auto bytes = size * static_cast<int64_t>(sizeof(Real));
      pp->start_exchange({{own, bytes, peer}}, {{received.data(), bytes, peer}}, 0).wait();
      add_to(own, received.data(), size);
    }
}

template class DataParallelBlocks<float>;
template class DataParallelBlocks<double>;
template class DataParallelBlocks<bf16>;
template class DataParallelBlocks<fp16>;
template void sum_tied_gradients<float>(const Blueprint&, float*, Indexing, const Comm*,
                                        Buffer<float>&);
template void sum_tied_gradients<double>(const Blueprint&, double*, Indexing, const Comm*,
                                         Buffer<double>&);

}  // namespace espalier
