// SPDX-License-Identifier: Apache-2.0
// Every kind of fault: counted, placed by file and line, skipped or fatal as the deck says.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "source_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::first_place;
using testing::gzip;
using testing::random_text;
using testing::read_source;
using testing::ReadRequest;
using testing::ReadResult;
using testing::TempFolder;
using testing::text_source;
using testing::zstd;
using Texts = std::vector<std::string>;

SourceConfig jsonl_source(const std::string& path, const std::string& field = "text") {
  SourceConfig source = text_source(path, DocumentCut::file);
  source.format = SourceFormat::jsonl;
  source.field = field;
  return source;
}

TEST(Faults, BrokenTextFourWays) {
  const TempFolder folder;
  const std::string path = folder.write("a",
                                        "good\nba\xFF\xFE"
                                        "d\nfine \xE6\x97\xA5\n");
  const SourceConfig source = text_source(path, DocumentCut::line);
  const auto read = [&](OnBrokenText choice) {
    ReadRequest request;
    request.faults.broken_utf8 = choice;
    return read_source(source, request);
  };
  const std::string place =
      path + ":2 2 broken sequences, the first with 0xFF at byte 2 of the document";
  const ReadResult kept = read(OnBrokenText::keep), replaced = read(OnBrokenText::replace),
                   skipped = read(OnBrokenText::skip);
  EXPECT_EQ(kept.texts, (Texts{"good",
                               "ba\xFF\xFE"
                               "d",
                               "fine \xE6\x97\xA5"}));
  EXPECT_EQ(replaced.texts, (Texts{"good",
                                   "ba\xEF\xBF\xBD\xEF\xBF\xBD"
                                   "d",
                                   "fine \xE6\x97\xA5"}));
  EXPECT_EQ(skipped.texts, (Texts{"good", "fine \xE6\x97\xA5"}));
  for (const ReadResult* each : {&kept, &replaced, &skipped}) {
    EXPECT_EQ(each->faults.count(FaultKind::broken_utf8), 1);
    EXPECT_EQ(first_place(each->faults, FaultKind::broken_utf8), place);
  }
  const std::string fatal = data_error([&] { read(OnBrokenText::fatal); });
  EXPECT_CONTAINS(fatal, path + ":2: broken_utf8: 2 broken sequences");
  EXPECT_CONTAINS(fatal, "set faults.broken_utf8 = \"replace\"");
}

TEST(Faults, TheLineIsThatOfTheBrokenByte) {
  const TempFolder folder;
  const std::string path = folder.write("a", "one\ntwo\nthree \xC3\nfour\n");
  const ReadResult result = read_source(text_source(path, DocumentCut::file));
  EXPECT_EQ(result.faults.places(FaultKind::broken_utf8)[0].line, 3);
}

TEST(Faults, JsonLines) {
  const TempFolder folder;
  const std::string path =
      folder.write("a.jsonl",
                   "\xEF\xBB\xBF{\"text\": \"one\"}\r\n"
                   "{\"text\": \"open\n"
                   "[\"text\"]\n"
                   "{\"test\": \"two\"}\n"
                   "{\"text\": 3}\n"
                   "\n"
                   "{\"text\": \" \"}\n"
                   "{\"text\": \"a\"} trailing\n"
                   "{\"n\": [1, {\"text\": \"no\"}], \"text\": \"\\u00e9\\n\\\"\"}");
  const ReadResult result = read_source(jsonl_source(path));
  EXPECT_EQ(result.texts, (Texts{"one", "\xC3\xA9\n\""}));
  EXPECT_EQ(result.lines, (std::vector<int64_t>{1, 9}));
  EXPECT_EQ(result.faults.count(FaultKind::bad_json), 3);
  EXPECT_EQ(first_place(result.faults, FaultKind::bad_json).find(path + ":2 no JSON: "), 0u);
  EXPECT_EQ(result.faults.places(FaultKind::bad_json)[1].line, 3);
  EXPECT_EQ(result.faults.places(FaultKind::bad_json)[1].what,
            "a JSON array; write one object a line");
  EXPECT_EQ(result.faults.places(FaultKind::bad_json)[2].line, 8);
  EXPECT_EQ(result.faults.count(FaultKind::missing_field), 2);
  EXPECT_EQ(first_place(result.faults, FaultKind::missing_field),
            path + ":4 there is no field text");
  EXPECT_EQ(result.faults.places(FaultKind::missing_field)[1].what, "the field text is no string");
  EXPECT_EQ(result.faults.count(FaultKind::empty_document), 2);
  EXPECT_EQ(first_place(result.faults, FaultKind::empty_document), path + ":6 is an empty line");
  ReadRequest request;
  request.faults.bad_line = OnFault::fatal;
  EXPECT_CONTAINS(data_error([&] { read_source(jsonl_source(path), request); }),
                  path + ":2: bad_json: no JSON");
}

