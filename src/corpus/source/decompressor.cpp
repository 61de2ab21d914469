// SPDX-License-Identifier: Apache-2.0
// zlib and libzstd behind one interface.
#include "corpus/source/decompressor.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <climits>
#include <new>

#include "core/error.hpp"

namespace espalier {
namespace {

constexpr int kLargestWindowLog = 27;

class GzipDecompressor : public Decompressor {
 public:
  GzipDecompressor() {
    // 16 + window bits: gzip framing, whose checksum zlib compares.
    if (::inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecompressor() override { ::inflateEnd(&stream_); }
  GzipDecompressor(const GzipDecompressor&) = delete;
  GzipDecompressor& operator=(const GzipDecompressor&) = delete;

  std::string run(Buffers& b, Step& step) override {
    const size_t in = std::min<size_t>(b.in_bytes, UINT_MAX);
    const size_t out = std::min<size_t>(b.out_bytes, UINT_MAX);
    stream_.next_in = const_cast<Bytef*>(b.in);
    stream_.avail_in = static_cast<uInt>(in);
    stream_.next_out = reinterpret_cast<Bytef*>(b.out);
    stream_.avail_out = static_cast<uInt>(out);
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    b.in += in - stream_.avail_in;
    b.in_bytes -= in - stream_.avail_in;
    b.out += out - stream_.avail_out;
    b.out_bytes -= out - stream_.avail_out;
    step = code == Z_STREAM_END ? Step::between : Step::more;
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    if (code == Z_OK || code == Z_BUF_ERROR || code == Z_STREAM_END) return {};
    return fmt::format("is damaged ({})", stream_.msg != nullptr ? stream_.msg : "bad stream");
  }

  bool start_member(unsigned char first) override {
    return first == 0x1f && ::inflateReset(&stream_) == Z_OK;
  }

 private:
  z_stream stream_{};
};

class ZstdDecompressor : public Decompressor {
 public:
  ZstdDecompressor() : stream_(::ZSTD_createDStream(), &::ZSTD_freeDStream) {
    if (stream_ == nullptr) throw std::bad_alloc();
    const size_t code =
        ::ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kLargestWindowLog);
    ESPALIER_REQUIRE(::ZSTD_isError(code) == 0, "zstd refuses windows of 2^{} bytes",
                     kLargestWindowLog);
  }

  std::string run(Buffers& b, Step& step) override {
    ZSTD_inBuffer in = {b.in, b.in_bytes, 0};
    ZSTD_outBuffer out = {b.out, b.out_bytes, 0};
    const size_t code = ::ZSTD_decompressStream(stream_.get(), &out, &in);
    b.in += in.pos;
    b.in_bytes -= in.pos;
    b.out += out.pos;
    b.out_bytes -= out.pos;
    step = code == 0 ? Step::between : Step::more;
    if (::ZSTD_isError(code) == 0) return {};
    const ZSTD_ErrorCode error = ::ZSTD_getErrorCode(code);
    if (error == ZSTD_error_memory_allocation) throw std::bad_alloc();
    if (error == ZSTD_error_frameParameter_windowTooLarge) {
      return fmt::format("asks for a window above {} MiB (zstd --long, or damage)",
                         (int64_t{1} << kLargestWindowLog) >> 20);
    }
    return fmt::format("is damaged ({})", ::ZSTD_getErrorName(code));
  }

  // The magic number is checked by the library, which is ready after a whole frame.
  bool start_member(unsigned char first) override {
    return first == 0x28 || (first & 0xF0) == 0x50;
  }

 private:
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
};

}  // namespace

const char* compression_name(Compression compression) {
  switch (compression) {
    case Compression::gzip: return "gzip";
    case Compression::zstd: return "zstd";
    default: return "none";
  }
}

Compression find_compression(const unsigned char* data, size_t size) {
  if (size >= 2 && data[0] == 0x1f && data[1] == 0x8b) return Compression::gzip;
  if (size >= 4 && data[0] == 0x28 && data[1] == 0xB5 && data[2] == 0x2F && data[3] == 0xFD) {
    return Compression::zstd;
  }
  if (size >= 4 && (data[0] & 0xF0) == 0x50 && data[1] == 0x2A && data[2] == 0x4D &&
      data[3] == 0x18) {
    return Compression::zstd;
  }
  return Compression::none;
}

std::unique_ptr<Decompressor> make_decompressor(Compression compression) {
  ESPALIER_REQUIRE(compression != Compression::none, "no compression");
  if (compression == Compression::gzip) return std::make_unique<GzipDecompressor>();
  return std::make_unique<ZstdDecompressor>();
}

}  // namespace espalier
