/* Line charts in SVG, with bands and stacked shares, for the live page and the report.
   Names come from files and are inserted as text only: nothing here parses markup. */
"use strict";
const BW = {};

BW.el = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
};

BW.svg = (tag, attributes = {}, text = null) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  return node;
};

/* Numbers as text. */
BW.figure = (value) => {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2).replace("e+", "e").replace("-", "−").replace("e-", "e−");
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4;
  const text = value.toLocaleString("en", { maximumFractionDigits: digits });
  return text.replace("-", "−");
};
BW.short = (value) => {
  const size = Math.abs(value);
  if (size >= 1e12) return value.toExponential(0).replace("e+", "e").replace("-", "−");
  for (const [unit, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return `${+(value / unit).toPrecision(3)}${name}`.replace("-", "−");
  }
  return BW.figure(value);
};
BW.seconds = (value) => {
  if (value < 100) return `${+value.toPrecision(2)} s`;
  if (value < 5940) return `${Math.round(value / 60)} min`;
  return value < 172800 ? `${+(value / 3600).toPrecision(3)} h` : `${+(value / 86400).toPrecision(3)} d`;
};

BW.AXES = {
  env_steps: { name: "environment steps", show: BW.short, full: (v) => `${Math.round(v).toLocaleString("en")} steps` },
  iteration: { name: "iterations", show: BW.short, full: (v) => `iteration ${Math.round(v).toLocaleString("en")}` },
  training_seconds: { name: "time", show: BW.seconds, full: BW.seconds },
};
BW.COLOURS = 8;
BW.DASHES = ["", "6 3", "2 3", "8 3 2 3"];

/* The state that all charts of a page share: x axis, zoomed range, smoothing. */
BW.ViewState = class {
  constructor() { this.axis = "env_steps"; this.range = null; this.smooth = 0; this.charts = new Set(); this.onchange = () => {}; }
  set(changes) {
    if (changes.axis && changes.axis !== this.axis) this.range = null;
    Object.assign(this, changes);
    for (const chart of this.charts) chart.request();
    this.onchange(this);
  }
};

BW.ticks = (low, high, count) => {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999) || raw;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Math.abs(k * step) < step * 1e-9 ? 0 : k * step);
  return found;
};
BW.logTicks = (low, high) => {
  const found = [];
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil((last - first) / 5));
  for (let power = first; power <= last; power++) {
    for (const m of last - first <= 2 ? [1, 2, 5] : [1]) {
      const value = m * 10 ** power;
      if ((power - first) % every === 0 && value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found.length > 1 ? found : BW.ticks(low, high, 4).filter((v) => v > 0);
};

const nearest = (xs, x) => {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (xs[middle] < x) low = middle; else high = middle; }
  return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
};

const smoothed = (ys, reach) => {
  if (!reach) return ys;
  const found = new Array(ys.length).fill(null);
  let sum = 0, count = 0, from = 0, to = 0;
  for (let i = 0; i < ys.length; i++) {
    for (; to < ys.length && to <= i + reach; to++) if (ys[to] !== null) { sum += ys[to]; count++; }
    for (; from < i - reach; from++) if (ys[from] !== null) { sum -= ys[from]; count--; }
    if (ys[i] !== null && count) found[i] = sum / count;
  }
  return found;
};

/* One chart. A series is {label, x, y, low, high, colour, dash, marks}; x ascends, null is a missing value. */
BW.Chart = class {
  constructor(parent, figure, viewState) {
    Object.assign(this, { figure, viewState, series: [], hidden: new Set(), log: !!figure.log, cursor: null, width: 0 });
    this.logButton = BW.el("button", { class: "toggle", type: "button", title: "logarithmic scale (L)", "aria-pressed": String(this.log), onclick: () => this.toggleLog() }, "log");
    this.logButton.hidden = !!figure.stack;
    this.plot = BW.svg("svg", { class: "plot", role: "img", tabindex: "0", "aria-label": figure.title });
    this.tip = BW.el("div", { class: "tip", hidden: true, role: "status" });
    this.legend = BW.el("div", { class: "legend" });
    this.now = BW.el("span", { class: "now" });
    this.node = BW.el("figure", { class: figure.title === "Return" ? "chart hero" : "chart" },
      BW.el("figcaption", {}, BW.el("span", { class: "title" }, figure.title), BW.el("span", { class: "unit" }, figure.unit || ""), this.now, BW.saveButtons(this), this.logButton),
      BW.el("div", { class: "frame" }, this.plot, this.tip), this.legend,
      figure.note ? BW.el("p", { class: "note" }, figure.note) : null);
    parent.append(this.node);
    this.listen();
    viewState.charts.add(this);
    this.sizes = new ResizeObserver(() => { if (this.plot.parentNode.clientWidth !== this.width) this.request(); });
    this.sizes.observe(this.plot.parentNode);
    this.visibility = new IntersectionObserver((entries) => { this.visible = entries.some((e) => e.isIntersecting); if (this.visible && this.stale) this.draw(); }, { rootMargin: "300px" });
    this.visibility.observe(this.node);
  }
  remove() { this.viewState.charts.delete(this); this.sizes.disconnect(); this.visibility.disconnect(); this.node.remove(); }
  update(series) { this.series = series; this.drawLegend(); this.request(); }
  request() {
    this.stale = true;
    if (!this.visible || this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; if (this.stale) this.draw(); });
  }
  toggleLog() { this.log = !this.log; this.logButton.setAttribute("aria-pressed", String(this.log)); this.request(); }

  drawLegend() {
    const key = this.series.map((s) => `${s.label}\u0000${s.colour}`).join("\u0001");
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.legend.replaceChildren();
    if (this.series.length < 2 || this.series.some((s) => s.unlisted)) return;
    for (const series of this.series) {
      const swatch = BW.svg("svg", { class: "swatch", viewBox: "0 0 16 8", "aria-hidden": "true" });
      swatch.append(BW.svg("line", { x1: 0, x2: 16, y1: 4, y2: 4, class: `line c${series.colour % BW.COLOURS}`, "stroke-dasharray": series.dash || "" }));
      const button = BW.el("button", { type: "button", "aria-pressed": String(!this.hidden.has(series.label)), title: "show or hide", onclick: () => {
        if (!this.hidden.delete(series.label)) this.hidden.add(series.label);
        button.setAttribute("aria-pressed", String(!this.hidden.has(series.label)));
        this.request();
      } }, swatch, series.label);
      this.legend.append(button);
    }
  }

  shown() {
    let found = this.series.filter((s) => !this.hidden.has(s.label) && s.x.length);
    if (this.figure.stack) found = this.stacked(found);
    else found = found.map((s) => (s.marks ? { ...s, raw: s.y } : { ...s, raw: s.y, ...Object.fromEntries(["y", "low", "high"].map((part) => [part, s[part] && smoothed(s[part], this.viewState.smooth)])) }));
    return found;
  }
  stacked(series) {
    if (!series.length) return [];
    const x = series[0].x, under = new Array(x.length).fill(0);
    const total = x.map((_, i) => series.reduce((sum, s) => sum + Math.max(0, s.y[i] || 0), 0));
    return series.map((s) => {
      const low = under.slice();
      const share = s.y.map((y, i) => (total[i] > 0 ? Math.max(0, y || 0) / total[i] : 0));
      for (let i = 0; i < x.length; i++) under[i] += share[i];
      return { ...s, x, y: under.slice(), low, high: under.slice(), share, area: true };
    });
  }

  domain(series) {
    const whole = [Infinity, -Infinity];
    for (const s of series) { whole[0] = Math.min(whole[0], s.x[0]); whole[1] = Math.max(whole[1], s.x[s.x.length - 1]); }
    const [x0, x1] = this.viewState.range || whole;
    let low = Infinity, high = -Infinity;
    const take = (value) => { if (value !== null && value !== undefined && (!this.log || value > 0)) { if (value < low) low = value; if (value > high) high = value; } };
    for (const s of series) for (let i = 0; i < s.x.length; i++) {
      if (s.x[i] < x0 || s.x[i] > x1) continue;
      take(s.y[i]);
      if (s.raw) take(s.raw[i]);
      if (s.low && s.y[i] !== null) { take(s.low[i]); take(s.high[i]); }
    }
    if (this.figure.stack) [low, high] = [0, 1];
    if (low > high) [low, high] = this.log ? [0.1, 1] : [0, 1];
    if (low === high) { const room = this.log ? low / 2 : Math.abs(low) * 0.1 || 1; low -= room; high += room; }
    else if (!this.log && !this.figure.stack) { const room = (high - low) * 0.05; const zero = low >= 0 && low < (high - low) * 0.35; low = zero ? 0 : low - room; high += room; }
    return x1 > x0 ? { x0, x1, low, high } : { x0: 0, x1: 2 * x0 || 1, low, high };
  }

  draw() {
    this.stale = false;
    const width = this.width = Math.max(200, this.plot.parentNode.clientWidth || 480);
    const height = Math.round(Math.min(this.figure.title === "Return" ? 216 : 190, Math.max(150, width * 0.46)));
    const series = this.shown(), plot = this.plot;
    plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    plot.setAttribute("height", height);
    const nodes = [];
    const add = (tag, attributes, text = null) => { const node = BW.svg(tag, attributes, text); nodes.push(node); return node; };
    if (!series.some((s) => s.y.some((y) => y !== null))) {
      add("text", { x: width / 2, y: height / 2, class: "empty", "text-anchor": "middle" }, this.series.length && this.hidden.size ? "all lines are hidden" : "nothing logged yet");
      plot.replaceChildren(...nodes); this.geometry = null; this.now.textContent = "";
      return;
    }
    const box = this.domain(series);
    const yTicks = (this.log ? BW.logTicks(box.low, box.high) : BW.ticks(box.low, box.high, height < 180 ? 3 : 4));
    const labels = yTicks.map((v) => (this.figure.stack ? `${Math.round(v * 100)}%` : Math.abs(v) >= 1e4 ? BW.short(v) : BW.figure(v)));
    const left = Math.max(30, ...labels.map((l) => l.length * 6.4 + 12)), right = width - 10, top = 8, bottom = height - 24;
    const scale = this.log ? (v) => Math.log10(v) : (v) => v;
    const X = (v) => left + ((v - box.x0) / (box.x1 - box.x0)) * (right - left);
    const Y = (v) => bottom - ((scale(v) - scale(box.low)) / (scale(box.high) - scale(box.low))) * (bottom - top);
    yTicks.forEach((v, i) => {
      add("line", { x1: left, x2: right, y1: Y(v), y2: Y(v), class: v === 0 && Y(v) < bottom - 1 ? "gridline zero" : "gridline" });
      add("text", { x: left - 6, y: Y(v) + 4, class: "tick", "text-anchor": "end" }, labels[i]);
    });
    const axis = BW.AXES[this.viewState.axis];
    let freeFrom = -Infinity;
    for (const v of BW.ticks(box.x0, box.x1, Math.max(2, Math.floor((right - left) / 80)))) {
      const label = axis.show(v), half = label.length * 3.2 + 5;
      const at = Math.min(right - half + 8, Math.max(left + half - 8, X(v)));
      if (at - half < freeFrom) continue;
      freeFrom = at + half;
      add("line", { x1: X(v), x2: X(v), y1: bottom, y2: bottom + 4, class: "axis" });
      add("text", { x: at, y: height - 6, class: "tick", "text-anchor": "middle" }, label);
    }
    add("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" });
    const clip = `clip${BW.Chart.count = (BW.Chart.count || 0) + 1}`;
    const clipping = BW.svg("clipPath", { id: clip });
    clipping.append(BW.svg("rect", { x: left, y: top - 4, width: right - left + 5, height: bottom - top + 8 }));
    nodes.push(clipping);
    const inside = BW.svg("g", { "clip-path": `url(#${clip})` });
    nodes.push(inside);
    for (const mark of this.figure.marks || []) {
      if (mark.x === null || mark.x < box.x0 || mark.x > box.x1) continue;
      const line = BW.svg("line", { x1: X(mark.x), x2: X(mark.x), y1: top, y2: bottom, class: `mark ${mark.kind}` });
      line.append(BW.svg("title", {}, mark.text));
      inside.append(line);
    }
    for (const s of series) this.drawSeries(inside, s, X, Y, box);
    const hover = BW.svg("g", { class: "hover" });
    nodes.push(hover);
    plot.replaceChildren(...nodes);
    this.geometry = { left, right, top, bottom, width, height, box, X, Y, series, hover };
    this.describe(series);
    if (this.cursor !== null) this.point(this.cursor);
  }

  drawSeries(parent, s, X, Y, box) {
    const colour = `c${s.colour % BW.COLOURS}`;
    const fits = (v) => v !== null && v !== undefined && (!this.log || v > 0);
    const at = (x, y) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`;
    if (s.low) {
      const over = [], back = [];
      for (let i = 0; i < s.x.length; i++) {
        if (s.y[i] === null || s.low[i] === null || s.high[i] === null || s.low[i] === undefined) continue;
        const low = this.log ? Math.max(s.low[i], box.low) : s.low[i];
        if (!fits(s.high[i])) continue;
        over.push(at(s.x[i], s.high[i]));
        back.push(at(s.x[i], low));
      }
      if (over.length > 1) parent.append(BW.svg("path", { d: `M${over.join("L")}L${back.reverse().join("L")}Z`, class: `${s.area ? "area" : "band"} ${colour}` }));
    }
    const lineOf = (ys) => { const points = []; for (let i = 0; i < s.x.length; i++) if (fits(ys[i])) points.push(at(s.x[i], ys[i])); return points; };
    if (s.raw && this.viewState.smooth && !s.marks) {
      const raw = lineOf(s.raw);
      if (raw.length > 1) parent.append(BW.svg("path", { d: `M${raw.join("L")}`, class: `line faint ${colour}` }));
    }
    const points = lineOf(s.y);
    if (points.length > 1) parent.append(BW.svg("path", { d: `M${points.join("L")}`, class: `line ${colour}`, "stroke-dasharray": s.dash || "" }));
    if (points.length === 1 || (s.marks && points.length <= 60)) for (const point of points) {
      const [cx, cy] = point.split(",");
      parent.append(BW.svg("circle", { cx, cy, r: 3, class: `dot ${colour}` }));
    }
  }

  valueOf(s, i) { return this.figure.stack ? `${Math.round(100 * s.share[i])}%` : BW.figure(s.y[i]); }
  describe(series) {
    const lasts = series.map((s) => { let i = s.y.length - 1; while (i > 0 && s.y[i] === null) i--; return `${s.label} ${this.valueOf(s, i)}`; });
    this.plot.setAttribute("aria-label", `${this.figure.title} over ${BW.AXES[this.viewState.axis].name}; last: ${lasts.slice(0, 8).join(", ")}. Arrow keys read values.`);
    this.now.textContent = series.length === 1 ? lasts[0].slice(series[0].label.length + 1) : "";
  }

  /* Shows the values at a position of the x axis: a line, dots, and a box with the numbers. */
  point(x) {
    const g = this.geometry;
    if (!g) return;
    this.cursor = x;
    const rows = [];
    g.hover.replaceChildren(BW.svg("line", { x1: g.X(x), x2: g.X(x), y1: g.top, y2: g.bottom, class: "cursor" }));
    for (const s of g.series) {
      let i = nearest(s.x, x);
      for (let step = 0; s.y[i] === null && step < s.x.length; step++) i = i > 0 ? i - 1 : 0;
      if (s.y[i] === null || s.y[i] === undefined) continue;
      if (!this.log || s.y[i] > 0) g.hover.append(BW.svg("circle", { cx: g.X(s.x[i]), cy: g.Y(s.y[i]), r: 3.5, class: `dot ${`c${s.colour % BW.COLOURS}`}` }));
      const range = s.low && !s.area && s.low[i] !== null && s.low[i] !== undefined ? ` (${BW.figure(s.low[i])} to ${BW.figure(s.high[i])})` : "";
      rows.push([s, `${this.valueOf(s, i)}${range}`, s.y[i]]);
    }
    rows.sort((a, b) => (this.figure.stack ? 0 : b[2] - a[2]));
    const left = rows.length > 12 ? rows.length - 12 : 0;
    this.tip.replaceChildren(BW.el("div", { class: "where" }, BW.AXES[this.viewState.axis].full(x)), ...rows.slice(0, 12).map(([s, text]) =>
      BW.el("div", { class: "row" }, BW.el("i", { class: `key c${s.colour % BW.COLOURS}` }), BW.el("span", { class: "name" }, s.label), BW.el("b", {}, text))));
    if (left) this.tip.append(BW.el("div", { class: "where" }, `and ${left} more`));
    this.tip.hidden = false;
    const share = g.width ? this.plot.parentNode.clientWidth / g.width : 1;
    const place = g.X(x) * share, room = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, place + 12 + room > this.plot.parentNode.clientWidth ? place - room - 12 : place + 12)}px`;
  }
  leave() { this.cursor = null; this.tip.hidden = true; if (this.geometry) this.geometry.hover.replaceChildren(); }
  place(event) {
    const g = this.geometry, frame = this.plot.getBoundingClientRect();
    const at = ((event.clientX - frame.left) / frame.width) * g.width;
    return g.box.x0 + (Math.min(g.right, Math.max(g.left, at)) - g.left) / (g.right - g.left) * (g.box.x1 - g.box.x0);
  }
  snap(x) { const s = this.geometry.series[0]; return s.x[nearest(s.x, x)]; }

  listen() {
    const plot = this.plot;
    plot.addEventListener("pointermove", (event) => {
      if (!this.geometry) return;
      const x = this.place(event);
      if (this.from !== undefined && event.buttons) this.drawChoice(this.from, x); else this.point(this.snap(x));
    });
    plot.addEventListener("pointerdown", (event) => { if (this.geometry && event.button === 0 && event.pointerType === "mouse") { this.from = this.place(event); plot.setPointerCapture(event.pointerId); } });
    plot.addEventListener("pointerup", (event) => {
      if (this.from === undefined) return;
      const a = this.from, b = this.place(event), g = this.geometry;
      this.from = undefined;
      if (g && Math.abs(g.X(a) - g.X(b)) > 8) this.viewState.set({ range: [Math.min(a, b), Math.max(a, b)] });
    });
    plot.addEventListener("pointerleave", () => this.leave());
    plot.addEventListener("dblclick", () => this.viewState.set({ range: null }));
    plot.addEventListener("blur", () => this.leave());
    plot.addEventListener("keydown", (event) => this.key(event));
  }
  drawChoice(a, b) {
    const g = this.geometry, x = Math.min(g.X(a), g.X(b));
    this.tip.hidden = true;
    g.hover.replaceChildren(BW.svg("rect", { x, y: g.top, width: Math.abs(g.X(a) - g.X(b)), height: g.bottom - g.top, class: "choice" }));
  }
  key(event) {
    const g = this.geometry;
    if (!g || event.ctrlKey || event.metaKey || event.altKey) return;
    const xs = g.series[0].x, here = this.cursor === null ? xs.length - 1 : nearest(xs, this.cursor);
    const step = event.shiftKey ? 10 : 1;
    const go = (i) => this.point(xs[Math.min(xs.length - 1, Math.max(0, i))]);
    const zoom = (factor) => {
      const middle = this.cursor === null ? (g.box.x0 + g.box.x1) / 2 : this.cursor, half = (g.box.x1 - g.box.x0) * factor / 2;
      const low = Math.max(xs[0], middle - half), high = Math.min(xs[xs.length - 1], middle + half);
      this.viewState.set({ range: high > low && (low > xs[0] || high < xs[xs.length - 1]) ? [low, high] : null });
    };
    const action = {
      ArrowLeft: () => go(here - (this.cursor === null ? 0 : step)), ArrowRight: () => go(here + step), Home: () => go(0), End: () => go(xs.length - 1),
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => this.viewState.set({ range: null }),
      Escape: () => this.leave(), l: () => { if (!this.figure.stack) this.toggleLog(); },
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (action) { action(); event.preventDefault(); }
  }
};
