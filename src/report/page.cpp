// SPDX-License-Identifier: Apache-2.0
// The frame of the page: header, headline numbers, notes, tables, samples, deck.
#include "report/page.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "core/units.hpp"
#include "report/page_assets.hpp"
#include "report/plots.hpp"
#include "report/text.hpp"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestText = 100'000;  // of one sample or the deck, bytes

/// Escaped; what is beyond the limit is cut off and the cut is told.
std::string shown(const std::string& text) {
  if (text.size() <= kLongestText) return escape_html(text);
  return escape_html(text.substr(0, kLongestText)) +
         fmt::format("\n[cut here: {} more bytes are in the file]", text.size() - kLongestText);
}

std::string run_name(const RunData& data) {
  const auto path = std::filesystem::absolute(data.directory).lexically_normal();
  const auto name = path.filename().empty() ? path.parent_path().filename() : path.filename();
  return name.string();
}

std::string card(const std::string& name, const std::string& value, const std::string& unit,
                 const std::string& more) {
  return fmt::format(
      "<div><dt>{}</dt><dd><div class=\"value\">{}{}</div><div "
      "class=\"more\">{}</div></dd></div>\n",
      escape_html(name), escape_html(value),
      unit.empty() ? "" : "<small>" + escape_html(unit) + "</small>", escape_html(more));
}

std::string loss_text(const std::optional<double>& x) {
  return x ? fmt::format("{:.4f}", *x) : "–";
}

/// How far below (or above) the bigram model, for people: both are losses in nats.
std::string against_bigram(const Headline& h, double loss) {
  if (!h.bigram_nats) return "";
  const double d = *h.bigram_nats - loss;
  return fmt::format("{:.3f} {} bigram", std::abs(d), d >= 0 ? "below" : "above");
}

std::string memory_card(const Headline& h) {
  const std::string peak = format_bytes(static_cast<double>(*h.peak_memory_bytes));
  const size_t blank = peak.find(' ');
  std::string more = "no prediction recorded";
  if (h.predicted_memory_bytes) {
    const auto predicted = static_cast<double>(*h.predicted_memory_bytes);
    more = fmt::format("predicted {} ({:+.1f} %)", format_bytes(predicted),
                       100 * (static_cast<double>(*h.peak_memory_bytes) / predicted - 1));
  }
  return card("Peak memory", peak.substr(0, blank), peak.substr(blank + 1), more);
}

