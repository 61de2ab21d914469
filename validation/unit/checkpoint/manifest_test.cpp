// SPDX-License-Identifier: Apache-2.0
// The manifest: what is written is read; every flipped bit, cut and foreign content is refused.
#include "checkpoint/manifest.hpp"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "core/error.hpp"
#include "sample_manifest.hpp"
#include "scratch_folder.hpp"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

#define EXPECT_SAYS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

std::string refusal(const std::string& text) {
  return message_of<DataError>([&] { parse_manifest(text, "DIR/manifest.json"); });
}

/// Any text with a right checksum, so that only its content can be at fault.
std::string sealed(const std::string& text) {
  return text + ",\n \"checksum\": \"" +
         fmt::format("{:016x}", XXH3_64bits(text.data(), text.size())) + "\"\n}\n";
}

/// The sample after `change`, with a right checksum.
template <class Change>
std::string changed(const Change& change) {
  Json json = Json::parse(manifest_json(sample_manifest(10)));
  json.erase("checksum");
  change(json);
  std::string text = json.dump(1);
  text.resize(text.size() - 2);
  return sealed(text);
}

TEST(Manifest, ReadsWhatItWrote) {
  const CheckpointManifest m = sample_manifest(10);
  const std::string text = manifest_json(m);
  const CheckpointManifest r = parse_manifest(text, "x");
  EXPECT_EQ(manifest_json(r), text);
  EXPECT_EQ(r.step, 10);
  EXPECT_EQ(r.consumed_tokens, 40960);
  EXPECT_EQ(r.loss, 1.0 / 3.0);
  EXPECT_TRUE(r.is_healthy);
  EXPECT_EQ(r.state_bytes(), 12);
  EXPECT_EQ(r.files[1].name, "state.1of2.h5");
  EXPECT_EQ(r.state_digest, m.state_digest);
  EXPECT_EQ(r.grid, m.grid);
  EXPECT_EQ(r.hosts, m.hosts);
  EXPECT_EQ(r.deck, m.deck);
  EXPECT_EQ(r.saved, m.saved);
  EXPECT_EQ(r.saved.size(), 20u);
  EXPECT_EQ(manifest_checksum(text).size(), 16u);
}

TEST(Manifest, LossesThatAreNotFiniteAndTextsThatAreNotUtf8) {
  CheckpointManifest m = sample_manifest(1);
  m.is_healthy = false;
  m.build = "caf\xe9";
  for (const double loss : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    m.loss = loss;
    const CheckpointManifest r = parse_manifest(manifest_json(m), "x");
    EXPECT_TRUE(std::isnan(loss) ? std::isnan(r.loss) : r.loss == loss);
    EXPECT_FALSE(r.is_healthy);
  }
}

TEST(Manifest, EveryFlippedBitAndEveryCutIsSeen) {
  const std::string text = manifest_json(sample_manifest(10));
  for (size_t at = 0; at < text.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = text;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      ASSERT_NE(refusal(bad), "") << "byte " << at << " bit " << bit;
    }
  for (size_t length = 0; length < text.size(); ++length)
    ASSERT_NE(refusal(text.substr(0, length)), "") << length;
  EXPECT_SAYS(refusal(text + "\n"), "does not end with its checksum");
}

