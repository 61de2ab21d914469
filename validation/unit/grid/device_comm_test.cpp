// SPDX-License-Identifier: Apache-2.0
// Messages of device memory, whose contents are made by work that has not run yet when they start,
// by every transport. In a build for the host the same messages of host memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "device/buffer.hpp"
#include "grid/comm.hpp"
#include "grid/staging_pool.hpp"
#include "grid/transport.hpp"
#include "mpi_main.hpp"

namespace espalier {
namespace {

constexpr int64_t kPortion = 4096;

using Bytes = std::vector<unsigned char>;

Bytes pattern(int64_t size, int from, int to, int salt = 0) {
  Bytes bytes(static_cast<size_t>(size));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] =
        static_cast<unsigned char>(1 + (i * 7 + i / 251 + 31 * static_cast<size_t>(from) +
                                        101 * static_cast<size_t>(to) + static_cast<size_t>(salt)) %
                                           255);
  return bytes;
}

class Memory {
 public:
  explicit Memory(const Bytes& bytes)
      : buffer_("test.message", static_cast<int64_t>(bytes.size()), Contents::undefined) {
    set(bytes);
  }
  explicit Memory(int64_t size) : buffer_("test.message", size) {}
  void set(const Bytes& bytes) {
    device::copy_and_wait(data(), bytes.data(), static_cast<int64_t>(bytes.size()));
  }
  Bytes get() const {
    Bytes bytes(static_cast<size_t>(buffer_.size()));
    device::copy_and_wait(bytes.data(), data(), buffer_.size());
    return bytes;
  }
  unsigned char* data() const { return buffer_.data(); }
  int64_t size() const { return buffer_.size(); }

 private:
  Buffer<unsigned char> buffer_;
};

/// A message whose contents a copy that is still queued brings.
struct LateMessage {
  Memory source, sent;
  explicit LateMessage(const Bytes& bytes) : source(bytes), sent(Bytes(bytes.size(), 0)) {}
  void make() { device::copy(sent.data(), source.data(), sent.size()); }
};

class DeviceComm : public testing::TestWithParam<Transport> {
 protected:
  void SetUp() override {
    if (comm_.size() == 1) GTEST_SKIP() << "nothing travels on one rank";
    if (GetParam() == Transport::gpu_aware && device::kPresent &&
        !ask_mpi_for_gpu_support().reports_gpu)
      GTEST_SKIP() << "this MPI reaches host memory alone";
    set_transport({GetParam(), kPortion});
  }
  void TearDown() override { set_transport(before_); }

  const TransportSettings before_ = transport_settings();
  const Comm comm_ = test_session().world().duplicate("test");
  const int me_ = comm_.rank(), ranks_ = comm_.size();

  /// Messages of `size` between all pairs; how many arrived wrong, or overwrote memory that work
  /// queued before was still to read.
  int wrong_messages(int64_t size) const {
    std::vector<LateMessage> out;
    std::vector<Memory> in, kept;
    std::vector<OutPiece> send;
    std::vector<InPiece> receive;
    for (int r = 0; r < ranks_; ++r) {
      out.emplace_back(pattern(size, me_, r));
      in.emplace_back(pattern(size, me_, r, 77));
      kept.emplace_back(size);
    }
    for (int r = 0; r < ranks_; ++r) {
      const auto k = static_cast<size_t>(r);
      out[k].make();
      device::copy(kept[k].data(), in[k].data(), size);
      if (r == me_) continue;
      send.push_back({out[k].sent.data(), size, r});
      receive.push_back({in[k].data(), size, r});
    }
    comm_.start_exchange(send, receive, 3).wait();
    int wrong = 0;
    for (int r = 0; r < ranks_; ++r) {
      const auto k = static_cast<size_t>(r);
      if (r != me_) wrong += in[k].get() != pattern(size, r, me_);
      wrong += kept[k].get() != pattern(size, me_, r, 77);
    }
    return wrong;
  }
};

TEST_P(DeviceComm, ExchangesWhatIsStillToBeComputed) {
  for (const int64_t size :
       {int64_t{0}, int64_t{1}, kPortion - 1, kPortion, kPortion + 1, 11 * kPortion + 5})
    EXPECT_EQ(wrong_messages(size), 0) << size << " bytes";
}

TEST_P(DeviceComm, KeepsTheOrderOfOnePairAndTag) {
  // Device, host, empty, device: each behind the others, whatever is ready first.
  const int to = (me_ + 1) % ranks_, from = (me_ + ranks_ - 1) % ranks_;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const int64_t large = 5 * kPortion + 3, small = 40;
    LateMessage first(pattern(large, me_, to, 1)), last(pattern(small, me_, to, 3));
    Memory first_in(large), last_in(small);
    const Bytes middle = pattern(large, me_, to, 2);
    Bytes middle_in(middle.size(), 0);
    first.make();
    last.make();
    const auto send = [&](const unsigned char* data, int64_t size) {
      return comm_.start_send(data, size, to, 9);
    };
    const auto receive = [&](unsigned char* data, int64_t size) {
      return comm_.start_recv(data, size, from, 9);
    };
    std::vector<Request> requests;
    requests.push_back(receive(first_in.data(), large));
    requests.push_back(send(first.sent.data(), large));
    requests.push_back(send(middle.data(), large));
    requests.push_back(receive(middle_in.data(), large));
    requests.push_back(send(middle.data(), 0));
    requests.push_back(receive(middle_in.data(), 0));
    requests.push_back(send(last.sent.data(), small));
    requests.push_back(receive(last_in.data(), small));
    for (auto r = requests.rbegin(); r != requests.rend(); ++r) r->wait();
    EXPECT_EQ(first_in.get(), pattern(large, from, me_, 1));
    EXPECT_EQ(middle_in, pattern(large, from, me_, 2));
    EXPECT_EQ(last_in.get(), pattern(small, from, me_, 3));
  }
}

