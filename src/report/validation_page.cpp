// SPDX-License-Identifier: Apache-2.0
#include "report/validation_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/units.hpp"
#include "report/page_assets.hpp"
#include "report/text.hpp"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kColumns[] = {"layout",   "ranks",        "d loss",       "d norm",
                                    "d update", "worst tensor", "MB sent/step", "ms exposed/step",
                                    "memory",   "step",         "verdict"};

std::string difference_text(double x) {
  return x == 0.0 ? "0" : std::isfinite(x) ? fmt::format("{:.1e}", x) : "inf";
}

// "dp 1.24, tp 0.31" of the axes that communicated.
template <class Number>
std::string by_axis(const ValidationRow& row, double unit, Number number) {
  std::vector<std::string> parts;
  for (const auto& [axis, traffic] : row.traffic)
    if (traffic.bytes > 0 || traffic.exposed_seconds > 0)
      parts.push_back(fmt::format("{} {:.3g}", axis, number(traffic) / unit));
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, ", "));
}

// The cells of a row in the order of kColumns.
std::vector<std::string> cells(const ValidationRow& row, const std::string& verdict) {
  std::vector<std::string> out = {row.layout, std::to_string(row.ranks)};
  if (row.difference) {
    const LayoutDifference& d = *row.difference;
    out.push_back(difference_text(d.loss));
    out.push_back(difference_text(d.gradient_norm));
    out.push_back(difference_text(d.update));
    out.push_back(d.worst_tensor.empty()
                      ? "-"
                      : fmt::format("{} {}", d.worst_tensor, difference_text(d.worst_update)));
  } else {
    out.insert(out.end(), 4, "-");
  }
  const bool ran = row.step_seconds > 0.0;
  out.push_back(by_axis(row, 1e6, [](const AxisTraffic& t) { return t.bytes; }));
  out.push_back(by_axis(row, 1e-3, [](const AxisTraffic& t) { return t.exposed_seconds; }));
  out.push_back(ran ? format_bytes(static_cast<double>(row.peak_memory_bytes)) : "-");
  out.push_back(ran ? format_duration(row.step_seconds) : "-");
  out.push_back(verdict);
  return out;
}

std::vector<std::vector<std::string>> all_cells(const ValidationTable& table) {
  std::vector<std::vector<std::string>> lines = {cells(table.reference, "reference")};
  for (const ValidationRow& row : table.rows)
    lines.push_back(cells(row, row.passed ? "pass" : "FAIL"));
  return lines;
}

std::string limits_text(const ValidationTable& table) {
  if (table.limits.every_bit) return "every bit must be the same (numerics.reproducible = true)";
  return fmt::format(
      "allowed: loss {:.2g}, gradient norm {:.2g}, update {:.2g}, of one tensor {:.2g} ({})",
      table.limits.loss, table.limits.gradient_norm, table.limits.update,
      table.limits.tensor_update, table.compute_type);
}

std::string summary(const ValidationTable& table) {
  const auto all = static_cast<int64_t>(table.rows.size());
  const int64_t bad = table.failures();
  return fmt::format("{} of {} layouts {}", bad == 0 ? all : bad, all, bad == 0 ? "pass" : "FAIL");
}

// JSON has no word for what is not finite.
Json number(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

Json row_json(const ValidationRow& row) {
  Json traffic = Json::object();
  for (const auto& [axis, t] : row.traffic)
    traffic[axis] = {{"bytes", number(t.bytes)}, {"exposed_seconds", number(t.exposed_seconds)}};
  Json out = {{"layout", row.layout},
              {"ranks", row.ranks},
              {"passed", row.passed},
              {"reason", row.reason},
              {"exit_code", row.exit_code},
              {"run_seconds", number(row.run_seconds)},
              {"step_seconds", number(row.step_seconds)},
              {"peak_memory_bytes", row.peak_memory_bytes},
              {"communication", traffic},
              {"folder", row.folder},
              {"log", row.log},
              {"difference", nullptr}};
  if (row.difference) {
    const LayoutDifference& d = *row.difference;
    out["difference"] = {{"loss", number(d.loss)},
                         {"gradient_norm", number(d.gradient_norm)},
                         {"update", number(d.update)},
                         {"worst_tensor", d.worst_tensor},
                         {"worst_update", number(d.worst_update)},
                         {"worst_quiet_update", number(d.worst_quiet_update)},
                         {"unequal_elements", d.unequal_elements},
                         {"unequal_tokens", d.unequal_tokens}};
  }
  return out;
}

constexpr const char* kTableStyle = R"css(
.wide { overflow-x: auto; }
.wide th { width: auto; white-space: nowrap; font-weight: 600; }
.wide td, .wide th { padding-right: 16px; overflow-wrap: normal; }
.wide td.number { white-space: nowrap; padding-right: 16px; }
td.pass { color: var(--accent); font-weight: 600; }
td.FAIL { color: var(--mark); font-weight: 700; }
)css";

