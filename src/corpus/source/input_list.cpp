// SPDX-License-Identifier: Apache-2.0
// The files behind the paths of a source, examined before any is read.
#include "corpus/source/input_list.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "core/error.hpp"
#include "corpus/source/path_pattern.hpp"
#include "corpus/token_header.hpp"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSniffedBytes = 16;

// What else is often met, and that is no text.
struct Foreign {
  const char* magic;
  const char* what;
  bool may_be_page = false;  // HTML may begin so
};
constexpr Foreign kForeign[] = {
    {"BZh91AY&SY", "bzip2 data; compress the text with gzip or zstd"},
    {"\xFD"
     "7zXZ",
     "xz data; compress the text with gzip or zstd"},
    {"\x04\x22\x4D\x18", "lz4 data; compress the text with gzip or zstd"},
    {"PK\x03\x04", "a zip archive; unpack it and name the folder"},
    {"PAR1\x15", "a Parquet file; write its text column as JSON Lines"},
    {"%PDF-", "a PDF; extract its text first"},
    {"\xFF\xFE", "UTF-16 (byte order mark FF FE); convert it: iconv -f UTF-16 -t UTF-8", true},
    {"\xFE\xFF", "UTF-16 (byte order mark FE FF); convert it: iconv -f UTF-16 -t UTF-8", true},
    {"SQLite format 3", "an SQLite database; write its text as JSON Lines"},
};

struct FileDescriptor {
  explicit FileDescriptor(int opened) : number(opened) {}
  ~FileDescriptor() {
    if (number >= 0) ::close(number);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int number;
};

bool starts_with(const unsigned char* data, size_t size, const void* magic, size_t bytes) {
  return size >= bytes && std::memcmp(data, magic, bytes) == 0;
}

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

SourceFormat format_by_name(const fs::path& path) {
  fs::path name = lower_case(path.filename().string());
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  const std::string ending = name.extension().string();
  if (ending == ".jsonl" || ending == ".ndjson" || ending == ".json") return SourceFormat::jsonl;
  if (ending == ".html" || ending == ".htm") return SourceFormat::html;
  return SourceFormat::text;
}

// A store is whole when its manifest is there, and always has its tokenizer beside it.
bool is_store(const fs::path& folder) {
  std::error_code code;
  return fs::is_regular_file(folder / "manifest.json", code) &&
         fs::is_directory(folder / "tokenizer", code);
}

class InputLister {
 public:
  explicit InputLister(const SourceConfig& source) : source_(source) {}

  std::vector<InputFile> run() {
    for (const std::string& path : source_.paths) add_named(path);
    if (source_.paths.empty()) faults_.push_back("has no paths; name files, folders or globs");
    if (!faults_.empty()) {
      throw DataError(fmt::format("source {}: the inputs cannot be read:{}", source_.name,
                                  list_faults(faults_)));
    }
    return std::move(files_);
  }

 private:
  void fail(const std::string& path, const std::string& what) {
    faults_.push_back(fmt::format("{}: {}", path, what));
  }

  void add_named(const std::string& path) {
    try {
      std::error_code code;
      // A file may have the characters of a pattern in its very name.
      if (is_pattern(path) && !fs::exists(path, code)) {
        const std::vector<std::string> found = match_pattern(path);
        if (found.empty()) fail(path, "matches no file; check the pattern");
        for (const std::string& each : found) add(each);
      } else {
        add(path);
      }
    } catch (const fs::filesystem_error& error) {
      fail(error.path1().string(),
           fmt::format("cannot be searched: {}; check your rights to it", error.code().message()));
    }
  }

  void add(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      const int code = errno;
      struct stat link {};
      const bool is_link = ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
      fail(path, is_link          ? "is a link that leads nowhere; mend or remove it"
                 : code == ENOENT ? std::string("does not exist; check the path")
                                  : fmt::format("cannot be examined: {}; check your rights to it",
                                                std::strerror(code)));
    } else if (S_ISDIR(status.st_mode)) {
      const size_t before = files_.size() + faults_.size() + repeated_;
      add_folder(path);
      if (files_.size() + faults_.size() + repeated_ == before) {
        fail(path, "is a folder without a file (hidden ones do not count); check the path");
      }
    } else if (!S_ISREG(status.st_mode)) {
      fail(path,
           "is a pipe, socket or device, which cannot be read twice or in parts; write its text "
           "into a file");
    } else {
      add_file(path, status.st_size);
    }
  }

  // Hidden names are left out. A folder that links lead to again is walked once.
  void add_folder(const fs::path& folder) {
    if (!folders_.insert(fs::canonical(folder).string()).second) {
      ++repeated_;
      return;
    }
    if (is_store(folder)) {
      fail(folder.string(), "is a token store, not text; name the text it was made from");
      return;
    }
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name[0] != '.') names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      const fs::path path = folder / name;
      std::error_code code;
      if (fs::is_directory(path, code)) {
        add_folder(path);
      } else {
        add(path.string());
      }
    }
  }

  void add_file(const std::string& path, int64_t bytes) {
    if (!seen_.insert(fs::canonical(path).string()).second) {
      ++repeated_;
      return;
    }
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    unsigned char head[kSniffedBytes];
    const ssize_t got = file.number < 0 ? -1 : ::pread(file.number, head, sizeof head, 0);
    if (got < 0) {
      fail(path, fmt::format("cannot be read: {}; check your rights to it", std::strerror(errno)));
      return;
    }
    const auto size = static_cast<size_t>(got);
    if (starts_with(head, size, kTokenMagic.data(), kTokenMagic.size())) {
      fail(path, "is a token file, not text; name the text it was made from");
      return;
    }
    const SourceFormat format =
        source_.format == SourceFormat::automatic ? format_by_name(path) : source_.format;
    for (const Foreign& foreign : kForeign) {
      if (format == SourceFormat::html && foreign.may_be_page) continue;
      if (starts_with(head, size, foreign.magic, std::strlen(foreign.magic))) {
        fail(path, fmt::format("is {}", foreign.what));
        return;
      }
    }
    files_.push_back({path, bytes, find_compression(head, size), format});
  }

  const SourceConfig& source_;
  std::vector<InputFile> files_;
  std::vector<std::string> faults_;
  std::set<std::string> seen_, folders_;  // without links
  size_t repeated_ = 0;
};

}  // namespace

std::vector<InputFile> list_inputs(const SourceConfig& source) {
  return InputLister(source).run();
}

}  // namespace espalier
