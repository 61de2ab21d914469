// SPDX-License-Identifier: Apache-2.0
// Manifests: the same bytes every time, and nothing odd is believed.
#include "corpus/store/store_manifest.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "store_files.hpp"

namespace espalier {
namespace {

using nlohmann::ordered_json;
using testing::data_error;
using testing::TempFolder;

StoreManifest sample() {
  StoreManifest m;
  m.tokenizer = "bytes";
  m.vocab_size = 257;
  m.end_of_document = 256;
  m.held_out = 0.01;
  m.seed = std::numeric_limits<uint64_t>::max();
  m.sources = {{"wiki", "en", 1.0}, {"books", "", 0.1}, {"nichts", "de", 2.5}};
  m.shards = {{"train/wiki-00000.tok", 0, Stream::train, 3, 30, 27, 0xfedcba9876543210U, 2},
              {"validation/wiki-00000.tok", 0, Stream::validation, 1, 5, 4, 3, 4},
              {"train/books-00000.tok", 1, Stream::train, 2, 20, 18, 5, 6}};
  m.details = {{"files", {"a.txt", "b.txt"}}, {"deck", "x = 1\n"}};
  return m;
}

/// Message of decoding the sample with one thing changed.
std::string refusal(const std::function<void(ordered_json&)>& change) {
  ordered_json json = ordered_json::parse(encode_manifest(sample()));
  change(json);
  const std::string message = data_error([&] { decode_manifest(json.dump(), "S/manifest.json"); });
  EXPECT_EQ(message.compare(0, 15, "S/manifest.json"), 0) << message;
  return message;
}

TEST(ManifestTest, RoundTripsToTheSameBytes) {
  const std::string text = encode_manifest(sample());
  const StoreManifest back = decode_manifest(text, "m");
  EXPECT_EQ(encode_manifest(back), text);
  EXPECT_EQ(back.seed, sample().seed);
  EXPECT_EQ(back.held_out, 0.01);
  ASSERT_EQ(back.sources.size(), 3U);
  EXPECT_EQ(back.sources[1].weight, 0.1);
  ASSERT_EQ(back.shards.size(), 3U);
  EXPECT_EQ(back.shards[0].checksum, 0xfedcba9876543210U);
  EXPECT_EQ(back.shards[1].stream, Stream::validation);
  EXPECT_EQ(back.details, sample().details);
}

TEST(ManifestTest, CountsAreThoseOfTheShards) {
  const ordered_json counts = ordered_json::parse(encode_manifest(sample()))["counts"];
  EXPECT_EQ(counts["stream"]["train"]["tokens"], 50);
  EXPECT_EQ(counts["stream"]["validation"]["documents"], 1);
  EXPECT_EQ(counts["language"]["en"]["train"]["text_bytes"], 27);
  EXPECT_EQ(counts["language"][""]["train"]["tokens"], 20);
  EXPECT_EQ(counts["source"]["wiki"]["validation"]["tokens"], 5);
  EXPECT_EQ(counts["source"]["nichts"]["train"]["documents"], 0);
}

TEST(ManifestTest, DetailsMayBeAnyText) {
  StoreManifest m = sample();
  m.details = {{"path", "caf\xe9"}};
  EXPECT_EQ(decode_manifest(encode_manifest(m), "m").details["path"], "caf\xef\xbf\xbd");
}

TEST(ManifestTest, SyntaxFormatAndFields) {
  for (const char* text : {"", "{", "[]", "nul", "{\"format\": 1}", "\xff"}) {
    EXPECT_CONTAINS(data_error([&] { decode_manifest(text, "here"); }), "here: ");
  }
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  EXPECT_CONTAINS(data_error([&] { decode_manifest("{\"details\": " + deep + "}", "here"); }),
                  "stand in each other");
  EXPECT_CONTAINS(refusal([](auto& j) { j["format"] = "other"; }), "is not the manifest of a");
  EXPECT_CONTAINS(refusal([](auto& j) { j["version"] = 2; }), "newer than the 1");
  EXPECT_CONTAINS(refusal([](auto& j) { j["version"] = 0; }), "version 0");
  EXPECT_CONTAINS(refusal([](auto& j) { j["more"] = 0; }), "a field \"more\"");
  for (const char* name : {"tokenizer", "held_out", "counts", "sources", "shards", "details"}) {
    EXPECT_CONTAINS(refusal([&](auto& j) { j.erase(name); }), "has no field");
  }
  for (const char* name : {"file", "source", "stream", "documents", "tokens", "text_bytes",
                           "checksum", "index_checksum"}) {
    EXPECT_CONTAINS(refusal([&](auto& j) { j["shards"][1].erase(name); }),
                    fmt::format("shards[1] has no field {}", name));
    EXPECT_CONTAINS(refusal([&](auto& j) { j["shards"][1][name] = nullptr; }), "shards[1] has a");
  }
}

TEST(ManifestTest, TypesAndRanges) {
  const auto shard = [](const char* name, const ordered_json& value) {
    return refusal([&](auto& j) { j["shards"][0][name] = value; });
  };
  EXPECT_CONTAINS(shard("tokens", 30.0), "no count");
  EXPECT_CONTAINS(shard("tokens", -30), "no count");
  EXPECT_CONTAINS(shard("tokens", uint64_t{1} << 63), "no count");
  EXPECT_CONTAINS(shard("tokens", 2), "cannot be");
  EXPECT_CONTAINS(shard("documents", 0), "cannot be");
  EXPECT_CONTAINS(shard("tokens", std::numeric_limits<int64_t>::max()), "more than any store");
  EXPECT_CONTAINS(shard("source", 3), "there is no source 3");
  EXPECT_CONTAINS(shard("stream", "test"), "unknown stream");
  EXPECT_CONTAINS(shard("stream", "validation"), "its file is not validation/");
  EXPECT_CONTAINS(shard("checksum", "12"), "16 hexadecimal digits");
  EXPECT_CONTAINS(shard("checksum", "FEDCBA9876543210"), "16 hexadecimal digits");
  EXPECT_CONTAINS(shard("file", "train/books-00000.tok"), "is named twice");
  EXPECT_CONTAINS(refusal([](auto& j) { j["tokenizer"]["vocab_size"] = 0; }), "outside [1,");
  EXPECT_CONTAINS(refusal([](auto& j) { j["tokenizer"]["end_of_document"] = 257; }), "not below");
  EXPECT_CONTAINS(refusal([](auto& j) { j["tokenizer"]["name"] = ""; }), "tokenizer's name");
  EXPECT_CONTAINS(refusal([](auto& j) { j["held_out"]["fraction"] = 1.0; }), "outside [0, 1)");
  EXPECT_CONTAINS(refusal([](auto& j) { j["held_out"]["seed"] = -1; }), "whole number");
  EXPECT_CONTAINS(refusal([](auto& j) { j["sources"][0]["weight"] = -1; }), "has weight -1");
  EXPECT_CONTAINS(refusal([](auto& j) { j["sources"][0]["name"] = "books"; }), "two sources");
  EXPECT_CONTAINS(refusal([](auto& j) { j["sources"] = ordered_json::array(); }), "no source");
}

TEST(ManifestTest, FilesStayInsideTheStore) {
  for (const char* file :
       {"/etc/passwd.tok", "../a.tok", "train/../a.tok", "train/../../a.tok", "train/.tok", "a.tok",
        "train/a.bin", "train/", "train/x/a.tok", "./train/a.tok", "train//a.tok",
        "train/..\\a.tok", "train/a\n.tok", "validation/a.tok", "train/.hidden.tok"}) {
    EXPECT_CONTAINS(refusal([&](auto& j) { j["shards"][0]["file"] = file; }),
                    "its file is not train/NAME.tok");
  }
}

TEST(ManifestTest, CountsThatAreNotSumsAreRefused) {
  EXPECT_CONTAINS(refusal([](auto& j) { j["counts"]["stream"]["train"]["tokens"] = 51; }),
                  "counts by stream");
  EXPECT_CONTAINS(refusal([](auto& j) { j["counts"]["language"].erase("de"); }),
                  "counts by language");
  EXPECT_CONTAINS(refusal([](auto& j) { j["counts"]["source"]["books"] = 0; }), "counts by source");
  EXPECT_CONTAINS(refusal([](auto& j) { j["shards"][0]["tokens"] = 31; }), "counts by stream");
  EXPECT_CONTAINS(refusal([](auto& j) { j["counts"]["stream"]["more"] = 1; }), "counts by stream");
}

TEST(ManifestTest, ReadsAFolder) {
  const TempFolder folder;
  EXPECT_CONTAINS(data_error([&] { read_manifest(folder.at(".")); }), "it has no manifest.json");
  folder.write("manifest.json", encode_manifest(sample()));
  EXPECT_EQ(read_manifest(folder.at(".")).shards.size(), 3U);
}

}  // namespace
}  // namespace espalier
