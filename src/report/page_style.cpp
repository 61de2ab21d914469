// SPDX-License-Identifier: Apache-2.0
// CSS and logo of the pages. Lines are drawn in the palette of Okabe and Ito, areas in the muted
// one of Tol, both told apart by colour-blind readers; on dark paper they are lightened.
#include "report/page_assets.hpp"

namespace espalier {

const char* const kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --bg: #f6f7f5; --card: #ffffff; --ink: #1b232c; --soft: #5a6572; --rule: #dfe3e6;
  --grid: #e9ecee; --axis: #9aa4ae; --accent: #1f6f4f; --warn-bg: #fdf4e3; --warn: #8a5a00;
  --l0: #0072b2; --l1: #d55e00; --l2: #009e73; --l3: #b5568f; --l4: #b87900; --l5: #56a5d8;
  --level: #4b5560; --mark: #c22f2f;
  --a0: #4a3fa0; --a1: #88ccee; --a2: #44aa99; --a3: #117733; --a4: #999933;
  --a5: #ddcc77; --a6: #cc6677; --a7: #882255; --a8: #c3c8cd; --a9: #aa4499;
}
@media (prefers-color-scheme: dark) {
  :root {
    --bg: #11161b; --card: #191f26; --ink: #e4e9ee; --soft: #9aa6b2; --rule: #2c353f;
    --grid: #252d36; --axis: #55616d; --accent: #6cc79c; --warn-bg: #2d2616; --warn: #e9bd6b;
    --l0: #4db3f0; --l1: #ff8d4d; --l2: #2fcf9f; --l3: #e08cc0; --l4: #f0b63f; --l5: #3f7fae;
    --level: #c3ccd5; --mark: #ff6b6b;
    --a0: #8078e0; --a1: #7cc3e8; --a2: #3fa392; --a3: #3f9a5a; --a4: #a5a540;
    --a5: #d3c06a; --a6: #cf6b7c; --a7: #a8487c; --a8: #6b7580; --a9: #c065b2;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--bg); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif;
}
main, header, footer { max-width: 1180px; margin: 0 auto; padding: 0 20px; }
header { display: flex; gap: 14px; align-items: center; padding-top: 26px; padding-bottom: 6px; }
header svg { width: 44px; height: 44px; flex: none; color: var(--accent); }
h1 { font-size: 1.5rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 32px 0 12px; }
header p { margin: 2px 0 0; color: var(--soft); overflow-wrap: anywhere; }
.badge {
  display: inline-block; padding: 0 9px; border-radius: 10px; font-size: .82rem;
  border: 1px solid var(--rule); background: var(--card); color: var(--ink);
}
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(148px, 1fr)); gap: 12px; }
.cards { margin: 16px 0 0; padding: 0; }
.cards > div, figure, .box {
  background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
}
.cards > div { padding: 11px 14px 12px; }
.cards dt { color: var(--soft); font-size: .82rem; }
.cards dd { margin: 0; }
.cards .value { font-size: 1.42rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.cards .value small { font-size: .8rem; font-weight: 400; color: var(--soft); margin-left: 4px; }
.cards .more { color: var(--soft); font-size: .82rem; }
.notes { background: var(--warn-bg); border: 1px solid var(--warn); border-radius: 8px; }
.notes { margin: 16px 0 0; padding: 9px 16px 9px 32px; }
.notes li { overflow-wrap: anywhere; }
.plots { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 14px; }
figure { margin: 0; padding: 12px 14px 8px; position: relative; min-width: 0; }
figure.wide, figure.alone { grid-column: 1 / -1; }
figcaption { display: flex; align-items: baseline; gap: 8px; flex-wrap: wrap; min-height: 26px; }
figcaption strong { font-weight: 600; }
figcaption span { color: var(--soft); font-size: .82rem; }
figcaption .scale { margin-left: auto; display: flex; }
.scale button {
  font: inherit; font-size: .78rem; color: var(--soft); background: none; cursor: pointer;
  border: 1px solid var(--rule); padding: 0 8px; line-height: 1.6;
}
.scale button:first-child { border-radius: 5px 0 0 5px; }
.scale button:last-child { border-radius: 0 5px 5px 0; border-left: 0; }
.scale button[aria-pressed=true] { background: var(--grid); color: var(--ink); }
button:focus-visible, svg:focus-visible, summary:focus-visible {
  outline: 2px solid var(--accent); outline-offset: 1px;
}
.canvas { position: relative; }
.canvas svg { display: block; width: 100%; }
.canvas text { font-size: 11.5px; fill: var(--soft); font-variant-numeric: tabular-nums; }
.canvas .name { fill: var(--level); }
.tip {
  position: absolute; top: 6px; z-index: 2; pointer-events: none; background: var(--card);
  border: 1px solid var(--axis); border-radius: 6px; padding: 6px 9px; font-size: .8rem;
  box-shadow: 0 3px 12px rgb(0 0 0 / .18); white-space: nowrap; line-height: 1.45;
}
.tip[hidden] { display: none; }
.tip b { font-weight: 600; }
.tip div { display: flex; gap: 14px; justify-content: space-between; align-items: center; }
.tip span { color: var(--soft); }
.tip i { font-style: normal; font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: 0 4px; padding: 2px 0 4px; }
.legend button {
  display: inline-flex; align-items: center; gap: 6px; border: 0; background: none; cursor: pointer;
  font: inherit; font-size: .8rem; color: var(--ink); padding: 1px 7px; border-radius: 5px;
  max-width: 100%; overflow-wrap: anywhere; text-align: left;
}
.legend button:hover { background: var(--grid); }
.legend button[aria-pressed=false] { opacity: .4; text-decoration: line-through; }
.legend svg { width: 22px; height: 10px; flex: none; }
.legend small { color: var(--soft); font-size: .95em; }
.box { padding: 4px 16px; margin: 0; }
.two { display: grid; grid-template-columns: 3fr 2fr; gap: 14px; align-items: start; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th, td {
  text-align: left; vertical-align: top; padding: 6px 10px 6px 0; font-weight: 400;
  border-top: 1px solid var(--rule); overflow-wrap: anywhere;
}
tr:first-child > * { border-top: 0; }
th { color: var(--soft); width: 34%; overflow-wrap: normal; }
td.number { text-align: right; padding-right: 0; font-variant-numeric: tabular-nums; }
tr.sum > * { border-top: 1px solid var(--axis); font-weight: 600; color: var(--ink); }
details.box { margin-top: 14px; }
summary { cursor: pointer; font-weight: 600; padding: 8px 0; }
pre {
  font: .82rem/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; margin: 0 0 12px;
  white-space: pre-wrap; overflow-wrap: anywhere;
}
.sample { padding: 10px 16px 0; margin-bottom: 12px; }
.sample h3 { font-size: .85rem; color: var(--soft); margin: 0 0 6px; font-weight: 400; }
.sample h3 { overflow-wrap: anywhere; }
footer { color: var(--soft); font-size: .82rem; padding-top: 22px; padding-bottom: 36px; }
@media (max-width: 860px) { .plots, .two { grid-template-columns: minmax(0, 1fr); } }
@media print {
  :root {
    --bg: #ffffff; --card: #ffffff; --ink: #000000; --soft: #444444; --rule: #cccccc;
    --grid: #e4e4e4; --axis: #888888; --accent: #1f6f4f; --warn-bg: #ffffff; --warn: #8a5a00;
    --l0: #0072b2; --l1: #d55e00; --l2: #009e73; --l3: #b5568f; --l4: #b87900; --l5: #56a5d8;
    --level: #333333; --mark: #c22f2f;
    --a0: #4a3fa0; --a1: #88ccee; --a2: #44aa99; --a3: #117733; --a4: #999933;
    --a5: #ddcc77; --a6: #cc6677; --a7: #882255; --a8: #c3c8cd; --a9: #aa4499;
  }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .scale, .tip { display: none !important; }
  .canvas svg { height: auto; }
  .plots { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  figure, .cards > div, .sample, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
}
)css";

// A trunk with two tiers of branches, tied flat to a frame.
const char* const kPageLogo =
    "<svg viewBox=\"0 0 44 44\" aria-hidden=\"true\" fill=\"none\" stroke=\"currentColor\" "
    "stroke-linecap=\"round\"><path stroke-width=\"1.2\" opacity=\".45\" d=\"M4 5v34M40 5v34M4 "
    "14h36"
    "M4 26h36\"/><path stroke-width=\"3\" d=\"M22 41V7M22 33c0-6-5-7-9-7H8M22 33c0-6 5-7 9-7h5"
    "M22 21c0-6-5-7-9-7H8M22 21c0-6 5-7 9-7h5\"/></svg>";

}  // namespace espalier