TEST(Manifest, NamesTheKeyAtFault) {
  EXPECT_EQ(refusal(changed([](Json&) {})), "");
  const auto says = [](const char* key, const Json& value, const char* part) {
    const std::string text = changed([&](Json& j) { j[key] = value; });
    EXPECT_SAYS(refusal(text), std::string("DIR/manifest.json: ") + key);
    EXPECT_SAYS(refusal(text), part);
  };
  for (const char* key :
       {"format", "format_version", "step", "files", "state_digest", "grid", "hosts", "deck"})
    EXPECT_SAYS(refusal(changed([&](Json& j) { j.erase(key); })), std::string(key) + " is missing");
  says("format", "espalier model", "is not \"espalier checkpoint\"");
  says("step", "10", "is not an integer");
  says("step", 1.5, "is not an integer");
  says("step", -1, "is not within");
  says("consumed_tokens", std::numeric_limits<uint64_t>::max(), "is not within");
  says("ranks", 0, "is not within");
  says("healthy", 1, "is neither true nor false");
  says("loss", "much", "is not a number");
  says("deck", Json::array(), "is not a text");
  says("hosts", Json::array({1}), "is not a text");
  says("hosts", "node", "is not a list");
  says("grid", 3, "is not an object");
  for (const char* digest : {"", "0123", "0123456789ABCDEF", "0123456789abcdeff"})
    says("state_digest", digest, "is not 16 hexadecimal digits");
  says("colour", 3, "is not a key of this format");
  EXPECT_SAYS(refusal(changed([](Json& j) { j["format_version"] = 2; })), "use the program");
  EXPECT_SAYS(refusal(changed([](Json& j) { j["grid"]["tp"] = 0; })), "grid.tp");
}

TEST(Manifest, StateFilesStayInTheFolder) {
  const auto with_name = [](const std::string& name) {
    return refusal(changed([&](Json& j) { j["files"][1]["name"] = name; }));
  };
  EXPECT_SAYS(with_name("../state.h5"), "files[1].name leaves the folder");
  EXPECT_SAYS(with_name("/etc/passwd"), "leaves the folder");
  EXPECT_SAYS(with_name(".."), "begins with a dot");
  EXPECT_SAYS(with_name(""), "length");
  EXPECT_SAYS(with_name(std::string(300, 'x')), "length");
  EXPECT_SAYS(with_name(std::string("a\0b", 3)), "control character");
  EXPECT_SAYS(with_name("state.0of2.h5"), "stands twice");
  EXPECT_SAYS(refusal(changed([](Json& j) { j["files"] = Json::array(); })), "files is empty");
  EXPECT_SAYS(refusal(changed([](Json& j) { j["files"][0]["bytes"] = -5; })), "files[0].bytes");
  EXPECT_SAYS(refusal(changed([](Json& j) {
                for (Json& file : j["files"]) file["bytes"] = int64_t{1} << 60;
              })),
              "makes the sum absurd");
}

TEST(Manifest, NestingLengthAndRepeatedKeys) {
  const std::string deep(1 << 20, '[');
  EXPECT_SAYS(refusal(sealed("{\n \"a\": " + deep)), "nested too deep");
  EXPECT_SAYS(refusal(sealed("{\"step\": 1, \"step\": 2")), "step stands twice");
  EXPECT_SAYS(refusal(sealed("{\"a\": \"\xff\"")), "is not JSON");
  EXPECT_SAYS(refusal(std::string((16 << 20) + 1, ' ')), "no manifest is that long");
  EXPECT_SAYS(refusal(""), "does not end with its checksum");
}

TEST(Manifest, RandomContentIsRefusedInGoodOrder) {
  std::mt19937 random(7);
  const std::string text = manifest_json(sample_manifest(10));
  const std::string body = text.substr(0, text.rfind(",\n \"checksum"));
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bad = body;
    for (unsigned n = random() % 4 + 1; n > 0; --n) {
      const size_t at = random() % bad.size();
      const std::string pieces[] = {"\"", "{", "[", "]", "}", ",", ":", "9", "null", "-", "\\u"};
      if (random() % 2 == 0)
        bad[at] = static_cast<char>(random());
      else
        bad.replace(at, random() % 12, pieces[random() % std::size(pieces)]);
    }
    const std::string message = refusal(sealed(bad));
    refused += !message.empty();
    if (!message.empty()) {
      EXPECT_EQ(message.find("DIR/manifest.json: "), 0u) << message;
    }
  }
  EXPECT_GT(refused, 10000);  // the rest changed a text or a number into another
}

}  // namespace
}  // namespace espalier
