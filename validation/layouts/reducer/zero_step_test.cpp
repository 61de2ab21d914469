// SPDX-License-Identifier: Apache-2.0
// Whole updates at ZeRO stages 0 to 3, in every division into groups: gradients, norm, AdamW and
// gather give the parameters, bit for bit, of one owner of everything.
#include "core/exact_sum.hpp"
#include "optim/adamw.hpp"
#include "optim/gradient_norm.hpp"
#include "parallel/block_reducer.hpp"
#include "parallel/gradient_reducer.hpp"
#include "parallel/parameter_gather.hpp"
#include "reducer_problem.hpp"
#include "tensor/types.hpp"

namespace espalier {
namespace {

constexpr int kSteps = 2;
constexpr double kRate = 1e-2;

using Copy = bf16;

struct State {
  std::vector<float> master;
  std::vector<Copy> compute;
  std::vector<double> norms;
};

std::vector<float> start() {
  std::vector<float> v = leaf<float>(1000);
  for (float& x : v) x *= 1e-6f;
  return v;
}

const std::vector<float>& gradient(int64_t rank, int step) {
  return leaf<float>(step * test_session().size() + rank);
}

double scale_of(double square_sum, State& state) {
  state.norms.push_back(std::sqrt(square_sum));
  return clip_factor(state.norms.back(), 1.0);
}

State by_one_owner() {
  const ParameterTable table = problem_table();
  const auto segments = make_segments(table);
  const auto owned = own_everything(table.flat_size);
  AdamW<Copy> optimizer(segments, owned, {}, OptimizerConfig{});
  GradientNorm norm(segments, owned, Indexing::flat);
  State s;
  const DeviceList<float> master(start());
  const DeviceList<Copy> compute(table.flat_size);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::vector<float>> all;
    for (int64_t r = 0; r < test_session().size(); ++r) all.push_back(gradient(r, step));
    const DeviceList<float> sum(tree_of<float>(all));
    const double scale = scale_of(norm.square_sums(sum.data()).sum.value(), s);
    optimizer.update(master.data(), sum.data(), compute.data(), kRate, scale);
  }
  s.master = master.host();
  s.compute = compute.host();
  return s;
}

// One rank at one stage, as an engine would drive it.
class Rank {
 public:
  Rank(const Groups& groups, int stage)
      : groups_(groups),
        stage_(stage),
        me_(groups.shard.rank()),
        partition_(make_partition(table_, groups.shards, 900,
                                  stage < 2 ? BucketJoin::yes : BucketJoin::no)),
        owned_(stage == 0 ? own_everything(table_.flat_size) : partition_.owned_by(me_)),
        indexing_{stage == 0 ? Indexing::flat : Indexing::compact,
                  stage < 2 ? Indexing::flat : Indexing::compact,
                  stage < 3 ? Indexing::flat : Indexing::compact},
        optimizer_(make_segments(table_), owned_, indexing_, OptimizerConfig{}),
        norm_(make_segments(table_), owned_, indexing_.gradient) {}

  State run() {
    State s;
    const std::vector<float> whole = start();
    const DeviceList<float> master(stage_ == 0 ? whole : compacted(whole));
    const DeviceList<Copy> compute(stage_ < 3 ? table_.flat_size : partition_.compact_size(me_));
    for (int step = 0; step < kSteps; ++step) {
      const DeviceList<float> sum = stage_ < 2 ? flat_sum(step) : compact_sum(step);
      ExactSum squares = norm_.square_sums(sum.data()).sum;
      if (stage_ > 0) groups_.shard.all_reduce(squares.words(), ExactSum::kWords, ReduceOp::sum);
      optimizer_.update(master.data(), sum.data(), compute.data(), kRate,
                        scale_of(squares.value(), s));
    }
    s.master = everywhere<float>(master, stage_ == 0);
    s.compute = stage_ == 0  ? compute.host()
                : stage_ < 3 ? gathered(compute)
                             : everywhere<Copy>(compute, false);
    return s;
  }

