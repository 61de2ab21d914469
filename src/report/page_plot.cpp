// SPDX-License-Identifier: Apache-2.0
// JavaScript of the page, middle part: one plot with its axes, lines, areas, legend and readout.
#include "report/page_assets.hpp"

namespace espalier {

const char* const kPageScriptPlot = R"js(
// ---- one plot
function Plot(plot, parent) {
  const stacked = !!plot.stack, X = plot.x || data.x;
  const color = s => "var(--" + (stacked ? "a" : "l") + s.color + ")";
  const hidden = new Set();
  let log = plot.log === "on", at = -1, frame = null;
  const points = plot.points || { steps: [], values: [] };

  const shape = plot.wide ? "wide" : plot.alone ? "alone" : "half";
  const figure = html("figure", { class: shape }, parent);
  const caption = html("figcaption", {}, figure);
  html("strong", {}, caption, plot.title);
  html("span", {}, caption, [plot.unit, plot.note].filter(Boolean).join(" \u00b7 "));
  if (plot.log) scaleButtons();
  const canvas = html("div", { class: "canvas" }, figure);
  const picture = svg("svg", { role: "img", tabindex: "0", "aria-label": spoken() }, canvas);
  const tip = html("div", { class: "tip", role: "status", hidden: "" }, canvas);
  legend();

  function scaleButtons() {
    const group = html("span", { class: "scale", role: "group", "aria-label": "vertical axis" },
                       caption);
    const buttons = [["linear", false], ["log", true]].map(([name, value]) => {
      const b = html("button", { type: "button", "aria-pressed": String(log === value) }, group,
                     name);
      b.addEventListener("click", () => {
        log = value;
        buttons.forEach((o, i) => o.setAttribute("aria-pressed", String(log === (i === 1))));
        draw();
      });
      return b;
    });
  }

  function spoken() {
    const s = plot.series.find(p => !p.faint);
    const v = s.mean.map((y, i) => [y, X.last[i]]).filter(p => p[0] !== null);
    let text = plot.title + (plot.unit ? " in " + plot.unit : "") + ". ";
    if (stacked) text += plot.series.map(p => p.name + " " + p.detail).join(", ");
    else if (!v.length) text += "No finite value.";
    else text += [[" from ", v[0]], [" to ", v[v.length - 1]]].reduce(
      (t, [word, p]) => t + word + readable(p[0]) + " at step " + p[1], s.name) + ".";
    return text + " Arrow keys read values.";
  }

  function legend() {
    const entries = plot.series.map(
      s => [s.name, color(s), stacked ? "area" : s.faint ? "faint" : "line", s.detail]);
    if (points.steps.length) entries.push([points.name, "var(--l" + points.color + ")", "points"]);
    for (const l of plot.levels || [])
      entries.push([l.name, "var(--level)", "dash", readable(l.value)]);
    if (plot.marks)
      entries.push([plot.marks.name, "var(--mark)", "mark", String(plot.marks.steps.length)]);
    if (entries.length < 2) return;
    const box = html("div", { class: "legend", role: "group", "aria-label": "shown in the plot" },
                     figure);
    for (const [name, stroke, shape, detail] of entries) {
      const b = html("button", { type: "button", "aria-pressed": "true", title: "show or hide" },
                     box);
      const icon = svg("svg", { viewBox: "0 0 22 10", "aria-hidden": "true" }, b);
      if (shape === "area")
        svg("rect", { x: 4, width: 14, height: 10, rx: 2, fill: stroke }, icon);
      else if (shape === "mark") svg("path", { d: "M11 9L6.5 1.5h9z", fill: stroke }, icon);
      else svg("path", { d: "M0 5H22", stroke, "stroke-width": shape === "faint" ? 1.2 : 2.2,
                         "stroke-dasharray": shape === "dash" ? "5 4" : "none" }, icon);
      if (shape === "points") svg("circle", { cx: 11, cy: 5, r: 3.2, fill: stroke }, icon);
      html("span", {}, b, name);
      if (detail) html("small", {}, b, detail);
      b.addEventListener("click", () => {
        if (!hidden.delete(name)) hidden.add(name);
        b.setAttribute("aria-pressed", String(!hidden.has(name)));
        draw();
      });
    }
  }

  const seen = name => !hidden.has(name);
  function layers() {  // stacked: the upper edge of each part that is shown
    const base = X.last.map(() => 0);
    return plot.series.filter(s => seen(s.name)).map(s => {
      const low = base.slice();
      s.mean.forEach((y, i) => { base[i] += y || 0; });
      return { s, low, high: base.slice() };
    });
  }

  function range(stack) {
    let low = Infinity, high = -Infinity;
    const take = y => {
      if (y === null || y === undefined || (log && !(y > 0))) return;
      low = Math.min(low, y); high = Math.max(high, y);
    };
    if (stacked) stack.forEach(l => l.high.forEach(take));
    else for (const s of plot.series)
      if (seen(s.name)) [s.mean, s.min, s.max].forEach(a => a && a.forEach(take));
    if (points.steps.length && seen(points.name)) points.values.forEach(take);
    for (const l of plot.levels || []) if (seen(l.name)) take(l.value);
    if (low > high) { low = log ? 0.1 : 0; high = 1; }
    if (log) {
      const pad = Math.pow(high / low, 0.04) * (high / low < 1.05 ? 1.1 : 1);
      return [low / pad, high * pad];
    }
    if (plot.zero) low = Math.min(0, low);
    if (high - low < 1e-9 * Math.max(Math.abs(high), 1e-30))
      high = low + (Math.abs(low) * 0.1 || 1);
    const pad = (high - low) * 0.06;
    return [low === 0 && plot.zero ? 0 : low - pad, high + pad];
  }

  function draw() {
    const width = Math.max(280, Math.round(canvas.clientWidth));
    const height = plot.wide ? 330 : 220;
    while (picture.firstChild) picture.removeChild(picture.firstChild);
    picture.setAttribute("viewBox", "0 0 " + width + " " + height);
    picture.setAttribute("height", height);
    const stack = stacked ? layers() : [];
    const [low, high] = range(stack);
    const ticks = log ? logTicks(low, high, 6) : linearTicks(low, high, plot.wide ? 6 : 5);
    const widest = Math.max(2, ...ticks.map(t => t[1].length));
    const left = 14 + 6.8 * widest, right = width - 16, top = 10, bottom = height - 40;
    const first = X.first[0], last = X.last[X.last.length - 1];
    const x0 = first === last ? first - 0.5 : first, x1 = first === last ? last + 0.5 : last;
    const sx = v => left + (v - x0) / (x1 - x0) * (right - left);
    const t = log ? Math.log : v => v;
    const sy = v => bottom - (t(v) - t(low)) / (t(high) - t(low)) * (bottom - top);
    frame = { left, right, top, bottom, sx, sy, stack };

    for (const [v, text] of ticks) {
      const y = sy(v).toFixed(1);
      svg("path", { d: "M" + left + " " + y + "H" + right, stroke: "var(--grid)" }, picture);
      svg("text", { x: left - 7, y: +y + 4, "text-anchor": "end" }, picture).textContent = text;
    }
    svg("path", { d: "M" + left + " " + bottom + "H" + right, stroke: "var(--axis)" }, picture);
    const fit = Math.max(2, Math.floor((right - left) / 85));
    for (const [v, text] of linearTicks(x0, x1, fit, true)) {
      const x = sx(v);
      svg("path", { d: "M" + x.toFixed(1) + " " + bottom + "v5", stroke: "var(--axis)" }, picture);
      svg("text", { x: Math.min(x, width - 4 - 3.4 * text.length).toFixed(1), y: bottom + 18,
                    "text-anchor": "middle" }, picture).textContent = text;
    }
    svg("text", { x: (left + right) / 2, y: height - 5, "text-anchor": "middle" }, picture)
      .textContent = "step";

    const usable = y => y !== null && y !== undefined && !(log && !(y > 0));
    function line(steps, values, stroke, width) {
      let d = "", pen = "M";
      values.forEach((y, i) => {
        if (!usable(y)) { pen = "M"; return; }
        const x = sx(steps[i]).toFixed(1), h = sy(y).toFixed(1);
        if (pen === "M" && !usable(values[i + 1]))  // alone, so no line would show it
          svg("circle", { cx: x, cy: h, r: 2.4, fill: stroke }, picture);
        d += pen + x + " " + h;
        pen = "L";
      });
      svg("path", { d, fill: "none", stroke, "stroke-linejoin": "round", "stroke-width": width },
          picture);
    }
    function area(low_, high_) {
      let d = "", up = [], down = [];
      const close = () => {
        if (up.length) d += "M" + up.join("L") + "L" + down.reverse().join("L") + "Z";
        up = []; down = [];
      };
      high_.forEach((y, i) => {
        if (!usable(y) || !usable(low_[i])) { close(); return; }
        for (const x of X.last.length > 1 ? [sx(X.last[i])] : [left, right]) {
          up.push(x.toFixed(1) + " " + sy(y).toFixed(1));
          down.push(x.toFixed(1) + " " + sy(low_[i]).toFixed(1));
        }
      });
      close();
      return d;
    }
    for (const l of stack)
      svg("path", { d: area(l.low, l.high), fill: color(l.s), stroke: "var(--card)",
                    "stroke-width": 0.7 }, picture);
    if (!stacked) for (const s of plot.series) {
      if (!seen(s.name)) continue;
      if (s.min)  // with a line around it: an outlier's band is thinner than a pixel
        svg("path", { d: area(s.min, s.max), fill: color(s), opacity: s.faint ? 0.35 : 0.3,
                      stroke: color(s), "stroke-width": 0.8 }, picture);
      line(X.last, s.mean, color(s), s.faint ? 1 : 1.8);
    }
    if (points.steps.length && seen(points.name)) {
      const stroke = "var(--l" + points.color + ")";
      line(points.steps, points.values, stroke, 1.8);
      if (points.steps.length <= 80) points.steps.forEach((s, i) => {
        if (usable(points.values[i]))
          svg("circle", { cx: sx(s).toFixed(1), cy: sy(points.values[i]).toFixed(1), r: 3,
                          fill: stroke }, picture);
      });
    }
    for (const l of plot.levels || []) {
      if (!seen(l.name)) continue;
      const y = sy(l.value);
      svg("path", { d: "M" + left + " " + y.toFixed(1) + "H" + right, stroke: "var(--level)",
                    "stroke-width": 1.4, "stroke-dasharray": "6 5" }, picture);
      svg("text", { x: right - 4, y: (y - 6 < top + 6 ? y + 15 : y - 6).toFixed(1), class: "name",
                    "text-anchor": "end" }, picture)
        .textContent = l.name + " " + readable(l.value);
    }
    if (plot.marks && seen(plot.marks.name)) for (const s of plot.marks.steps)
      svg("path", { d: "M" + sx(s).toFixed(1) + " " + (bottom - 1) + "l-4 -7h8z",
                    fill: "var(--mark)" }, picture);
    frame.cursor = svg("g", { "pointer-events": "none" }, picture);
    read(at);
  }

  // ---- readout
  function row(name, value, stroke) {
    const line = html("div", {}, tip);
    const label = html("span", {}, line);
    if (stroke) html("i", { "aria-hidden": "true" }, label, "\u25a0 ").style.color = stroke;
    label.appendChild(document.createTextNode(name));
    html("i", {}, line, value);
  }
  function read(index) {
    at = index;
    tip.hidden = index < 0;
    const g = frame.cursor;
    while (g.firstChild) g.removeChild(g.firstChild);
    if (index < 0) return;
    const x = frame.sx(X.last[index]);
    svg("path", { d: "M" + x.toFixed(1) + " " + frame.top + "V" + frame.bottom,
                  stroke: "var(--axis)" }, g);
    tip.textContent = "";
    const a = X.first[index], b = X.last[index];
    html("b", {}, tip,
         a === b ? "step " + grouped(b) : "steps " + grouped(a) + " to " + grouped(b));
    if (X.tokens && X.tokens[index] !== null) row("tokens so far", shortCount(X.tokens[index]));
    let sum = 0;
    for (const s of stacked ? plot.series.slice().reverse() : plot.series) {
      if (!seen(s.name)) continue;
      const y = s.mean[index];
      sum += y || 0;
      row(s.name, readable(y), color(s));
      if (s.min && y !== null && s.min[index] !== s.max[index])
        row("\u2003least, greatest", readable(s.min[index]) + ", " + readable(s.max[index]));
      if (!stacked && y !== null && !(log && !(y > 0)))
        svg("circle", { cx: x.toFixed(1), cy: frame.sy(y).toFixed(1), r: 3.5, fill: color(s),
                        stroke: "var(--card)", "stroke-width": 1.2 }, g);
    }
    if (stacked) row("sum", readable(sum));
    if (points.steps.length && seen(points.name)) {
      let i = -1;  // the latest validation up to here
      while (i + 1 < points.steps.length && points.steps[i + 1] <= b) ++i;
      if (i >= 0)
        row(points.name + " (step " + points.steps[i] + ")", readable(points.values[i]),
            "var(--l" + points.color + ")");
    }
    for (const l of plot.levels || [])
      if (seen(l.name)) row(l.name, readable(l.value), "var(--level)");
    const room = canvas.clientWidth, wide = tip.offsetWidth;
    tip.style.left = Math.max(0, x + 14 + wide < room ? x + 14 : x - 14 - wide) + "px";
  }
  function nearest(event) {
    const box = picture.getBoundingClientRect();
    const x = event.clientX - box.left;
    let a = 0, b = X.last.length - 1;
    while (b - a > 1) { const m = (a + b) >> 1; if (frame.sx(X.last[m]) < x) a = m; else b = m; }
    return x - frame.sx(X.last[a]) < frame.sx(X.last[b]) - x ? a : b;
  }
  picture.addEventListener("pointermove", e => read(nearest(e)));
  picture.addEventListener("pointerdown", e => read(nearest(e)));
  picture.addEventListener("pointerleave", () => read(-1));
  picture.addEventListener("blur", () => read(-1));
  picture.addEventListener("keydown", e => {
    const end = X.last.length - 1, start = at < 0 ? end : at, jump = e.shiftKey ? 10 : 1;
    const to = { ArrowLeft: start - jump, ArrowRight: start + jump, Home: 0, End: end,
                 Escape: -1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    read(e.key === "Escape" ? -1 : Math.min(end, Math.max(0, to)));
  });
  draw();
  return draw;
}
)js";

}  // namespace espalier
