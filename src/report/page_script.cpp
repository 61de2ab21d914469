// SPDX-License-Identifier: Apache-2.0
// JavaScript of the page, first and last part: elements, numbers and ticks; start and redrawing.
// Text enters the page only as text nodes. The namespace of SVG is taken from the logo, so that the
// page names no address.
#include "report/page_assets.hpp"

namespace espalier {

const char* const kPageScriptBegin = R"js(
"use strict";
(function () {
const data = JSON.parse(document.getElementById("plot-data").textContent);
const NS = document.querySelector("header svg").namespaceURI;

function svg(name, attributes, parent) {
  const e = document.createElementNS(NS, name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (parent) parent.appendChild(e);
  return e;
}
function html(name, attributes, parent, text) {
  const e = document.createElement(name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
}

// ---- numbers and ticks
function grouped(n) { return String(n).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f"); }
function shortCount(n) {
  for (const [s, u] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]])
    if (n >= s) return (n / s).toPrecision(3) + "\u202f" + u;
  return String(n);
}
function readable(v) {
  if (v === null || v === undefined) return "\u2013";
  const a = Math.abs(v);
  if (a === 0) return "0";
  if (a < 1e-3 || a >= 1e6) return v.toExponential(2);
  if (a < 1) return v.toPrecision(3);
  return v.toFixed(a >= 1000 ? 0 : a >= 100 ? 1 : 3);
}
function power(v) { return Math.floor(Math.log10(v) + 1e-9); }
function tickText(v, step) {
  if (v === 0) return "0";
  const a = Math.abs(v);
  if (a < 1e-3 - 1e-12 || (step && step < 1e-3 - 1e-12) || a >= 1e6) {
    const digits = step ? Math.max(0, power(a) - power(step)) : 0;
    return v.toExponential(Math.min(digits, 6))
            .replace(/\.0+e/, "e").replace("e+", "e");
  }
  const decimals = Math.max(0, -power(step || a));
  const text = v.toFixed(decimals);
  return a >= 10000 ? grouped(text) : text;
}
function niceStep(span, count) {
  const raw = span / count, unit = Math.pow(10, power(raw));
  for (const f of [1, 2, 5]) if (raw <= f * unit * 1.2) return f * unit;
  return 10 * unit;
}
function linearTicks(low, high, count, whole) {
  let step = niceStep(high - low, count);
  if (whole) step = Math.max(1, step);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    ticks.push([i * step, tickText(i * step, step)]);
  return ticks;
}
function logTicks(low, high, count) {
  const decades = Math.log10(high / low), ticks = [];
  if (decades < 0.7) return linearTicks(low, high, count);
  const factors = decades < 1.6 ? [1, 2, 3, 5] : decades < 3.5 ? [1, 2, 5] : [1];
  const stride = Math.max(1, Math.ceil(decades / count / (factors.length > 1 ? 4 : 1)));
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); ++p)
    for (const f of factors) {
      const v = f * Math.pow(10, p);
      if (v >= low * 0.9999 && v <= high * 1.0001 && (stride === 1 || p % stride === 0))
        ticks.push([v, tickText(v)]);
    }
  return ticks;
}
)js";

const char* const kPageScriptEnd = R"js(
const place = document.getElementById("plots");
let inRow = 0;  // a half plot without a neighbour takes the whole row
data.plots.forEach((p, i) => {
  const next = data.plots[i + 1];
  p.alone = !p.wide && inRow % 2 === 0 && (!next || next.wide);
  inRow = p.wide || p.alone ? 0 : inRow + 1;
});
const redraw = data.plots.map(p => Plot(p, place));
let width = window.innerWidth, waiting = 0;
function all() { redraw.forEach(f => f()); }
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(all);
});
window.addEventListener("beforeprint", all);
window.addEventListener("afterprint", all);
all();  // once more: a scroll bar may have come with the first drawing
})();
)js";

}  // namespace espalier
