// SPDX-License-Identifier: Apache-2.0
// Every operation of Comm against a plain computation that every rank does for itself, with one MPI
// call an operation and with calls cut up as counts beyond 2^31 are.
#include "grid/comm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "mpi_main.hpp"

namespace espalier {
namespace {

// Small integers, so that every type adds them exactly.
template <class T>
T value(int rank, int64_t i) {
  return static_cast<T>((rank * 37 + i * 11) % 101);
}

template <class T>
std::vector<T> values(int rank, int64_t first, int64_t count) {
  std::vector<T> v;
  for (int64_t i = 0; i < count; ++i) v.push_back(value<T>(rank, first + i));
  return v;
}

template <class T>
T reduced(int ranks, int64_t i, ReduceOp op) {
  T r = value<T>(0, i);
  for (int k = 1; k < ranks; ++k) {
    const T v = value<T>(k, i);
    r = op == ReduceOp::sum ? r + v : op == ReduceOp::max ? std::max(r, v) : std::min(r, v);
  }
  return r;
}

Comm copy_of_world() {
  MPI_Comm copy = MPI_COMM_NULL;
  EXPECT_EQ(MPI_Comm_dup(test_session().world().handle(), &copy), MPI_SUCCESS);
  return Comm(copy, "test");
}

template <class T>
class CommOf : public testing::Test {
 protected:
  Comm comm = copy_of_world();
  const int ranks = comm.size(), me = comm.rank();
  // Bytes a call: whole, pieces that divide the counts, pieces that do not.
  const std::vector<int64_t> limits = {int64_t{1} << 30, 80, 56};
};
using Numbers = testing::Types<float, double, int32_t, int64_t, uint64_t>;
TYPED_TEST_SUITE(CommOf, Numbers);

TYPED_TEST(CommOf, AllReduce) {
  for (const int64_t limit : this->limits)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min})
      for (const int64_t count : {0, 1, 100}) {
        this->comm.set_call_limit(limit);
        auto data = values<TypeParam>(this->me, 0, count);
        this->comm.all_reduce(data.data(), count, op);
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(data[i], reduced<TypeParam>(this->ranks, i, op)) << i;
      }
}

TYPED_TEST(CommOf, ReduceScatter) {
  for (const int64_t limit : this->limits)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      this->comm.set_call_limit(limit);
      const int64_t count = 40;
      const auto all = values<TypeParam>(this->me, 0, count * this->ranks);
      std::vector<TypeParam> own(count);
      this->comm.reduce_scatter(all.data(), count, own.data(), op);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(own[i], reduced<TypeParam>(this->ranks, this->me * count + i, op)) << i;
    }
}

TYPED_TEST(CommOf, AllGather) {
  for (const int64_t limit : this->limits) {
    this->comm.set_call_limit(limit);
    const int64_t count = 40;
    const auto own = values<TypeParam>(this->me, 0, count);
    std::vector<TypeParam> all(count * this->ranks), in_place(count * this->ranks);
    this->comm.all_gather(own.data(), count, all.data());
    std::copy(own.begin(), own.end(), in_place.begin() + this->me * count);
    this->comm.all_gather(in_place.data() + this->me * count, count, in_place.data());
    for (int64_t i = 0; i < count * this->ranks; ++i)
      ASSERT_EQ(all[i], value<TypeParam>(static_cast<int>(i / count), i % count)) << i;
    ASSERT_EQ(all, in_place);
  }
}

TYPED_TEST(CommOf, AllToAll) {
  for (const int64_t limit : this->limits) {
    this->comm.set_call_limit(limit);
    const int64_t count = 40;
    const auto send = values<TypeParam>(this->me, 0, count * this->ranks);
    std::vector<TypeParam> receive(count * this->ranks);
    this->comm.all_to_all(send.data(), count, receive.data());
    for (int64_t i = 0; i < count * this->ranks; ++i)
      ASSERT_EQ(receive[i],
                value<TypeParam>(static_cast<int>(i / count), this->me * count + i % count));
  }
}

