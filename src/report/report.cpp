// SPDX-License-Identifier: Apache-2.0
// Writes the page, aside first and then by name.
#include "report/report.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "report/page.hpp"

namespace espalier {

ReportResult write_report(const std::string& directory, const std::string& output) {
  const RunData data = read_run(directory);
  ReportResult result;
  result.path = output.empty() ? directory + "/report.html" : output;
  result.headline = headline(data);
  const std::string page = report_page(data, result.headline);

  // A device or pipe, say /dev/stdout, is written to and never replaced.
  const std::filesystem::path target(result.path);
  const bool replace = !std::filesystem::exists(target) || std::filesystem::is_regular_file(target);
  const std::string aside = replace ? result.path + ".part" : result.path;
  errno = 0;
  std::ofstream file(aside, std::ios::binary);
  file << page;
  file.close();
  if (!file || (replace && std::rename(aside.c_str(), result.path.c_str()) != 0)) {
    const std::string why = std::strerror(errno);
    if (replace) std::remove(aside.c_str());
    throw DataError(
        fmt::format("{} cannot be written ({}); name another place with --out", result.path, why));
  }
  return result;
}

}  // namespace espalier
