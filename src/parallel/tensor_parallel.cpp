// SPDX-License-Identifier: Apache-2.0
#include "parallel/tensor_parallel.hpp"

#include <vector>

#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "parallel/rank_sum.hpp"
#include "tensor/sums.hpp"

namespace espalier {

template <class T>
template <class C>
void TensorParallel<T>::reduce(const C* partial, T* out, int64_t tokens, int64_t width,
                               C* received) {
  const auto bytes = [&](int64_t rows, size_t element) {
    return rows * width * static_cast<int64_t>(element);
  };
  if (split_.ranks == 1) return round_values(partial, out, tokens * width);
  const int me = tp_->rank();
  const Range own = split_.local(tokens);
  T* own_out = split_.sequence ? out : out + own.first * width;
  if (is_broken_for_test("tensor_sum")) {
    round_values(partial + own.first * width, own_out, own.count * width);
  } else {
    std::vector<OutPiece> send;
    std::vector<InPiece> receive;
    C* place = received;
    for (int r = 0; r < tp_->size(); ++r) {
      if (r == me) continue;
      const Range theirs = at(r).local(tokens);
      if (theirs.count > 0)
        send.push_back({partial + theirs.first * width, bytes(theirs.count, sizeof(C)), r});
      if (own.count > 0) receive.push_back({place, bytes(own.count, sizeof(C)), r});
      place += own.count * width;
    }
    tp_->start_exchange(send, receive, 0).wait();
    sum_over_ranks<C, T>(
        {partial + own.first * width, received, own.count * width, me, tp_->size()}, own_out,
        own.count * width);
  }
  if (split_.sequence || is_broken_for_test("tensor_spread")) return;
  std::vector<OutPiece> send;
  std::vector<InPiece> receive;
  for (int r = 0; r < tp_->size(); ++r) {
    if (r == me) continue;
    const Range theirs = at(r).local(tokens);
    if (own.count > 0) send.push_back({own_out, bytes(own.count, sizeof(T)), r});
    if (theirs.count > 0)
      receive.push_back({out + theirs.first * width, bytes(theirs.count, sizeof(T)), r});
  }
  tp_->start_exchange(send, receive, 0).wait();
}

template <class T>
void TensorParallel<T>::gather(const T* own, T* all, int64_t tokens, int64_t width) {
  const Range mine = split_.local(tokens);
  const auto bytes = [&](int64_t rows) { return rows * width * static_cast<int64_t>(sizeof(T)); };
  device::copy(all + mine.first * width, own, bytes(mine.count));
  if (split_.ranks == 1) return;
  std::vector<OutPiece> send;
  std::vector<InPiece> receive;
  for (int r = 0; r < tp_->size(); ++r) {
    if (r == tp_->rank()) continue;
    const Range theirs = at(r).local(tokens);
    if (mine.count > 0) send.push_back({own, bytes(mine.count), r});
    if (theirs.count > 0) receive.push_back({all + theirs.first * width, bytes(theirs.count), r});
  }
  if (is_broken_for_test("sequence_gather")) return;
  tp_->start_exchange(send, receive, 0).wait();
}

template <class T>
void TensorParallel<T>::sum(Real* data, int64_t count) {
  if (split_.ranks == 1 || count == 0) return;
  if (small_.size() < count * split_.ranks) {
    device::Stream::current().synchronize();  // the smaller one may still be read
    small_ = Buffer<Real>("tensor_parallel.small", count * split_.ranks, Contents::undefined);
  }
  tp_->all_gather(data, count, small_.data());
  const int ranks = tp_->size();
  sum_over_ranks<Real, Real>({nullptr, small_.data(), count, ranks, ranks}, data, count);
}

template <class T>
template <class E>
void TensorParallel<T>::share(E* all, int64_t count, int64_t sharers) {
  const int64_t local = split_.local_shards();
  if (split_.ranks == 1 || local >= sharers) return;
  const int64_t ranks = sharers / local, first_rank = split_.rank / ranks * ranks;
  const int64_t bytes = local * count * static_cast<int64_t>(sizeof(E));
  std::vector<OutPiece> send;
  std::vector<InPiece> receive;
  for (int64_t i = 0; i < ranks; ++i) {
    const auto peer = static_cast<int>(first_rank + i);
    if (first_rank + i == split_.rank) continue;
    send.push_back({all + (split_.rank - first_rank) * local * count, bytes, peer});
    receive.push_back({all + i * local * count, bytes, peer});
  }
  tp_->start_exchange(send, receive, 0).wait();
}

#define ESPALIER_INSTANTIATE(T)                                                                  \
  template class TensorParallel<T>;                                                              \
  template void TensorParallel<T>::reduce<Acc<T>>(const Acc<T>*, T*, int64_t, int64_t, Acc<T>*); \
  template void TensorParallel<T>::share<Acc<T>>(Acc<T>*, int64_t, int64_t);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(double)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)
#define ESPALIER_INSTANTIATE_16(T)                                                \
  template void TensorParallel<T>::reduce<T>(const T*, T*, int64_t, int64_t, T*); \
  template void TensorParallel<T>::share<T>(T*, int64_t, int64_t);
ESPALIER_INSTANTIATE_16(bf16)
ESPALIER_INSTANTIATE_16(fp16)

}  // namespace espalier
