// SPDX-License-Identifier: Apache-2.0
// Cleaning and deduplication of real text: Debian's reference book, and manual pages of more
// languages, as far as they are installed.
#include <gtest/gtest.h>
#include <unicode/normalizer2.h>
#include <unicode/unistr.h>

#include <cstdio>
#include <map>

#include "corpus/clean/cleaner.hpp"
#include "corpus/source/text_reader.hpp"
#include "corpus/utf8.hpp"
#include "key_files.hpp"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using namespace testing;

constexpr const char* kBook = "/usr/share/debian-reference/debian-reference.";

std::string read_all(const std::string& path) {
  TextReader reader(path);
  std::string all, part(65536, '\0');
  while (const size_t got = reader.read(part.data(), part.size())) all.append(part, 0, got);
  return all;
}

// Text by language: the books, and up to 1 MB of manual pages.
const std::map<std::string, std::string>& texts() {
  static const std::map<std::string, std::string> found = [] {
    std::map<std::string, std::string> made;
    for (const char* tag : {"de", "en", "es", "fr", "id", "it", "ja", "pt", "zh-CN", "zh-TW"}) {
      std::string path = kBook + std::string(tag) + ".txt.gz";
      for (char& c : path) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
      if (fs::exists(path)) made[tag] = read_all(path);
    }
    for (const char* tag : {"ru", "el", "uk", "ko", "sr", "pl", "tr", "vi", "cs"}) {
      std::string text;
      std::vector<std::string> pages;
      std::error_code code;
      for (const auto& e :
           fs::recursive_directory_iterator("/usr/share/man/" + std::string(tag), code)) {
        if (e.is_regular_file() && e.path().extension() == ".gz") pages.push_back(e.path());
      }
      std::sort(pages.begin(), pages.end());
      for (size_t i = 0; i < pages.size() && text.size() < 1000000; ++i) text += read_all(pages[i]);
      if (count_broken_utf8(text) == 0 && text.size() > 10000) made[tag] = text;
    }
    return made;
  }();
  return found;
}

// Paragraphs of some 2,000 bytes.
std::vector<std::string> documents_of(const std::string& text) {
  std::vector<std::string> documents;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', std::min(at + 2000, text.size())), text.size() - 1);
    documents.push_back(text.substr(at, end + 1 - at));
    at = end + 1;
  }
  return documents;
}

TEST(CleanRealText, FiltersKeepWhatIsTextOfTheLanguage) {
  CleanConfig config;
  config.normalise = Normalisation::nfc;
  config.remove_control = true;
  config.min_characters = 10;
  config.max_symbol_ratio = 0.5;
  config.max_repeated_lines = 0.6;
  config.min_script_share = 0.2;
  for (const auto& [tag, text] : texts()) {
    SourceConfig source;
    source.language = tag;
    Cleaner cleaner(config, source);
    CleanCounts counts;
    int64_t kept = 0;
    const std::vector<std::string> documents = documents_of(text);
    for (std::string document : documents) {
      if (!cleaner.clean(document, counts)) continue;
      ++kept;
      EXPECT_EQ(count_broken_utf8(document), 0) << tag;
      const std::string once = document;
      EXPECT_TRUE(cleaner.clean(document, counts)) << tag;
      EXPECT_EQ(document, once) << tag << ": cleaning twice is cleaning once";
    }
    int64_t dropped = 0;
    for (const StepCount& step : counts.steps) dropped += step.dropped;
    EXPECT_EQ(kept + dropped, static_cast<int64_t>(documents.size())) << tag;
    // A book of commands has stretches of English and of tables in every language.
    EXPECT_GT(static_cast<double>(kept), 0.75 * static_cast<double>(documents.size())) << tag;
    std::printf("%-6s %6zu documents, %lld dropped, %lld in another script\n", tag.c_str(),
                documents.size(), static_cast<long long>(dropped),
                static_cast<long long>(counts.of(CleanStep::script_share).dropped));
  }
}

TEST(CleanRealText, OtherScriptsAreTold) {
  CleanConfig config;
  config.min_script_share = 0.2;
  for (const auto& [tag, text] : texts()) {
    SourceConfig source;
    source.language = "hy";
    CleanCounts counts;
    std::string copy = text;
    EXPECT_FALSE(Cleaner(config, source).clean(copy, counts)) << tag;
  }
}

TEST(CleanRealText, DecomposedTextComesBack) {
  CleanConfig config;
  config.normalise = Normalisation::nfc;
  UErrorCode code = U_ZERO_ERROR;
  const icu::Normalizer2* const nfd = icu::Normalizer2::getNFDInstance(code);
  const icu::Normalizer2* const nfc = icu::Normalizer2::getNFCInstance(code);
  for (const auto& [tag, text] : texts()) {
    const icu::UnicodeString wide = icu::UnicodeString::fromUTF8(text);
    std::string apart, together;
    nfd->normalize(wide, code).toUTF8String(apart);
    nfc->normalize(wide, code).toUTF8String(together);
    CleanCounts counts;
    const bool changes = apart != together;
    EXPECT_TRUE(Cleaner(config, {}).clean(apart, counts));
    EXPECT_TRUE(apart == together) << tag;
    EXPECT_EQ(counts.of(CleanStep::normalise).changed, changes ? 1 : 0) << tag;
  }
}

TEST(CleanRealText, CopiesAreFoundInEveryLanguage) {
  const CleanConfig config = dedup_config(Deduplication::near);
  for (const auto& [tag, text] : texts()) {
    Pieces pieces(1, documents_of(text));
    pieces[0].resize(std::min<size_t>(pieces[0].size(), 200));
    const size_t own = dropped_of(config, pieces).size();  // manual pages repeat themselves
    pieces.push_back(pieces[0]);
    for (std::string& document : pieces[1]) document += "42\n";
    const auto dropped = dropped_of(config, pieces);
    size_t copies = 0;
    for (const DroppedDocument& d : dropped) copies += d.id.piece == 1 ? 1u : 0u;
    EXPECT_GE(copies, pieces[1].size() - 1) << tag;
    EXPECT_LE(own, pieces[0].size() / 3) << tag;
  }
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  if (espalier::texts().size() < 10) {
    std::puts(
        "skipped: text in ten languages is not installed; install debian-reference and "
        "manpages-ru, manpages-pl, ...");
    return 77;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
