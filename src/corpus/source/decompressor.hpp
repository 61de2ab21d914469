// SPDX-License-Identifier: Apache-2.0
// Gzip and zstd as streams: bytes of a file in, bytes of text out, damage found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace espalier {

enum class Compression { none, gzip, zstd };
const char* compression_name(Compression compression);  ///< "gzip"

/// Enough of a file's beginning to know its compression.
constexpr size_t kCompressionMagicBytes = 4;
/// By the first bytes of a file. zstd may begin with a skippable frame.
Compression find_compression(const unsigned char* data, size_t size);

/// One compressed file, step by step. Files of several members (frames) are one text.
class Decompressor {
 public:
  enum class Step { more, between };  // between: this member is whole, another one may follow
  struct Buffers {
    const unsigned char* in;  // moved past what was used
    size_t in_bytes;
    char* out;
    size_t out_bytes;
  };

  virtual ~Decompressor() = default;
  /// Works until the input is used, the output is full or a member ends.
  /// An empty text means well; else it is what is wrong with the data.
  virtual std::string run(Buffers& buffers, Step& step) = 0;
  /// Makes ready for the next member, which begins with this byte; false if it cannot.
  virtual bool start_member(unsigned char first) = 0;
};

/// gzip or zstd. zstd windows are limited to 128 MiB, what zstd -d allows without --long.
std::unique_ptr<Decompressor> make_decompressor(Compression compression);

}  // namespace espalier