TEST(Faults, NumbersOutsideOfTheFieldDoNotMatter) {
  const TempFolder folder;
  const std::string path =
      folder.write("a.jsonl",
                   "{\"id\": 123456789012345678901234567890, \"text\": \"one 1e999 \\\" -2\"}\n"
                   "{\"text\": \"two\", \"n\": [1e999, -0.5E+3, {\"m\": 99999999999999999999}]}\n"
                   "{\"n\": 123456789012345678901234567890, \"text\": \"\xFF \\ud800 three\"}\n"
                   "{\"text\": 123456789012345678901234567890}\n"
                   "[{\"text\": \"array\"}]\n");
  const ReadResult result = read_source(jsonl_source(path));
  EXPECT_EQ(result.texts, (Texts{"one 1e999 \" -2", "two", "\xEF\xBF\xBD \xEF\xBF\xBD three"}));
  EXPECT_EQ(result.faults.count(FaultKind::missing_field), 1);
  EXPECT_EQ(first_place(result.faults, FaultKind::bad_json),
            path + ":5 a JSON array; write one object a line");
}

TEST(Faults, FieldsByPointer) {
  const TempFolder folder;
  const std::string path = folder.write(
      "a.jsonl", "{\"a\": {\"b/c\": [1, \"deep\"]}}\n{\"a\": {}}\n{\"a\": 1}\n{\"b/c\": \"x\"}\n");
  const ReadResult result = read_source(jsonl_source(path, "/a/b~1c/1"));
  EXPECT_EQ(result.texts, Texts{"deep"});
  EXPECT_EQ(result.faults.count(FaultKind::missing_field), 3);
  EXPECT_EQ(read_source(jsonl_source(path, "b/c")).texts, Texts{"x"});
}

// Half a surrogate pair is no character, by itself or as bytes.
TEST(Faults, BrokenCharactersInJson) {
  const TempFolder folder;
  const std::string path = folder.write("a.jsonl",
                                        "{\"text\": \"\\ud83d\\ude00 fine\"}\n"
                                        "{\"text\": \"\\ud83d high\"}\n"
                                        "{\"text\": \"low \\uDE00\"}\n"
                                        "{\"text\": \"\\ud83d\\u0041 \\\\ud83d\"}\n"
                                        "{\"text\": \"byte \xFF\"}\n"
                                        "{\"text\": \"both \xFF \\ud800\"}\n"
                                        "{\"text\": \"bad escape \\x\"}\n"
                                        "{\"text\": \"\xFF open}\n");
  const auto read = [&](OnBrokenText choice) {
    ReadRequest request;
    request.faults.broken_utf8 = choice;
    return read_source(jsonl_source(path), request);
  };
  const std::string r = "\xEF\xBF\xBD";
  const ReadResult replaced = read(OnBrokenText::replace);
  EXPECT_EQ(replaced.texts, (Texts{"\xF0\x9F\x98\x80 fine", r + " high", "low " + r,
                                   r + "A \\ud83d", "byte " + r, "both " + r + " " + r}));
  EXPECT_EQ(replaced.faults.count(FaultKind::broken_utf8), 5);
  EXPECT_EQ(replaced.faults.count(FaultKind::bad_json), 2);
  EXPECT_EQ(first_place(replaced.faults, FaultKind::broken_utf8),
            path + ":2 1 broken sequence, in the line");
  EXPECT_EQ(read(OnBrokenText::keep).texts, replaced.texts);
  EXPECT_EQ(read(OnBrokenText::skip).texts, Texts{"\xF0\x9F\x98\x80 fine"});
  EXPECT_CONTAINS(data_error([&] { read(OnBrokenText::fatal); }), path + ":2: broken_utf8");
}