/// "987", "12 345", "1.23 M"
std::string rate_text(double rate) {
  if (rate >= 999'999.5) return format_count(rate);
  std::string digits = fmt::format("{:.0f}", rate);
  if (digits.size() > 4) digits.insert(digits.size() - 3, "\u202f");  // narrow no-break space
  return digits;
}

std::string cards(const Headline& h) {
  std::string out = "<dl class=\"cards\">\n";
  out += card("Training loss", loss_text(h.training_loss), "",
              h.training_loss_smoothed ? "smoothed " + loss_text(h.training_loss_smoothed) : "");
  if (h.validation_loss) {
    out += card("Validation loss", loss_text(h.validation_loss), "",
                against_bigram(h, *h.validation_loss));
  }
  if (h.best_validation_loss)
    out += card("Best validation", loss_text(h.best_validation_loss), "",
                fmt::format("at step {}", h.best_validation_step));
  if (h.bigram_nats)
    out += card("Bigram model", loss_text(h.bigram_nats), "",
                h.unigram_nats ? "unigram " + loss_text(h.unigram_nats) : "");
  if (h.tokens_per_second) {
    out += card("Throughput", rate_text(*h.tokens_per_second), "tokens/s", "median");
  }
  if (h.mfu) out += card("MFU", fmt::format("{:.1f}", 100 * *h.mfu), "%", "median");
  if (h.peak_memory_bytes) out += memory_card(h);
  if (h.effective_time_ratio)
    out += card("Effective time", fmt::format("{:.1f}", 100 * *h.effective_time_ratio), "%",
                "of all attempts");
  if (h.checkpoints.count > 0)
    out += card("Checkpoints", fmt::format("{}", h.checkpoints.count), "",
                fmt::format("stall {}", format_duration(h.checkpoints.stall_seconds)));
  return out + "</dl>\n";
}

std::string notes(const RunData& data, const Headline& h) {
  const ReadingNotes& n = data.notes;
  std::string out;
  const auto note = [&](const std::string& text) { out += "<li>" + escape_html(text) + "</li>\n"; };
  if (n.truncated_last_line)
    note(
        "1 truncated line at the end of metrics.jsonl was skipped: the run was killed, or is "
        "still writing.");
  if (n.broken_lines == 1)
    note(fmt::format("1 line of metrics.jsonl is not a record and was skipped; it is line {}.",
                     n.first_broken_line));
  else if (n.broken_lines > 1)
    note(fmt::format(
        "{} lines of metrics.jsonl are not records and were skipped; the first is line {}.",
        n.broken_lines, n.first_broken_line));
  if (n.unknown_kinds > 0)
    note(fmt::format("{} records are of a kind that this version does not know.", n.unknown_kinds));
  if (!n.resumed_at.empty())
    note(
        fmt::format("The run was resumed at step {}; {} steps were done again, and the later "
                    "records are shown.",
                    fmt::join(n.resumed_at, ", "), n.superseded_steps));
  else if (n.superseded_steps > 0)
    note(fmt::format("{} steps were done again from the start; the later records are shown.",
                     n.superseded_steps));
  if (h.loss_not_finite > 0)
    note(fmt::format("The loss is not finite at {} of {} steps.", h.loss_not_finite,
                     data.steps.size()));
  if (h.skipped_steps > 0)
    note(fmt::format("{} steps were skipped because a gradient overflowed (fp16).",
                     h.skipped_steps));
  for (const auto& fault : data.side_file_faults) note(fault);
  return out.empty() ? ""
                     : "<ul class=\"notes\" aria-label=\"notes on this run\">\n" + out + "</ul>\n";
}

/// A field of the run record as one line of text; empty if absent or without meaning.
std::string field(const Json& run, const char* key) {
  if (!run.contains(key)) return "";
  const Json& v = run[key];
  if (v.is_string()) return v.get<std::string>();
  if (v.is_number_integer()) return std::to_string(v.get<int64_t>());
  if (v.is_number()) return v.get<double>() == 0 ? "" : fmt::format("{:.4g}", v.get<double>());
  std::string out;
  for (const auto& [name, value] : v.items()) {
    if (!out.empty()) out += v.is_object() ? " × " : ", ";
    const std::string text = value.is_string()
                                 ? value.get<std::string>()
                                 : value.dump(-1, ' ', false, Json::error_handler_t::replace);
    out += v.is_object() ? name + " " + text : text;
  }
  return out;
}

std::string with_unit(const std::string& text, const char* unit) {
  return text.empty() ? text : text + " " + unit;
}

std::string run_table(const RunData& data, const Headline& h) {
  const Json& run = data.run;
  std::string out;
  const auto row = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", name, shown(value));
  };
  const auto count = [&](const char* key) {
    return run.contains(key) && run[key].is_number() && run[key].get<double>() > 0
               ? format_count(run[key].get<double>())
               : std::string();
  };
  row("Folder", data.directory);
  row("Started", field(run, "started"));
  row("Steps", h.total_steps > 0 ? fmt::format("{} of {}", h.steps, h.total_steps)
                                 : std::to_string(h.steps));
  row("Ended", h.state);
  if (data.end.is_object() && data.end.contains("total_seconds") &&
      data.end["total_seconds"].is_number())
    row("Time in all", format_duration(data.end["total_seconds"].get<double>()));
  row("Deck", field(run, "deck_path"));
  row("Ranks", field(run, "ranks"));
  row("Grid", field(run, "grid"));
  row("Hosts", field(run, "hosts"));
  row("Build", field(run, "build"));
  row("Parameters", count("parameters"));
  row("Compute type", field(run, "compute_type"));
  row("GEMM library", field(run, "gemm_library"));
  row("GEMM kernel", field(run, "gemm_kernel"));
  row("GEMM rate", with_unit(field(run, "gemm_gflops"), "GFLOP/s a rank, measured at start"));
  row("Peak for MFU", with_unit(field(run, "peak_gflops"), "GFLOP/s a rank"));
  row("Model flop", with_unit(count("flops_per_token"), "a token"));
  row("Tokens a step", field(run, "tokens_per_step"));
  const Series seconds = data.column("step_seconds");
  row("Step time", with_unit(fmt::format("{:.4g}", median(seconds)), "s, median"));
  row("Step time, predicted", with_unit(field(run, "predicted_step_seconds"), "s"));
  return "<div class=\"box\"><table>\n" + out + "</table></div>\n";
}

