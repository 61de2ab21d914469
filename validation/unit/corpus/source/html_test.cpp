// SPDX-License-Identifier: Apache-2.0
// Web pages as text: structure, encodings, what is hostile, and real pages of this machine.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "corpus/source/html_encoding.hpp"
#include "corpus/source/html_text.hpp"
#include "corpus/utf8.hpp"
#include "source_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::first_place;
using testing::read_source;
using testing::ReadRequest;
using testing::ReadResult;
using testing::TempFolder;

std::string text_of(std::string page) {
  std::string text;
  const size_t size = page.size();
  EXPECT_EQ(html_to_text(page, text), size);
  return text;
}

SourceConfig html_source(const std::string& path, const std::string& encoding = "") {
  SourceConfig source;
  source.name = "pages";
  source.paths = {path};
  source.format = SourceFormat::html;
  source.encoding = encoding;
  return source;
}

TEST(Html, BlocksParagraphsAndBlanks) {
  EXPECT_EQ(text_of("<html><head><title> A  page </title><style>p {}</style>"
                    "<script>if (a < b) document.write('<p>no</p>');</script></head>"
                    "<body><h1>Head\n line</h1><p>One <b>bo</b>ld\t word.<p>Two.<div>three</div>"
                    "<div>four</div></body></html>"),
            "A page\n\nHead line\n\nOne bold word.\n\nTwo.\n\nthree\nfour");
  EXPECT_EQ(text_of("a<br>b<br><br>c<br>\n<br/>d"), "a\nb\n\nc\n\nd");
  EXPECT_EQ(text_of("plain &amp; simple"), "plain & simple");
  EXPECT_EQ(text_of("<p>a</p><hr><!-- no --><p>b</p>"), "a\n\nb");
  EXPECT_EQ(text_of("x<ul><li>one<li>two<ul><li>deep</ul><li>three</ul>y"),
            "x\n\none\ntwo\ndeep\nthree\n\ny");
  EXPECT_EQ(text_of("<table><tr><th>a<th>b<tr><td>1</td> <td>2</td></table>z"), "a\tb\n1\t2\n\nz");
  EXPECT_EQ(text_of(" <p> <b> </b> </p> "), "");
}

TEST(Html, PreformattedTextKeepsItsBlanks) {
  EXPECT_EQ(text_of("<p>a</p><pre>\n  x  y\n\n    z <b>w</b>\n</pre><p>b"),
            "a\n\n  x  y\n\n    z w\n\nb");
  EXPECT_EQ(text_of("<pre>one<br>two\n\n\n</pre>"), "one\ntwo");
}

TEST(Html, EntitiesImagesAndRubies) {
  EXPECT_EQ(text_of("&eacute;&#233;&#xE9; &lt;p&gt; &#x1F333; a&nbsp;b"),
            "\xC3\xA9\xC3\xA9\xC3\xA9 <p> \xF0\x9F\x8C\xB3 a\xC2\xA0"
            "b");
  EXPECT_EQ(text_of("see <img src=x alt='a tree'> and <img src=y alt=''><img src=z>no"),
            "see a tree and no");
  EXPECT_EQ(text_of("<ruby>\xE6\xBC\xA2<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>\xE5\xAD\x97"),
            "\xE6\xBC\xA2\xE5\xAD\x97");
}

TEST(Html, WhatReadersDoNotSeeIsLeftOut) {
  EXPECT_EQ(text_of("<head><noscript><style>x</style>no</noscript></head><body>a"
                    "<template><p>no</p></template><noscript>b</noscript><script>no"),
            "a\nb");
  // HTML 5 lets the ends of head and the beginning of body go.
  EXPECT_EQ(text_of("<title>t</title><main>text</main>"), "t\n\ntext");
}

TEST(Html, EncodingsAsDeclared) {
  EXPECT_EQ(declared_encoding("\xEF\xBB\xBF<meta charset=latin1>"), "utf-8");
  EXPECT_EQ(declared_encoding(std::string("\xFF\xFE<\0", 4)), "utf-16le");
  EXPECT_EQ(declared_encoding("<html><META CharSet = 'Shift_JIS'>"), "shift_jis");
  EXPECT_EQ(declared_encoding("<meta http-equiv=\"Content-Type\" content=\"text/html; "
                              "charset=iso-8859-15\">"),
            "iso-8859-15");
  EXPECT_EQ(declared_encoding("<?xml version=\"1.0\" encoding=\"EUC-JP\"?><html>"), "euc-jp");
  EXPECT_EQ(declared_encoding("<!-- <meta charset=koi8-r> --><meta charset=utf-16>"), "utf-8");
  EXPECT_EQ(declared_encoding("<meta name=charset><p>charset=koi8-r"), "");
  EXPECT_TRUE(is_known_encoding("windows-1251"));
  EXPECT_FALSE(is_known_encoding("none-such"));
}