TEST(Faults, LongLinesAndDocuments) {
  const TempFolder folder;
  const std::string huge = random_text(1, 3000000), fits(1000, 'x'), above(1001, 'x');
  ReadRequest request;
  request.longest = 1000;
  const std::string lines =
      folder.write("a", huge + "\n" + fits + "\r\n" + above + "\nshort\n" + huge);
  const ReadResult by_line = read_source(text_source(lines, DocumentCut::line), request);
  EXPECT_EQ(by_line.texts, (Texts{fits, "short"}));
  EXPECT_EQ(by_line.lines, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(by_line.faults.count(FaultKind::long_document), 3);
  EXPECT_EQ(first_place(by_line.faults, FaultKind::long_document),
            lines + ":1 has more than 1000 bytes, the limit for a line or document");
  const ReadResult separated =
      read_source(text_source(lines, DocumentCut::separator, "short"), request);
  EXPECT_EQ(separated.texts, Texts{});
  EXPECT_EQ(separated.faults.count(FaultKind::long_document), 2);
  EXPECT_EQ(separated.faults.places(FaultKind::long_document)[1].line, 5);
  const ReadResult file = read_source(text_source(lines, DocumentCut::file), request);
  EXPECT_EQ(file.faults.count(FaultKind::long_document), 1);
  const std::string json = folder.write("b", "{\"text\":\"" + huge + "\"}\n{\"text\":\"a\"}\n");
  const ReadResult by_json = read_source(jsonl_source(json), request);
  EXPECT_EQ(by_json.texts, Texts{"a"});
  EXPECT_EQ(by_json.faults.count(FaultKind::long_document), 1);
  request.faults.long_document = OnFault::fatal;
  EXPECT_CONTAINS(data_error([&] { read_source(jsonl_source(json), request); }),
                  json + ":1: long_document: has more than 1000 bytes");
}

TEST(Faults, EmptyFilesAndDocuments) {
  const TempFolder folder;
  folder.write("a", "");
  folder.write("b", gzip(""));
  folder.write("c", "\n \n");
  folder.write("d", "\xEF\xBB\xBF");
  folder.write("e", zstd("text"));
  for (const DocumentCut cut :
       {DocumentCut::file, DocumentCut::line, DocumentCut::separator, DocumentCut::size}) {
    const ReadResult result = read_source(text_source(folder.at(""), cut, "%", 64));
    EXPECT_EQ(result.texts, Texts{"text"});
    EXPECT_EQ(
        result.faults.count(FaultKind::empty_file) + result.faults.count(FaultKind::empty_document),
        cut == DocumentCut::line ? 5 : 4);
    EXPECT_EQ(first_place(result.faults, FaultKind::empty_file), folder.at("a") + ":0 has no text");
  }
}

// A cut document is not taken for a whole one; whole ones before the damage are kept.
TEST(Faults, DamagedFiles) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 60000; ++i) text += fmt::format("line {}\n%\n", random_bits(1, 2, i));
  ReadRequest request;
  request.faults.damaged_file = OnFault::skip;
  for (const std::string& whole : {gzip(text), zstd(text)}) {
    const std::string path = folder.write("cut", whole.substr(0, whole.size() / 2));
    for (const DocumentCut cut : {DocumentCut::line, DocumentCut::separator, DocumentCut::size}) {
      const SourceConfig source = text_source(path, cut, "%", 100);
      const ReadResult result = read_source(source, request);
      ASSERT_GT(result.texts.size(), 1000u);
      EXPECT_EQ(result.faults.count(FaultKind::damaged_file), 1);
      std::string all;
      for (const std::string& each : result.texts) {
        all += each;
        if (cut == DocumentCut::line) all += '\n';
        if (cut == DocumentCut::separator) all += "%\n";
      }
      EXPECT_TRUE(all == text.substr(0, all.size())) << "only whole lines and documents";
      EXPECT_EQ(all.back(), '\n');
      const FaultPlace& place = result.faults.places(FaultKind::damaged_file)[0];
      EXPECT_EQ(place.path, path);
      EXPECT_GE(place.line, std::count(all.begin(), all.end(), '\n'));
      EXPECT_CONTAINS(place.what, fmt::format("truncated at byte {}", whole.size() / 2));
      EXPECT_CONTAINS(data_error([&] { read_source(source); }), "damaged_file = \"skip\"");
    }
    const ReadResult file = read_source(text_source(path, DocumentCut::file),
                                        {int64_t{1} << 40, int64_t{1} << 30, request.faults});
    EXPECT_TRUE(file.texts.empty());
    EXPECT_CONTAINS(first_place(file.faults, FaultKind::damaged_file), "the unfinished document");
  }
}

