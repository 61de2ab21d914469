// SPDX-License-Identifier: Apache-2.0
// Drawing the sample and writing it down.
#include "commands/corpus_bench_text.hpp"

#include <libxml/HTMLparser.h>
#include <libxml/parserInternals.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "corpus/build/text_sample.hpp"

namespace espalier {

const char* const kBenchSeparator = "<<<<- next document ->>>>";

namespace {

constexpr size_t kBlock = size_t{1} << 18;  // as the readers take it

SourceConfig plain_source(const std::string& name, const std::string& path) {
  SourceConfig source;
  source.name = name;
  source.paths = {path};
  source.format = SourceFormat::text;
  source.documents = DocumentCut::separator;
  source.separator = kBenchSeparator;
  return source;
}

void append_document(const std::string& document, std::string& file) {
  file += document;
  if (file.back() != '\n') file += '\n';
  file += kBenchSeparator;
  file += '\n';
}

std::string json_line(const std::string& document) {
  return nlohmann::json{{"text", document}}.dump(-1, ' ', false,
                                                 nlohmann::json::error_handler_t::replace) +
         "\n";
}

// Not flushed: these are read again at once, and a flush a document would take long.
std::string write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (!file) fail_file(path, "be written", errno);
  return path;
}

// Each document as a file, in folders of their own, so that no listing is long.
void write_files(const BenchText& text, const std::string& folder, const char* suffix,
                 std::string (*form)(const std::string&)) {
  int64_t number = 0;
  text.for_each([&](const std::string& document) {
    const std::string place = fmt::format("{}/{:04}", folder, number / 1000);
    std::filesystem::create_directories(place);
    write_file(fmt::format("{}/{:06}{}", place, number, suffix), form(document));
    ++number;
  });
}

}  // namespace

std::string html_page(const std::string& document) {
  std::string page = "<!DOCTYPE html><html><head><meta charset=\"utf-8\"></head><body>\n<p>";
  for (const char c : document) {
    switch (c) {
      case '&': page += "&amp;"; break;
      case '<': page += "&lt;"; break;
      case '>': page += "&gt;"; break;
      case '\n': page += "</p>\n<p>"; break;
      default: page += c;
    }
  }
  return page + "</p>\n</body></html>\n";
}

BenchText draw_bench_text(const CorpusConfig& config, double mib) {
  BenchText text;
  double weights = 0.0;
  for (const SourceConfig& source : config.sources) weights += source.weight;
  for (const SourceConfig& source : config.sources) {
    if (source.weight <= 0.0) continue;
    CorpusConfig one = config;
    one.sources = {source};
    one.clean = {};
    one.build.held_out = 0.0;
    one.train_tokenizer.sample_mib = mib * source.weight / weights;
    std::vector<std::string> documents;
    const SampleSize size =
        draw_sample(one, [&](std::string&& document) { documents.push_back(std::move(document)); });
    if (documents.empty()) continue;
    text.bytes += size.bytes;
    text.count += size.documents;
    text.sources.push_back(source);
    text.documents.push_back(std::move(documents));
  }
  if (text.count == 0)
    throw DataError(
        fmt::format("{}: its sources have no text; name files with some", config.deck_path));
  return text;
}

std::vector<BenchInput> write_bench_inputs(const BenchText& text, const std::string& folder) {
  std::string plain, lines;
  text.for_each([&](const std::string& document) {
    append_document(document, plain);
    lines += json_line(document);
  });
  const auto put = [&](const std::string& name, const std::string& bytes) {
    return write_file(folder + "/" + name, bytes);
  };
  const std::string path = put("all.txt", plain);
  std::vector<BenchInput> inputs;
  inputs.push_back({"text between separators", plain_source("separators", path), "read(2)"});
  inputs.push_back({"text, a document a line", plain_source("lines", path), "read(2)"});
  inputs.back().source.documents = DocumentCut::line;
  inputs.push_back({"text, documents of 64 KiB", plain_source("sizes", path), "read(2)"});
  inputs.back().source.documents = DocumentCut::size;
  inputs.back().source.document_bytes = int64_t{1} << 16;
  inputs.push_back({"text, a file each", plain_source("files", folder + "/files"), "read(2)"});
  inputs.back().source.documents = DocumentCut::file;
  write_files(text, folder + "/files", ".txt", [](const std::string& t) { return t; });
  inputs.push_back({"JSON Lines", plain_source("jsonl", put("all.jsonl", lines)), "read(2)"});
  inputs.back().source.format = SourceFormat::jsonl;
  inputs.push_back({"HTML, a file each", plain_source("html", folder + "/pages"), "libxml2 alone"});
  inputs.back().source.format = SourceFormat::html;
  write_files(text, folder + "/pages", ".html", html_page);
  inputs.push_back({"text between separators, gzip",
                    plain_source("gzip", put("all.txt.gz", gzip_bytes(plain))), "zlib alone"});
  inputs.push_back({"text between separators, zstd",
                    plain_source("zstd", put("all.txt.zst", zstd_bytes(plain))), "zstd alone"});
  return inputs;
}

