// SPDX-License-Identifier: Apache-2.0
// Small files for the tests of this room, in a folder that goes away with the test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"
#include "corpus/token_file_writer.hpp"
#include "corpus/tokenizer.hpp"

namespace espalier::testing {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "corpus_test_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string at(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(at(name), std::ios::binary) << bytes;
    return at(name);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// One gzip member.
inline std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// Bytes that follow from the seed alone; `letters` different values from 'a' on.
inline std::string random_text(uint64_t seed, size_t bytes, int letters = 26) {
  std::string text(bytes, ' ');
  for (size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>('a' + random_bits(seed, 7, i) % static_cast<uint64_t>(letters));
  }
  return text;
}

/// Writes documents as the builder does.
inline std::string write_documents(const std::string& path,
                                   const std::vector<std::string>& documents) {
  const ByteTokenizer tokenizer;
  TokenFileWriter writer(path, tokenizer);
  for (const std::string& document : documents) {
    std::vector<int32_t> tokens = tokenizer.encode(document);
    tokens.push_back(tokenizer.end_of_document());
    writer.append(tokens.data(), static_cast<int64_t>(tokens.size()));
  }
  writer.finish();
  writer.publish();
  return path;
}

/// Message of the DataError that `f` throws, or of whatever else happens.
template <class F>
std::string data_error(F&& f) {
  try {
    f();
  } catch (const DataError& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "no exception";
}

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "in: " << (text)

}  // namespace espalier::testing