// The lines before a part are counted only for places that are shown, and then rightly.
TEST(Faults, LinesInsideOfFiles) {
  const TempFolder folder;
  std::string text;
  for (int i = 1; i <= 2000; ++i) text += i % 500 == 0 ? "\xFF\n" : fmt::format("line {}\n", i);
  const std::string path = folder.write("a", text);
  for (const DocumentCut cut : {DocumentCut::line, DocumentCut::separator, DocumentCut::size}) {
    ReadRequest request;
    request.piece_bytes = 1000;
    request.faults.examples = 3;
    const ReadResult result = read_source(text_source(path, cut, "line 700", 100), request);
    EXPECT_EQ(result.faults.count(FaultKind::broken_utf8), cut == DocumentCut::separator ? 2 : 4);
    const auto& places = result.faults.places(FaultKind::broken_utf8);
    for (size_t i = 0; i < places.size(); ++i) {
      EXPECT_EQ(places[i].line, 500 * (static_cast<int64_t>(i) + 1)) << i;
    }
  }
}

TEST(Faults, FilesThatChangeAreNotRead) {
  const TempFolder folder;
  const SourceConfig source = text_source(folder.write("a", "text\n"), DocumentCut::line);
  const auto files = list_inputs(source);
  const auto pieces = cut_pieces(source, 0, files, 100);
  folder.write("a", "other text\n");
  InputFaults noted;
  const FaultConfig faults;
  DocumentStream stream(source, files, pieces[0], faults, 100, noted);
  Document document;
  EXPECT_CONTAINS(data_error([&] { stream.next(document); }), "has changed since it was listed");
}

TEST(Faults, AppendAndJson) {
  InputFaults first(2), second(2);
  first.note(FaultKind::bad_json, {"a", 1, "x"});
  second.note(FaultKind::bad_json, {"b", 2, "y"});
  second.note(FaultKind::bad_json, {"b", 3, "z"}, 5);
  second.note(FaultKind::empty_file, {"c", 0, "w"});
  first.append(second);
  EXPECT_EQ(first.count(FaultKind::bad_json), 7);
  ASSERT_EQ(first.places(FaultKind::bad_json).size(), 2u);
  EXPECT_EQ(first.places(FaultKind::bad_json)[1].path, "b");
  EXPECT_EQ(first.count(FaultKind::empty_file), 1);
  const InputFaults back = InputFaults::from_json(first.to_json(), 2);
  EXPECT_EQ(back.to_json(), first.to_json());
  EXPECT_EQ(InputFaults::from_json(first.to_json(), 1).places(FaultKind::bad_json).size(), 1u);
  for (const char* bad : {"{}", "[]", "{\"broken_utf8\": {\"count\": -1, \"places\": []}}"}) {
    EXPECT_CONTAINS(data_error([&] { InputFaults::from_json(nlohmann::json::parse(bad), 2); }),
                    "record of input faults");
  }
}

}  // namespace
}  // namespace espalier