TYPED_TEST(CommOf, AllToAllOfUnequalParts) {
  // Rank s sends 3 s + d elements to rank d; some parts are empty.
  const auto part = [](int s, int d) { return s == d + 1 ? int64_t{0} : int64_t{3} * s + d; };
  std::vector<int64_t> out, in;
  int64_t sent = 0, received = 0;
  for (int r = 0; r < this->ranks; ++r) {
    out.push_back(part(this->me, r));
    in.push_back(part(r, this->me));
    sent += out.back();
    received += in.back();
  }
  const auto send = values<TypeParam>(this->me, 0, sent);
  std::vector<TypeParam> receive(received);
  this->comm.all_to_all_v(send.data(), out, receive.data(), in);
  int64_t at = 0;
  for (int s = 0; s < this->ranks; ++s) {
    int64_t first = 0;
    for (int d = 0; d < this->me; ++d) first += part(s, d);
    for (int64_t i = 0; i < part(s, this->me); ++i, ++at)
      ASSERT_EQ(receive[at], value<TypeParam>(s, first + i)) << "from " << s;
  }
  ASSERT_EQ(at, received);
}

TYPED_TEST(CommOf, Broadcast) {
  for (const int64_t limit : this->limits)
    for (int root = 0; root < this->ranks; ++root) {
      this->comm.set_call_limit(limit);
      auto data = values<TypeParam>(this->me, 0, 100);
      this->comm.broadcast(data.data(), 100, root);
      ASSERT_EQ(data, values<TypeParam>(root, 0, 100));
    }
}

TYPED_TEST(CommOf, SendAndReceiveRoundTheRing) {
  if (this->ranks == 1) GTEST_SKIP() << "a ring of one";
  for (const int64_t limit : this->limits) {
    this->comm.set_call_limit(limit);
    const int next = (this->me + 1) % this->ranks;
    const int previous = (this->me + this->ranks - 1) % this->ranks;
    const auto own = values<TypeParam>(this->me, 0, 100);
    const auto more = values<TypeParam>(this->me, 500, 9);
    std::vector<TypeParam> got(100), got_more(9);
    // The tags are met in another order than they are sent.
    Request first = this->comm.start_send(own.data(), 100, next, 1);
    Request second = this->comm.start_send(more.data(), 9, next, 2);
    this->comm.recv(got_more.data(), 9, previous, 2);
    this->comm.recv(got.data(), 100, previous, 1);
    first.wait();
    second.wait();
    ASSERT_EQ(got, values<TypeParam>(previous, 0, 100));
    ASSERT_EQ(got_more, values<TypeParam>(previous, 500, 9));
  }
}

class CommTest : public testing::Test {
 protected:
  Comm comm = copy_of_world();
  const int ranks = comm.size(), me = comm.rank();
};

TEST_F(CommTest, ReturnsAtOnceAndCompletesLater) {
  // Rank 0 comes late: the others' requests cannot be complete before it has come.
  if (ranks == 1) GTEST_SKIP() << "nobody to wait for";
  std::vector<double> data(1000, 1.0);
  Request gate, sum;
  if (me != 0) {
    sum = comm.start_all_reduce(data.data(), 1000, ReduceOp::sum);
    EXPECT_FALSE(sum.is_complete());
    char go = 0;
    comm.recv(&go, 1, 0, 5);
  } else {
    const char go = 1;
    for (int r = 1; r < ranks; ++r) comm.send(&go, 1, r, 5);
    sum = comm.start_all_reduce(data.data(), 1000, ReduceOp::sum);
  }
  Request moved = std::move(sum);
  EXPECT_TRUE(sum.is_complete());  // NOLINT: an empty request is complete
  while (!moved.test()) {
  }
  EXPECT_TRUE(moved.is_complete());
  EXPECT_EQ(data[999], ranks);
}

TEST_F(CommTest, WaitsForARequestThatIsDropped) {
  std::vector<int64_t> data(5000, me + 1);
  { Request dropped = comm.start_all_reduce(data.data(), 5000, ReduceOp::sum); }
  EXPECT_EQ(data[4999], ranks * (ranks + 1) / 2);
}

TEST_F(CommTest, BarrierHoldsUntilTheLast) {
  // A rank that leaves the barrier knows that all others have set their flag, since each sends it
  // before it enters.
  std::vector<Request> sends;
  const char flag = 1;
  for (int r = 0; r < ranks; ++r)
    if (r != me) sends.push_back(comm.start_send(&flag, 1, r, 9));
  comm.barrier();
  int seen = 0;
  for (int r = 0; r < ranks; ++r) {
    if (r == me) continue;
    char got = 0;
    comm.recv(&got, 1, r, 9);
    seen += got;
  }
  EXPECT_EQ(seen, ranks - 1);
}