std::vector<SourceConfig> write_build_inputs(const BenchText& text, const std::string& folder,
                                             int64_t bytes, int64_t& written) {
  const int64_t rounds = std::max<int64_t>(1, (bytes + text.bytes - 1) / text.bytes);
  std::vector<SourceConfig> sources;
  for (size_t s = 0; s < text.sources.size(); ++s) {
    std::string once;
    for (const std::string& document : text.documents[s]) append_document(document, once);
    std::string file;
    for (int64_t round = 0; round < rounds; ++round) file += once;
    const std::string path = fmt::format("{}/source-{}.txt", folder, s);
    write_file(path, file);
    SourceConfig source = plain_source(text.sources[s].name, path);
    source.language = text.sources[s].language;
    source.weight = text.sources[s].weight;
    sources.push_back(std::move(source));
  }
  written = rounds * text.bytes;
  return sources;
}

std::string gzip_bytes(const std::string& bytes) {
  z_stream stream{};
  // 16 + window bits: gzip framing.
  ESPALIER_REQUIRE(::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8,
                                  Z_DEFAULT_STRATEGY) == Z_OK,
                   "zlib does not start");
  ESPALIER_REQUIRE(bytes.size() <= UINT_MAX / 2, "{} bytes to compress at once", bytes.size());
  std::string out(::deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int code = ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  ESPALIER_REQUIRE(code == Z_STREAM_END, "zlib stops with {}", code);
  return out;
}

std::string zstd_bytes(const std::string& bytes) {
  std::string out(::ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ::ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3);
  ESPALIER_REQUIRE(::ZSTD_isError(size) == 0, "zstd: {}", ::ZSTD_getErrorName(size));
  out.resize(size);
  return out;
}

int64_t gunzip_alone(const std::string& bytes) {
  z_stream stream{};
  ESPALIER_REQUIRE(::inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK, "zlib does not start");
  std::string out(kBlock, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  int code = Z_OK;
  while (code == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    code = ::inflate(&stream, Z_NO_FLUSH);
  }
  const auto size = static_cast<int64_t>(stream.total_out);
  ::inflateEnd(&stream);
  ESPALIER_REQUIRE(code == Z_STREAM_END, "zlib stops with {}", code);
  return size;
}

int64_t unzstd_alone(const std::string& bytes) {
  ZSTD_DStream* stream = ::ZSTD_createDStream();
  std::string out(kBlock, '\0');
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  int64_t size = 0;
  size_t code = 1;
  while (code != 0 && ::ZSTD_isError(code) == 0) {
    ZSTD_outBuffer to = {out.data(), out.size(), 0};
    code = ::ZSTD_decompressStream(stream, &to, &in);
    size += static_cast<int64_t>(to.pos);
  }
  ::ZSTD_freeDStream(stream);
  ESPALIER_REQUIRE(code == 0, "zstd: {}", ::ZSTD_getErrorName(code));
  return size;
}

int64_t parse_alone(const std::vector<std::string>& pages) {
  int64_t characters = 0;
  for (const std::string& page : pages) {
    htmlParserCtxtPtr parser =
        ::htmlCreateMemoryParserCtxt(page.data(), static_cast<int>(page.size()));
    if (parser == nullptr) throw std::bad_alloc();
    xmlSAXHandler handler{};
    handler.characters = [](void* sum, const xmlChar*, int size) {
      *static_cast<int64_t*>(sum) += size;
    };
    handler.initialized = 1;
    *parser->sax = handler;
    parser->userData = &characters;
    ::htmlCtxtUseOptions(parser, HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING | HTML_PARSE_NONET |
                                     HTML_PARSE_NODEFDTD | HTML_PARSE_IGNORE_ENC);
    ::xmlSwitchEncoding(parser, XML_CHAR_ENCODING_UTF8);
    ::htmlParseDocument(parser);
    ::htmlFreeParserCtxt(parser);
  }
  return characters;
}

}  // namespace espalier