std::string table_html(const ValidationTable& table) {
  std::string out = "<div class=\"box wide\"><table aria-label=\"layouts\">\n<tr>";
  for (const char* column : kColumns) out += fmt::format("<th scope=\"col\">{}</th>", column);
  out += "</tr>\n";
  for (const auto& line : all_cells(table)) {
    out += "<tr>";
    for (size_t i = 0; i < line.size(); ++i) {
      const bool is_verdict = i + 1 == line.size();
      const std::string kind = is_verdict ? line[i] : i >= 1 && i <= 4 ? "number" : "text";
      out += fmt::format("<td class=\"{}\">{}</td>", kind, escape_html(line[i]));
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string failures_html(const ValidationTable& table) {
  std::string out;
  for (const ValidationRow& row : table.rows)
    if (!row.passed)
      out += fmt::format("<div class=\"box sample\"><h3>{}, log: {}</h3><pre>{}</pre></div>\n",
                         escape_html(row.layout), escape_html(row.log), escape_html(row.reason));
  return out.empty() ? ""
                     : "<section aria-labelledby=\"failures\"><h2 id=\"failures\">Failures</h2>\n" +
                           out + "</section>\n";
}

}  // namespace

int64_t ValidationTable::failures() const {
  return std::count_if(rows.begin(), rows.end(),
                       [](const ValidationRow& row) { return !row.passed; });
}

std::string validation_text(const ValidationTable& table) {
  std::vector<std::vector<std::string>> lines = all_cells(table);
  lines.insert(lines.begin(), {std::begin(kColumns), std::end(kColumns)});
  std::vector<size_t> widths(lines[0].size(), 0);
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string out;
  for (const auto& line : lines) {
    for (size_t i = 0; i + 1 < line.size(); ++i) {
      const bool is_number = i >= 1 && i <= 4;
      out += is_number ? fmt::format("{:>{}}  ", line[i], widths[i])
                       : fmt::format("{:<{}}  ", line[i], widths[i]);
    }
    out += line.back() + "\n";
  }
  for (const ValidationRow& row : table.rows) {
    if (row.passed) continue;
    std::string reason = row.reason;
    for (size_t at = 0; (at = reason.find('\n', at)) != std::string::npos; at += 5)
      reason.insert(at + 1, "    ");
    out += fmt::format("FAIL {}: {}\n    log: {}\n", row.layout, reason, row.log);
  }
  return out + fmt::format("{}; {}", summary(table), limits_text(table));
}

std::string validation_json(const ValidationTable& table) {
  Json rows = Json::array();
  for (const ValidationRow& row : table.rows) rows.push_back(row_json(row));
  const Json out = {{"format", "espalier validation"},
                    {"format_version", 1},
                    {"deck", table.deck},
                    {"launcher", table.launcher},
                    {"started", table.started},
                    {"compute_type", table.compute_type},
                    {"steps", table.steps},
                    {"every_bit", table.limits.every_bit},
                    {"limits",
                     {{"loss", table.limits.loss},
                      {"gradient_norm", table.limits.gradient_norm},
                      {"update", table.limits.update},
                      {"tensor_update", table.limits.tensor_update}}},
                    {"failures", table.failures()},
                    {"reference", row_json(table.reference)},
                    {"layouts", rows}};
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string validation_page(const ValidationTable& table) {
  const std::string deck = escape_html(table.deck);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'\">\n";
  out +=
      fmt::format("<title>{} – Espalier validation</title>\n<style>{}{}</style>\n</head>\n<body>\n",
                  deck, kPageStyle, kTableStyle);
  out += fmt::format(
      "<header>{}<div><h1>{}</h1><p>Layouts against one rank, {} steps "
      "<span class=\"badge\">{}</span></p></div></header>\n<main>\n",
      kPageLogo, deck, table.steps, escape_html(summary(table)));
  out +=
      fmt::format("<section aria-labelledby=\"table\"><h2 id=\"table\">Layouts</h2>\n<p>{}</p>\n",
                  escape_html(limits_text(table)));
  out += table_html(table) + "</section>\n" + failures_html(table);
  out += fmt::format(
      "</main>\n<footer>Written by espalier validate, started {} by {}. Every number is defined in "
      "docs/validate.md.</footer>\n</body>\n</html>\n",
      escape_html(table.started), escape_html(table.launcher));
  return out;
}

}  // namespace espalier
