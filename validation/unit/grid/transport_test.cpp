// SPDX-License-Identifier: Apache-2.0
// How device memory travels, and who computes on which device.
#include "grid/transport.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "grid/device_choice.hpp"
#include "mpi_main.hpp"

namespace espalier {
namespace {

using Ordinals = std::vector<int>;

MpiSupport support(bool reports, const std::string& remark = "") {
  return {reports, "MPICH 4.0.2", remark};
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const LaunchError& error) {
    return error.what();
  }
  return "no error";
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' is not in: " << text;
}

TEST(Transport, FollowsWhatTheLibraryReports) {
  const TransportChoice aware = choose_transport(DeviceTransport::automatic, support(true));
  EXPECT_EQ(aware.transport, Transport::gpu_aware);
  EXPECT_EQ(aware.words, "GPU-aware MPI (MPICH 4.0.2 says so)");
  const TransportChoice plain = choose_transport(DeviceTransport::automatic, support(false));
  EXPECT_EQ(plain.transport, Transport::staged);
  EXPECT_EQ(plain.words, "staged through pinned memory: MPICH 4.0.2 does not report GPU support");
}

TEST(Transport, FollowsTheDeck) {
  EXPECT_EQ(choose_transport(DeviceTransport::staged, support(true)).transport, Transport::staged);
  EXPECT_EQ(choose_transport(DeviceTransport::gpu_aware, support(true)).transport,
            Transport::gpu_aware);
  expect_words(message_of([] {
                 choose_transport(DeviceTransport::gpu_aware,
                                  support(false, "MPICH_GPU_SUPPORT_ENABLED is not 1"));
               }),
               {"grid.device_transport = gpu_aware", "MPICH 4.0.2", "not report GPU support",
                "MPICH_GPU_SUPPORT_ENABLED is not 1", "grid.device_transport = staged"});
}

TEST(TransportOfRanks, IsOneForAll) {
  const TransportSettings before = transport_settings();
  GridConfig config;
  config.device_transport = DeviceTransport::staged;
  config.staging_mib = 0.01;
  const TransportChoice choice = open_transport(config, test_session().world());
  EXPECT_EQ(choice.transport, Transport::staged);
  EXPECT_EQ(transport_settings().transport, Transport::staged);
  EXPECT_EQ(transport_settings().staging_bytes, 12288);  // whole pages
  set_transport(before);
  EXPECT_THROW(set_transport({Transport::staged, 0}), InternalError);
  // A name and a number, on one line.
  const std::string library = ask_mpi_for_gpu_support().library;
  EXPECT_NE(library.find_first_of("0123456789"), std::string::npos) << library;
  EXPECT_LT(library.size(), 60u) << library;
}

TEST(DeviceChoice, LocalRankWhereAllSeeTheSame) {
  const std::vector<std::string> four = {"0:1b", "0:1c", "0:9a", "0:9b"};
  EXPECT_EQ(choose_devices({{4, four}, {5, four}, {6, four}, {7, four}}, "node1", false),
            (Ordinals{0, 1, 2, 3}));
  EXPECT_EQ(choose_devices({{0, four}}, "node1", false), (Ordinals{0}));
}

TEST(DeviceChoice, TheFirstWhereEachSeesItsOwn) {
  EXPECT_EQ(choose_devices({{0, {"a"}}, {1, {"b"}}, {2, {"c"}}}, "node1", false),
            (Ordinals{0, 0, 0}));
  EXPECT_EQ(choose_devices({{0, {"a", "b", "c"}}, {1, {"b", "c", "a"}}, {2, {"c", "a", "b"}}},
                           "node1", false),
            (Ordinals{0, 0, 0}));
  EXPECT_EQ(choose_devices({{0, {"a", "b"}}, {1, {"a", "b"}}, {2, {"c", "d"}}, {3, {"c", "d"}}},
                           "node1", false),
            (Ordinals{0, 1, 0, 1}));
}

TEST(DeviceChoice, MoreRanksThanDevicesIsAnErrorUnlessShared) {
  std::vector<RankDevices> node;
  for (int r = 0; r < 8; ++r) node.push_back({r + 1, {"a", "b", "c", "d"}});
  EXPECT_EQ(message_of([&] { choose_devices(node, "node1", false); }),
            "rank 5 on node1: 8 ranks but 4 GPUs on this node; start 4 a node, or set "
            "grid.share_devices = true (for tests)");
  EXPECT_EQ(choose_devices(node, "node1", true), (Ordinals{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(choose_devices({{0, {"a"}}, {1, {"a"}}}, "node1", true), (Ordinals{0, 0}));
  expect_words(message_of([] {
                 choose_devices({{0, {"a"}}, {1, {"a"}}}, "node1", false);
               }),
               {"rank 1 on node1: 2 ranks but 1 GPU on this node; start 1 a node"});
}

TEST(DeviceChoice, MasksThatOverlapAreNamed) {
  expect_words(message_of([] {
                 choose_devices({{0, {"a"}}, {1, {"a"}}, {2, {"b", "c"}}}, "n", false);
               }),
               {"rank 1 on n", "rank 0 already computes on GPU a", "CUDA_VISIBLE_DEVICES"});
}

TEST(DeviceChoice, NoDeviceIsAnError) {
  expect_words(message_of([] {
                 choose_devices({{0, {"a"}}, {3, {}}}, "node1", true);
               }),
               {"rank 3 on node1 sees no GPU", "nvidia-smi"});
}

// The ranks of this test lie on one host, each with the devices that its number says.
TEST(DeviceChoiceOfRanks, GathersWhatTheRanksSee) {
  const Comm& world = test_session().world();
  std::vector<std::string> all;
  for (int r = 0; r < world.size(); ++r) all.push_back("bus " + std::to_string(r));
  const DeviceChoice each = choose_device(world, "host", all, false);
  EXPECT_EQ(each.ordinal, world.rank());
  EXPECT_EQ(each.place.rank, world.rank());
  EXPECT_EQ(each.place.ranks, world.size());
  EXPECT_EQ(each.sharers, 1);
  const DeviceChoice own =
      choose_device(world, "host", {all[static_cast<size_t>(world.rank())]}, false);
  EXPECT_EQ(own.ordinal, 0);
  EXPECT_EQ(own.sharers, 1);
  const DeviceChoice shared = choose_device(world, "host", {"bus"}, true);
  EXPECT_EQ(shared.ordinal, 0);
  EXPECT_EQ(shared.sharers, world.size());
  if (world.size() > 1) {  // the same on all ranks
    EXPECT_THROW(choose_device(world, "host", {"bus"}, false), LaunchError);
  }
  EXPECT_THROW(choose_device(world, "host", {}, true), LaunchError);
}

}  // namespace
}  // namespace espalier