 private:
  std::vector<float> compacted(const std::vector<float>& flat) const {
    std::vector<float> compact(static_cast<size_t>(partition_.compact_size(me_)));
    for (const OwnedRange& r : owned_)
      std::copy_n(flat.begin() + r.flat, r.size, compact.begin() + r.compact);
    return compact;
  }

  DeviceList<float> flat_sum(int step) {
    GradientReducer<float> reducer(
        groups_.shard, groups_.replica, partition_,
        {ElementType::fp32, ReduceTime::during_backward,
         stage_ == 0 ? ReducerResult::everywhere : ReducerResult::at_owner});
    const DeviceList<float> sum(gradient(test_session().rank(), step));
    reducer.begin(sum.data());
    for (auto b = static_cast<int64_t>(table_.blocks.size()) - 1; b >= 0; --b) reducer.ready(b);
    reducer.finish();
    return sum;
  }

  DeviceList<float> compact_sum(int step) {
    const DeviceList<float> own(gradient(test_session().rank(), step));
    const DeviceList<float> sum(partition_.compact_size(me_));
    constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
    BlockReducer<float> reducer(groups_.shard, groups_.replica, partition_, ElementType::fp32,
                                [&](int64_t, const OwnedRange& range, const float* part) {
                                  device::copy(sum.data() + range.compact, part,
                                               range.size * kBytes);
                                });
    for (auto b = static_cast<int64_t>(table_.blocks.size()) - 1; b >= 0; --b) {
      float* scratch = reducer.acquire(b);
      const BlockSpan& span = table_.blocks[static_cast<size_t>(b)];
      device::copy(scratch, own.data() + span.offset, span.size * kBytes);
      reducer.submit(b, scratch);
    }
    reducer.drain();
    reducer.reduce_over_replicas(sum.data());
    return sum;
  }

  template <class T>
  std::vector<T> gathered(const DeviceList<T>& flat) {
    ParameterGather<T>(groups_.shard, partition_).gather_all(flat.data());
    return flat.host();
  }

  // Block by block, as stage 3 gathers.
  template <class T>
  std::vector<T> everywhere(const DeviceList<T>& own, bool is_flat) {
    if (is_flat) return own.host();
    const DeviceList<T> flat(table_.flat_size);
    ParameterGather<T> gather(groups_.shard, partition_);
    std::vector<Request> requests;
    for (size_t b = 0; b < table_.blocks.size(); ++b)
      requests.push_back(
          gather.start(static_cast<int64_t>(b), own.data(), flat.data() + table_.blocks[b].offset));
    for (Request& request : requests) request.wait();
    return flat.host();
  }

  const ParameterTable table_ = problem_table();
  const Groups& groups_;
  const int stage_;
  const int64_t me_;
  const Partition partition_;
  const std::vector<OwnedRange> owned_;
  const AdamWIndexing indexing_;
  AdamW<Copy> optimizer_;
  GradientNorm norm_;
};

// Elements of tensors, not of the padding between them: nobody updates that.
template <class T>
int64_t wrong(const std::vector<T>& got, const std::vector<T>& expected) {
  int64_t count = 0;
  for (const ParameterSpec& p : problem_table().parameters)
    count += differing(got.data() + p.offset, expected.data() + p.offset, p.size());
  return count;
}

TEST(ZeroStep, EveryStageIsOneOwnersUpdate) {
  const State expected = by_one_owner();
  for (const int shards : group_sizes())
    for (int stage = 0; stage <= 3; ++stage) {
      const Groups groups(shards);
      const State got = Rank(groups, stage).run();
      EXPECT_EQ(got.norms, expected.norms) << "stage " << stage << ", " << shards << " shards";
      EXPECT_EQ(wrong(got.master, expected.master), 0)
          << "stage " << stage << ", " << shards << " shards";
      EXPECT_EQ(wrong(got.compute, expected.compute), 0)
          << "stage " << stage << ", " << shards << " shards";
    }
}

}  // namespace
}  // namespace espalier