TEST_F(CommTest, ExchangeKeepsStreamsApart) {
  if (ranks == 1) GTEST_SKIP() << "nobody to exchange with";
  // Even ranks start stream 0 first, odd ranks stream 1.
  const int next = (me + 1) % ranks, previous = (me + ranks - 1) % ranks;
  const int64_t own[2] = {me * 2, me * 2 + 1};
  int64_t got[2] = {-1, -1};
  Request requests[2];
  for (int k = 0; k < 2; ++k) {
    const int stream = (me + k) % 2;
    requests[stream] =
        comm.start_exchange({{&own[stream], 8, next}}, {{&got[stream], 8, previous}}, stream);
  }
  requests[0].wait();
  requests[1].wait();
  EXPECT_EQ(got[0], previous * 2);
  EXPECT_EQ(got[1], previous * 2 + 1);
}

TEST_F(CommTest, CountsBytesAndCalls) {
  std::vector<float> data(100 * static_cast<size_t>(ranks)), other(data.size());
  const int64_t n = ranks;
  const auto bytes = [&](auto&& work) {
    comm.take_stats();
    work();
    return comm.take_stats().bytes;
  };
  EXPECT_EQ(bytes([&] { comm.all_reduce(data.data(), 100 * n, ReduceOp::sum); }),
            2 * 400 * (n - 1));
  EXPECT_EQ(bytes([&] { comm.reduce_scatter(data.data(), 100, other.data(), ReduceOp::sum); }),
            400 * (n - 1));
  EXPECT_EQ(bytes([&] { comm.all_gather(data.data(), 100, other.data()); }), 400 * (n - 1));
  EXPECT_EQ(bytes([&] { comm.all_to_all(data.data(), 100, other.data()); }), 400 * (n - 1));
  EXPECT_EQ(bytes([&] { comm.broadcast(data.data(), 100, 0); }), me == 0 && n > 1 ? 400 : 0);
  EXPECT_EQ(bytes([&] { comm.barrier(); }), 0);
  if (n > 1 && me == 0) {
    EXPECT_EQ(bytes([&] { comm.send(data.data(), 7, 1, 0); }), 28);
  }
  if (me == 1) {
    EXPECT_EQ(bytes([&] { comm.recv(data.data(), 7, 0, 0); }), 0);
  }
  comm.take_stats();
  comm.all_reduce(1.0, ReduceOp::max);
  Request later = comm.start_all_reduce(data.data(), 10, ReduceOp::sum);
  later.wait();
  const CommStats stats = comm.stats();
  EXPECT_EQ(stats.calls, n > 1 ? 2 : 0);
  EXPECT_GE(stats.seconds, 0.0);
  if (n > 1) {
    EXPECT_GT(stats.seconds, 0.0);
    EXPECT_GT(stats.exposed_seconds, 0.0);
  } else {
    EXPECT_EQ(stats.seconds + stats.exposed_seconds, 0.0);
  }
}

TEST_F(CommTest, FeedsTheWatchdogWhileItWaits) {
  if (ranks == 1) GTEST_SKIP() << "no wait on one rank";
  const double start = monotonic_seconds();
  int64_t fed = 0;
  // The rest of the ranks come 20 ms late.
  if (me == 0) {
    comm.wait_until([&] { return ++fed > 3 && monotonic_seconds() - start > 0.02; }, "sleep");
    EXPECT_GT(comm.take_stats().exposed_seconds, 0.019);  // its clock starts a little later
  }
  comm.barrier();
  if (me != 0) {
    EXPECT_GT(comm.take_stats().exposed_seconds, 0.0);
  }
}

TEST_F(CommTest, RefusesWhatCannotBe) {
  double x = 0.0;
  EXPECT_THROW(comm.broadcast(&x, 1, ranks), InternalError);
  EXPECT_THROW(comm.send(&x, 1, ranks, 0), InternalError);
  EXPECT_THROW(comm.send(&x, 1, me, 0), InternalError);
  EXPECT_THROW(comm.recv(&x, 1, (me + 1) % ranks, Comm::kTags), InternalError);
  EXPECT_THROW(comm.all_reduce(&x, -1, ReduceOp::sum), InternalError);
  EXPECT_THROW(comm.all_to_all_v(&x, {}, &x, {}), InternalError);
}

TEST_F(CommTest, TurnsErrorsOfMpiIntoText) {
  if (ranks == 1) GTEST_SKIP() << "no message without another rank";
  // A message longer than the receiver expects is an error that MPI itself finds.
  const std::vector<double> data(8, 1.0);
  double little = 0.0;
  if (me == 0) comm.send(data.data(), 8, 1, 3);
  if (me == 1) {
    try {
      comm.recv(&little, 1, 0, 3);
      ADD_FAILURE() << "a truncated message went unseen";
    } catch (const LaunchError& error) {
      EXPECT_NE(std::string(error.what()).find("MPI failed at"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace espalier