// A rank that waits for one axis must still send what it started on another.
TEST_P(DeviceComm, AWaitForOneAxisServesTheOthers) {
  const Comm other = comm_.duplicate("other");
  if (me_ > 1) return;
  const int64_t size = 3 * kPortion;
  LateMessage message(pattern(size, 0, 1));
  Memory arrived(size);
  char go = 0;
  if (me_ == 0) {
    message.make();
    Request request = comm_.start_send(message.sent.data(), size, 1, 0);
    other.recv(&go, 1, 1, 0);
    request.wait();
  } else {
    comm_.recv(arrived.data(), size, 0, 0);
    EXPECT_EQ(arrived.get(), pattern(size, 0, 1));
    other.send(&go, 1, 0, 0);
  }
}

TEST_P(DeviceComm, GathersInPlaceAndNot) {
  for (const int64_t size : {int64_t{8}, 2 * kPortion + 24}) {
    Bytes expected;
    for (int r = 0; r < ranks_; ++r) {
      const Bytes part = pattern(size, r, 0);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    LateMessage own(pattern(size, me_, 0));
    own.make();
    Memory all(size * ranks_), in_place(size * ranks_);
    comm_.all_gather(own.sent.data(), size, all.data());
    device::copy(in_place.data() + me_ * size, own.sent.data(), size);
    comm_.all_gather(in_place.data() + me_ * size, size, in_place.data());
    EXPECT_EQ(all.get(), expected);
    EXPECT_EQ(in_place.get(), expected);
  }
}

TEST_P(DeviceComm, AllToAllMovesEveryPart) {
  const int64_t size = kPortion + 16;
  Bytes out, expected;
  for (int r = 0; r < ranks_; ++r) {
    const Bytes sent = pattern(size, me_, r), arrives = pattern(size, r, me_);
    out.insert(out.end(), sent.begin(), sent.end());
    expected.insert(expected.end(), arrives.begin(), arrives.end());
  }
  LateMessage message(out);
  message.make();
  Memory in(size * ranks_);
  comm_.all_to_all(message.sent.data(), size, in.data());
  EXPECT_EQ(in.get(), expected);
}

TEST_P(DeviceComm, ADroppedRequestWaits) {
  const int to = (me_ + 1) % ranks_, from = (me_ + ranks_ - 1) % ranks_;
  const int64_t size = 4 * kPortion;
  LateMessage message(pattern(size, me_, to));
  Memory in(size);
  message.make();
  {
    Request receive = comm_.start_recv(in.data(), size, from, 2);
    const Request send = comm_.start_send(message.sent.data(), size, to, 2);
    Request moved = std::move(receive);
    EXPECT_TRUE(receive.is_complete());  // NOLINT: a request that was moved from holds nothing
    EXPECT_FALSE(moved.is_complete());
  }
  EXPECT_EQ(in.get(), pattern(size, from, me_));
}

TEST_P(DeviceComm, CountsAsHostMemoryDoes) {
  const int64_t size = 3 * kPortion + 1;
  comm_.take_stats();
  Memory out(size), in(size * ranks_);
  comm_.all_gather(out.data(), size, in.data());
  const CommStats stats = comm_.take_stats();
  EXPECT_EQ(stats.bytes, size * (ranks_ - 1));
  EXPECT_EQ(stats.calls, 1);
  EXPECT_GT(stats.seconds, 0.0);
  EXPECT_GT(stats.exposed_seconds, 0.0);
}

TEST_P(DeviceComm, PinnedMemoryIsKeptAndSharedByReceivers) {
  if (!device::kPresent || GetParam() != Transport::staged) return;
  const int64_t size = 64 * kPortion;
  Memory out(size), in(size * ranks_);
  const auto spread = [&] { comm_.all_gather(out.data(), size, in.data()); };
  const int64_t before = staging_bytes();
  spread();
  const int64_t once = staging_bytes();
  // The own part once, however many receive it, and the parts of the others.
  EXPECT_LE(once - before, size * ranks_);
  for (int i = 0; i < 3; ++i) spread();
  EXPECT_EQ(staging_bytes(), once);
}

TEST_P(DeviceComm, ReductionsRefuseDeviceMemory) {
  if (!device::kPresent) return;
  Buffer<float> data("test.sums", 8 * ranks_);
  EXPECT_THROW(comm_.all_reduce(data.data(), 8, ReduceOp::sum), InternalError);
  EXPECT_THROW(comm_.reduce_scatter(data.data(), 8, data.data(), ReduceOp::sum), InternalError);
  EXPECT_THROW(comm_.broadcast(data.data(), 8, 0), InternalError);
}

// Run with ESPALIER_TEST_BREAK=transfer_event: messages that do not wait for the work before them.
using DeviceCommControl = DeviceComm;
TEST_P(DeviceCommControl, AMessageThatDoesNotWaitIsSeen) {
  int wrong = 0;
  for (int i = 0; i < 5; ++i) wrong += wrong_messages(3 * kPortion);
  EXPECT_GT(test_session().world().all_reduce(wrong, ReduceOp::sum), 0);
}

std::string name_of(const testing::TestParamInfo<Transport>& info) {
  return info.param == Transport::staged ? "Staged" : "GpuAware";
}
INSTANTIATE_TEST_SUITE_P(Transports, DeviceComm,
                         testing::Values(Transport::staged, Transport::gpu_aware), name_of);
INSTANTIATE_TEST_SUITE_P(Transports, DeviceCommControl,
                         testing::Values(Transport::staged, Transport::gpu_aware), name_of);

}  // namespace
}  // namespace espalier