std::string memory_table(const RunData& data, const Headline& h) {
  if (!data.run.contains("predicted_memory") || !data.run["predicted_memory"].is_object())
    return "";
  std::string out;
  const auto row = [&](const char* cls, const std::string& name, double bytes) {
    out += fmt::format("<tr{}><th scope=\"row\">{}</th><td class=\"number\">{}</td></tr>\n", cls,
                       escape_html(name), format_bytes(bytes));
  };
  for (const auto& [name, bytes] : data.run["predicted_memory"].items())
    if (bytes.is_number()) row("", name, bytes.get<double>());
  if (h.predicted_memory_bytes)
    row(" class=\"sum\"", "predicted", static_cast<double>(*h.predicted_memory_bytes));
  if (h.peak_memory_bytes)
    row(" class=\"sum\"", "measured peak", static_cast<double>(*h.peak_memory_bytes));
  return "<div class=\"box\"><table aria-label=\"memory of the rank with most\">\n" + out +
         "</table></div>\n";
}

std::string samples(const RunData& data) {
  if (data.samples.empty()) return "";
  std::string out = "<section aria-labelledby=\"samples\"><h2 id=\"samples\">Samples</h2>\n";
  for (const Sample& s : data.samples) {
    out += "<div class=\"box sample\">";
    if (!s.title.empty()) out += "<h3>" + shown(s.title) + "</h3>";
    out += "<pre>" + shown(s.text) + "</pre></div>\n";
  }
  return out + "</section>\n";
}

std::string deck(const RunData& data) {
  if (!data.deck) return "";
  return "<details class=\"box\"><summary>Deck (deck.toml)</summary><pre>" + shown(*data.deck) +
         "</pre></details>\n";
}

}  // namespace

std::string report_page(const RunData& data, const Headline& h) {
  const std::string name = escape_html(run_name(data));
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n";
  out += "<title>" + name + " – Espalier report</title>\n<style>" + kPageStyle +
         "</style>\n</head>\n<body>\n";
  out += fmt::format(
      "<header>{}<div><h1>{}</h1><p>Training run, {} of {} steps "
      "<span class=\"badge\">{}</span></p></div></header>\n<main>\n",
      kPageLogo, name, h.steps, h.total_steps > 0 ? std::to_string(h.total_steps) : "?",
      escape_html(h.state));
  out += cards(h) + notes(data, h);
  out +=
      "<section aria-labelledby=\"curves\"><h2 id=\"curves\">Curves</h2>\n"
      "<noscript><p class=\"notes\">The plots need JavaScript, which is part of this page; allow "
      "it for this file.</p></noscript>\n<div class=\"plots\" id=\"plots\"></div></section>\n";
  out += "<section aria-labelledby=\"run\"><h2 id=\"run\">Run</h2>\n<div class=\"two\">\n" +
         run_table(data, h) + memory_table(data, h) + "</div>\n" + deck(data) + "</section>\n";
  out += samples(data);
  out +=
      "</main>\n<footer>Written by espalier report. Every number is defined in "
      "docs/metrics.md. Losses are in nats per token.</footer>\n";
  out += "<script type=\"application/json\" id=\"plot-data\">" + script_json(plots_of(data)) +
         "</script>\n<script>" + kPageScriptBegin + kPageScriptPlot + kPageScriptEnd +
         "</script>\n</body>\n</html>\n";
  return out;
}

}  // namespace espalier
