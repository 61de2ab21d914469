// SPDX-License-Identifier: Apache-2.0
// The page: whole, balanced, alone in the world, small, and unmoved by hostile text.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <vector>

#include "core/error.hpp"
#include "report/plots.hpp"
#include "report/report.hpp"
#include "report/text.hpp"
#include "run_folder.hpp"

namespace espalier {
namespace {

class Page : public RunFolder {
 protected:
  std::string page() const {
    write_report(directory_);
    return read("report.html");
  }
};

/// The first fault in the nesting of elements, or "". Script and style are skipped as a browser
/// skips them: up to their first end tag.
std::string nesting_fault(const std::string& html) {
  const std::set<std::string> empty = {"meta", "path", "!DOCTYPE"};
  std::vector<std::string> open;
  for (size_t at = 0; (at = html.find('<', at)) != std::string::npos;) {
    const size_t end = html.find('>', at);
    if (end == std::string::npos) return "a tag does not end";
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /\n", tag[0] == '/' ? 1 : 0));
    at = end + 1;
    if (name[0] == '/') {
      if (open.empty() || "/" + open.back() != name) return "unexpected <" + tag + ">";
      open.pop_back();
    } else if (empty.count(name) == 0) {
      open.push_back(name);
      if (name == "script" || name == "style") at = html.find("</" + name, at);
      if (at == std::string::npos) return name + " does not end";
    }
  }
  return open.empty() ? "" : open.back() + " is left open";
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
  return n;
}

nlohmann::json plot_data(const std::string& html) {
  const std::string start = "<script type=\"application/json\" id=\"plot-data\">";
  const size_t at = html.find(start) + start.size();
  return nlohmann::json::parse(html.substr(at, html.find("</script>", at) - at));
}

const nlohmann::json* plot_named(const nlohmann::json& data, const std::string& title) {
  for (const auto& plot : data["plots"])
    if (plot["title"] == title) return &plot;
  return nullptr;
}

TEST_F(Page, NestingFaultsAreSeen) {
  EXPECT_EQ(nesting_fault("<p><b>x</b></p>"), "");
  EXPECT_EQ(nesting_fault("<p><b>x</p></b>"), "unexpected </p>");
  EXPECT_EQ(nesting_fault("<div><p></p>"), "div is left open");
  EXPECT_EQ(nesting_fault("<script>\"</script>\"</script>"), "unexpected </script>");
}

TEST_F(Page, HoldsEverythingAndNothingFromOutside) {
  add_line({{"kind", "run"},
            {"total_steps", 30},
            {"ranks", 2},
            {"hosts", {"node1", "node2"}},
            {"grid", {{"pp", 1}, {"dp", 2}}},
            {"predicted_memory", {{"activations", 1048576}}},
            {"predicted_memory_bytes", 1048576}});
  for (int64_t s = 1; s <= 30; ++s) add_step(s, 5.0 / static_cast<double>(s));
  add_validation(30, 0.3);
  add("baseline.json", R"({"unigram_nats": 3.25, "bigram_nats": 2.125})");
  add("samples.txt", "Once upon a time");
  add("deck.toml", "[run]\nsteps = 30\n");
  const std::string html = page();
  EXPECT_EQ(nesting_fault(html), "");
  EXPECT_EQ(html.rfind("<!DOCTYPE html>", 0), 0u);
  for (const char* reference : {"http:", "https:", "src=", "href=", "url(", "@import", "//cdn"})
    EXPECT_EQ(count(html, reference), 0u) << reference;
  EXPECT_EQ(count(html, "default-src 'none'"), 1u);
  for (const char* text : {"Once upon a time", "steps = 30", "node1, node2", "dp 2 × pp 1",
                           "prefers-color-scheme: dark", "@media print", "2.1250", "unigram 3.2500",
                           "1.825 below bigram", "activations"})
    EXPECT_NE(html.find(text), std::string::npos) << text;
  EXPECT_EQ(count(html, "class=\"notes\""), 1u);  // only the one for browsers without script

  const auto data = plot_data(html);
  for (const char* title :
       {"Loss", "Gradient norm", "Learning rate", "Throughput", "Model FLOP utilisation",
        "Time by part", "Data wait", "Exposed communication", "Pipeline stages", "Pipeline bubble",
        "Memory"})
    EXPECT_NE(plot_named(data, title), nullptr) << title;
  EXPECT_EQ((*plot_named(data, "Loss"))["levels"][0]["value"], 2.125);
  EXPECT_EQ((*plot_named(data, "Loss"))["points"]["values"][0], 0.3);
  EXPECT_EQ((*plot_named(data, "Time by part"))["series"][0]["detail"], "75.0 %");
  EXPECT_EQ((*plot_named(data, "Exposed communication"))["series"][0]["mean"][0], 5.0);  // percent
  EXPECT_EQ((*plot_named(data, "Data wait"))["series"][0]["mean"][0], 1.0);
  EXPECT_EQ((*plot_named(data, "Pipeline stages"))["series"][1]["name"], "stage 1");
  EXPECT_EQ((*plot_named(data, "Pipeline stages"))["series"][1]["mean"][0], 1.5);
  EXPECT_EQ((*plot_named(data, "Pipeline bubble"))["series"][0]["mean"][0], 25.0);
}

TEST_F(Page, HostileTextStaysText) {
  const std::string evil = "</script><script>alert(1)</script><img src=x onerror='a\"b'>&amp;";
  add_line({{"kind", "run"},
            {"deck_path", evil},
            {"hosts", {evil}},
            {"grid", {{evil, 1}}},
            {"build", evil},
            {"predicted_memory", {{evil, 5}}}});
  add_line({{"kind", "step"},
            {"step", 1},
            {"loss", 1.0},
            {"step_seconds", 1.0},
            {"seconds_by_part", {{evil, 1.0}}},
            {"communication", {{evil, {{"exposed_seconds", 0.5}}}}}});
  add_line({{"kind", "end"}, {"reason", evil}});
  add("samples.json", nlohmann::json{{{"prompt", evil}, {"text", evil}}}.dump());
  add("samples.txt", std::string("\xff\xfe \x00 \x1b[31m", 9) + evil);
  add("deck.toml", "# " + evil);
  const std::string html = page();
  EXPECT_EQ(nesting_fault(html), "");
  EXPECT_EQ(count(html, "<script"), 2u);
  EXPECT_EQ(count(html, "</script"), 2u);
  EXPECT_EQ(count(html, "<img"), 0u);
  EXPECT_EQ(count(html, std::string(1, '\0')), 0u);
  EXPECT_EQ(count(html, "\x1b"), 0u);
  EXPECT_EQ(count(html, "\xff"), 0u);
  EXPECT_GE(count(html, "&lt;img src=x onerror=&#39;a&quot;b&#39;&gt;&amp;amp;"), 8u);
  const auto data = plot_data(html);
  EXPECT_EQ((*plot_named(data, "Time by part"))["series"][0]["name"], evil);
  EXPECT_EQ((*plot_named(data, "Exposed communication"))["series"][0]["name"], evil);
}

TEST_F(Page, NotesTellWhatWasSkipped) {
  add_step(1, 4.0);
  add("metrics.jsonl", "rubbish\n");
  add_line({{"kind", "run"}});
  add_step(2, std::nan(""));
  add("metrics.jsonl", "{\"kind\":\"step\",\"st");
  const std::string html = page();
  EXPECT_NE(html.find("1 truncated line at the end"), std::string::npos);
  EXPECT_NE(html.find("1 line of metrics.jsonl is not a record and was skipped; it is line 2."),
            std::string::npos);
  EXPECT_NE(html.find("The run was resumed at step 2"), std::string::npos);
  EXPECT_NE(html.find("The loss is not finite at 1 of 2 steps."), std::string::npos);
  EXPECT_EQ((*plot_named(plot_data(html), "Loss"))["marks"]["steps"][0], 2);
}

TEST_F(Page, OneStep) {
  add_step(1, 4.0);
  const auto data = plot_data(page());
  EXPECT_EQ(data["x"]["last"].size(), 1u);
  EXPECT_FALSE((*plot_named(data, "Loss"))["series"][0].contains("min"));
}

TEST_F(Page, LongRunsStaySmall) {
  std::string lines;
  for (int64_t s = 1; s <= 100000; ++s) {
    const double loss = s == 54321 ? 99.0 : 2.0 + 1.0 / static_cast<double>(s);
    lines += fmt::format(
        R"({{"kind":"step","step":{},"loss":{},"gradient_norm":{},"learning_rate":{},"step_seconds":0.51,)"
        R"("tokens_per_second":{},"consumed_tokens":{},"seconds_by_part":{{"matmul":0.4,"loss":0.1}}}})"
        "\n",
        s, loss, 0.3 + 1e-7 * static_cast<double>(s), 1e-3 / static_cast<double>(s),
        1e4 + static_cast<double>(s % 17), s * 4096);
  }
  add("metrics.jsonl", lines);
  const std::string html = page();
  EXPECT_LT(html.size(), 500'000u);
  const auto data = plot_data(html);
  EXPECT_EQ(data["x"]["last"].size(), kMostPoints);
  EXPECT_EQ(data["x"]["last"].back(), 100000);
  const auto& raw = (*plot_named(data, "Loss"))["series"][0];
  EXPECT_EQ(raw["max"][543], 99.0);  // the one outlier still shows
  EXPECT_EQ((*plot_named(data, "Time by part"))["x"]["last"].size(), kMostAreas);
}

TEST_F(Page, OutputPlaces) {
  add_step(1, 4.0);
  const ReportResult here = write_report(directory_, directory_ + "/other.html");
  EXPECT_EQ(here.path, directory_ + "/other.html");
  EXPECT_TRUE(std::filesystem::exists(here.path));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/report.html"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/other.html.part"));
  EXPECT_THROW(write_report(directory_, directory_ + "/no/such/folder.html"), DataError);
  if (std::filesystem::exists("/dev/full")) {
    EXPECT_THROW(write_report(directory_, "/dev/full"), DataError);
    EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  }
}

TEST_F(Page, TextIsMadeSafe) {
  EXPECT_EQ(escape_html("a<b>&\"'\tc\nd"), "a&lt;b&gt;&amp;&quot;&#39;\tc\nd");
  EXPECT_EQ(clean_text(std::string("\x01x\xc3\x28\x7f", 5)),
            "\xEF\xBF\xBDx\xEF\xBF\xBD(\xEF\xBF\xBD");
  EXPECT_EQ(script_json({{"</script>", "<!--&"}}),
            "{\"\\u003c/script\\u003e\":\"\\u003c!--\\u0026\"}");
}

}  // namespace
}  // namespace espalier