TEST(Html, EncodingsAsRead) {
  const TempFolder folder;
  const auto read = [&](const std::string& page, const std::string& encoding = "") {
    const ReadResult result = read_source(html_source(folder.write("a.html", page), encoding));
    EXPECT_EQ(result.faults.count(FaultKind::broken_utf8), 0);
    return result.texts.at(0);
  };
  const std::string moscow = "\xD0\x9C\xD0\xBE\xD1\x81\xD0\xBA\xD0\xB2\xD0\xB0";
  EXPECT_EQ(read("<meta charset=windows-1251>\xCC\xEE\xF1\xEA\xE2\xE0"), moscow);
  EXPECT_EQ(read("<p>\xED\xCF\xD3\xCB\xD7\xC1", "koi8-r"), moscow);
  EXPECT_EQ(read("<meta charset=utf-8><p>" + moscow, "koi8-r"), moscow);
  EXPECT_EQ(read("\xEF\xBB\xBF<meta charset=koi8-r><p>" + moscow), moscow);
  EXPECT_EQ(read("<meta charset=shift_jis>\x93\xFA\x96\x7B"), "\xE6\x97\xA5\xE6\x9C\xAC");
  EXPECT_EQ(read("<meta charset=gb2312>\xD6\xD0\xCE\xC4"), "\xE4\xB8\xAD\xE6\x96\x87");
  EXPECT_EQ(read("<meta charset=iso-8859-1>\x93quoted\x94"), "\xE2\x80\x9Cquoted\xE2\x80\x9D");
  EXPECT_EQ(read(std::string("\xFE\xFF\0<\0p\0>\x04\x1C\x04\x3E", 12)), "\xD0\x9C\xD0\xBE");
  EXPECT_CONTAINS(data_error([&] { read("x", "none-such"); }),
                  "source pages: encoding = \"none-such\" is not known");
}

TEST(Html, BrokenTextIsCounted) {
  const TempFolder folder;
  const std::string path = folder.write("a.html",
                                        "<p>a\xFF"
                                        "b</p>");
  const ReadResult result = read_source(html_source(path));
  EXPECT_EQ(result.texts.at(0),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(first_place(result.faults, FaultKind::broken_utf8),
            path + ":1 1 broken sequence, read as utf-8");
  folder.write("a.html", "<meta charset=none-such>\xE9t\xE9");
  EXPECT_CONTAINS(first_place(read_source(html_source(path)).faults, FaultKind::broken_utf8),
                  "encoding \"none-such\" is not known");
  ReadRequest request;
  request.faults.broken_utf8 = OnBrokenText::skip;
  folder.write("a.html", "<meta charset=euc-jp>\xA4x\xFF");
  const ReadResult skipped = read_source(html_source(path), request);
  EXPECT_TRUE(skipped.texts.empty());
  EXPECT_EQ(skipped.faults.count(FaultKind::broken_utf8), 1);
}

// Time must grow with the page and not with its square, and nothing may be lost.
TEST(Html, DeepNestingIsSurvived) {
  const auto start = std::chrono::steady_clock::now();
  std::string page, expected;
  for (int i = 0; i < 200000; ++i) page += "<div><span>";
  page += "deep";
  for (int i = 0; i < 200000; ++i) page += "</i></b>";
  EXPECT_EQ(text_of(page + "<p>end"), "deep\n\nend");
  page.clear();
  for (int i = 0; i < 20000; ++i) {
    page += fmt::format("<div a='{}'>{}", i, i);
    expected += fmt::format("{}{}", i == 0 ? "" : "\n", i);
  }
  EXPECT_EQ(text_of(page), expected);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 30.0);
}

TEST(Html, HostilePages) {
  // Neither entities of a page nor files and networks are looked at.
  EXPECT_EQ(text_of("<!DOCTYPE html [<!ENTITY a \"boom\"><!ENTITY b SYSTEM "
                    "\"file:///etc/passwd\">]><p>&a;&b;</p>")
                .find("boom"),
            std::string::npos);
  EXPECT_EQ(text_of(std::string("<p>a\0b</p>c", 11)), "a b\n\nc");
  EXPECT_EQ(text_of("<p title=\"" + std::string(3000000, 'x') + "\">a"), "a");
  EXPECT_EQ(text_of("a<!--" + std::string(12000000, 'x') + "-->b"), "ab");
  const std::string word(12000000, 'w');
  EXPECT_TRUE(text_of("<p>" + word) == word);
  for (const char* page :
       {"<", "</", "<!", "<!--", "<a", "<a b", "<a b='", "&", "&#", "&#x;", "<?", "<script>",
        "<pre>", "</p>", "<![CDATA[x", "&#0;", "&#xD800;", "&#99999999999;"}) {
    std::string copy = page, text;
    EXPECT_LE(html_to_text(copy, text), copy.size());
    EXPECT_EQ(count_broken_utf8(text), 0) << page;
  }
}

TEST(Html, RealPages) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code code;
  for (const char* root : {"/usr/share/debian-reference", "/usr/share/doc"}) {
    for (fs::recursive_directory_iterator at(root, code), end; !code && at != end;
         at.increment(code)) {
      if (at->path().extension() == ".html" && at->is_regular_file()) paths.push_back(at->path());
    }
  }
  if (paths.empty()) GTEST_SKIP() << "no pages in /usr/share/doc";
  const SourceConfig source = html_source(paths[0]);
  SourceConfig all = source;
  all.paths = paths;
  const ReadResult result = read_source(all, {int64_t{1} << 22, int64_t{1} << 25, {}});
  EXPECT_GT(result.texts.size(), paths.size() * 9 / 10);
  size_t bytes = 0;
  for (const std::string& text : result.texts) {
    EXPECT_EQ(count_broken_utf8(text), 0);
    EXPECT_NE(text.front(), ' ');
    bytes += text.size();
  }
  std::printf("%zu pages, %zu bytes of text; %s\n", paths.size(), bytes,
              first_place(result.faults, FaultKind::broken_utf8).c_str());
  EXPECT_EQ(result.faults.count(FaultKind::damaged_file), 0)
      << first_place(result.faults, FaultKind::damaged_file);
}

}  // namespace
}  // namespace espalier
