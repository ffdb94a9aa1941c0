/* Components that the live page and the report share. */
"use strict";

BW.STATUS = {
  running: "running", finished: "finished", stopped: "stopped: return reached", "stopped-by-callback": "stopped: by a callback", interrupted: "interrupted", diverged: "diverged", crashed: "crashed", planned: "not started",
};
BW.chip = (status) => BW.el("span", { class: `chip ${status}` }, BW.STATUS[status] || status);
/* Why a run ended before its plan, where the chip does not say it. */
BW.reason = (run) => (run.reason && !(BW.STATUS[run.status] || "").includes(run.reason) ? [BW.el("small", { class: "why", title: run.reason }, run.reason)] : []);
BW.ago = (seconds) => {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < -5) return "in the future";
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
};
BW.section = (title, ...children) => BW.el("section", {}, BW.el("h2", {}, title), ...children);
BW.fraction = (run) => (run.total_steps && run.env_steps !== null ? Math.min(1, run.env_steps / run.total_steps) : run.iterations ? Math.min(1, run.iteration / run.iterations) : null);
BW.bar = (share, text) => {
  const bar = BW.el("progress", { max: 1, value: share === null ? 0 : share, "aria-label": text });
  return BW.el("span", { class: "share" }, bar, BW.el("span", {}, text));
};
/* An environment factory in a file is shown by the name of the file. */
BW.env = (env) => (env.includes(".py:") ? env.split("/").pop() : env);
BW.subtitle = (run) => [BW.env(run.env), run.algo, run.seed === null ? "" : `seed ${run.seed}`].filter(Boolean).join(" · ");

BW.tile = (name, value, detail) => BW.el("div", { class: "tile" }, BW.el("dt", {}, name), BW.el("dd", {}, BW.el("b", {}, value), detail ? BW.el("small", {}, detail) : null));
BW.tiles = (run, evaluations) => {
  const last = evaluations && evaluations.length ? evaluations[evaluations.length - 1] : null, share = BW.fraction(run);
  return BW.el("dl", { class: "tiles" },
    BW.tile("return", BW.figure(run.return), "mean of the last 10 iterations"),
    BW.tile("evaluation", BW.figure(run.evaluation), last ? `mean of ${last.episodes} episodes; IQM ${BW.figure(last.iqm)}` : "none yet"),
    BW.tile("steps", run.env_steps === null ? "–" : BW.short(run.env_steps), run.total_steps ? `of ${BW.short(run.total_steps)} (${Math.round(100 * (share || 0))}%)` : ""),
    BW.tile("iterations", run.iteration.toLocaleString("en"), run.iterations ? `of ${run.iterations.toLocaleString("en")}` : ""),
    BW.tile("speed", run.steps_per_second === null ? "–" : BW.short(run.steps_per_second), "steps per second, last iteration"));
};

BW.notes = (notes) => (notes.length ? BW.el("ul", { class: "notes", "aria-label": "notes on the record" }, ...notes.map((note) => BW.el("li", {}, note))) : null);

BW.advice = (advice) => BW.el("ul", { class: "advice" }, ...advice.map((item) => BW.el("li", { class: `severity-${/^[a-z]+$/.test(item.severity) ? item.severity : "other"}` },
  BW.el("h3", {}, item.message || item.finding, BW.el("small", {}, [item.finding, item.iteration === null ? "" : `iteration ${item.iteration.toLocaleString("en")}`].filter(Boolean).join(", "))),
  item.cause ? BW.el("p", {}, `Likely cause: ${item.cause.replace(/\.$/, "")}.`) : null,
  item.evidence ? BW.el("p", { class: "muted" }, item.evidence) : null,
  item.flags.length ? BW.el("p", { class: "flags" }, ...item.flags.flatMap((flag) => [BW.el("code", { tabindex: "0", title: "flag to try" }, flag), " "])) : null)));

BW.planTable = (rows) => {
  const cells = (row, tag) => BW.el("tr", {}, ...row.map((cell, i) => BW.el(tag, { class: ["name", "value", "unit", "source", "reason"][i], scope: tag === "th" ? "col" : null }, tag === "td" && i === 3 ? BW.el("span", { class: `source-${/^[a-z]+$/.test(cell) ? cell : "other"}` }, cell) : cell)));
  return BW.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "the plan" }, BW.el("table", { class: "plan" }, BW.el("thead", {}, cells(["quantity", "value", "unit", "source", "reason"], "th")), BW.el("tbody", {}, ...rows.map((row) => cells(row, "td")))));
};

BW.events = (events) => BW.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "events" }, BW.el("table", { class: "events" }, BW.el("tbody", {}, ...events.slice().reverse().map((event) => BW.el("tr", {},
  BW.el("td", { class: "value" }, event.unix_seconds === null ? "" : new Date(event.unix_seconds * 1000).toLocaleTimeString("en-GB")),
  BW.el("td", { class: "value" }, event.iteration === null ? "" : event.iteration.toLocaleString("en")), BW.el("td", {}, event.kind), BW.el("td", { class: "reason" }, event.message))))));

/* Curves of runs, {key, label, colour, dash, curves}, as figures by section. */
BW.Figures = class {
  constructor(parent, viewState) { Object.assign(this, { parent, viewState, charts: new Map(), key: "" }); this.parent.classList.add("figures"); }
  update(runs, marks = []) {
    const constants = new Map(), figures = this.arrange(runs).filter((figure) => {
      const value = this.constantOf(figure, runs);
      if (value !== null) constants.set(figure.title, value);
      return value === null;
    });
    const key = JSON.stringify(figures.map((f) => [f.section, f.title, f.lines.map((l) => l.metric)]));
    if (key !== this.key) this.build(figures, key);
    this.constants.hidden = !constants.size;
    this.constants.textContent = `Constant so far: ${[...constants].map(([title, value]) => `${title} ${BW.figure(value)}`).join(", ")}.`;
    for (const figure of figures) {
      const chart = this.charts.get(`${figure.section}\u0000${figure.title}`);
      if (figure.title === "Return") chart.figure.marks = marks.map((mark) => ({ ...mark, x: this.placeOf(runs[0], mark.iteration) }));
      chart.update(this.seriesOf(figure, runs));
    }
  }
  /* A metric that never changed needs no chart: its value goes into a line of text. */
  constantOf(figure, runs) {
    if (!["Stability", "Optimiser", "Other metrics"].includes(figure.section) || figure.lines.length > 1) return null;
    let value = null, count = 0;
    for (const run of runs) for (const part of ["mean", "low", "high"]) for (const y of run.curves[part][figure.lines[0].metric] || []) {
      if (y === null) continue;
      if (value !== null && y !== value) return null;
      value = y;
      count++;
    }
    return count > 2 ? value : null;
  }
  /* With one run a figure keeps its lines together; with several runs each metric gets a chart. */
  arrange(runs) {
    const found = new Map();
    for (const run of runs) for (const figure of run.curves.figures || []) {
      const parts = runs.length === 1 ? [figure] : figure.lines.map((line) => (figure.lines.length === 1 ? figure
        : { ...figure, stack: false, log: figure.log || figure.stack, unit: figure.stack ? "s" : figure.unit, note: "", title: line.metric === "episode_return" ? figure.title : `${figure.title}: ${line.label}`, lines: [line] }));
      for (const part of parts) found.set(`${part.section}\u0000${part.title}`, part);
    }
    return [...found.values()];
  }
  build(figures, key) {
    this.key = key;
    for (const chart of this.charts.values()) chart.remove();
    this.charts.clear();
    this.parent.replaceChildren();
    const sections = [...new Set(figures.map((f) => f.section))];
    for (const name of sections) {
      const grid = BW.el("div", { class: "grid" });
      const heading = BW.el("h3", {}, name);
      if (name === "Other metrics") this.parent.append(BW.el("details", { open: figures.length < 8 }, BW.el("summary", {}, heading), grid));
      else this.parent.append(heading, grid);
      for (const figure of figures.filter((f) => f.section === name)) this.charts.set(`${figure.section}\u0000${figure.title}`, new BW.Chart(grid, { ...figure }, this.viewState));
    }
    this.constants = BW.el("p", { class: "note spaced" });
    this.parent.append(this.constants);
    if (!figures.length) this.parent.append(BW.el("p", { class: "muted" }, "No iteration has been logged yet: curves appear with the first."));
  }
  seriesOf(figure, runs) {
    const several = runs.length > 1, found = [];
    runs.forEach((run) => figure.lines.forEach((line, k) => {
      const c = run.curves, y = c.mean[line.metric];
      if (!y) return;
      const x = this.axisOf(c);
      let low = c.low[line.metric], high = c.high[line.metric];
      if (!run.grouped && line.spread && c.mean[line.spread]) {
        low = y.map((v, i) => (v === null || c.mean[line.spread][i] === null ? null : v - c.mean[line.spread][i]));
        high = y.map((v, i) => (v === null || c.mean[line.spread][i] === null ? null : v + c.mean[line.spread][i]));
      } else if (!run.grouped && line.low && c.mean[line.low]) [low, high] = [c.mean[line.low], c.mean[line.high]];
      const bands = !several || run.grouped;
      found.push({ label: several ? run.label : line.label, x, y, low: bands ? low : undefined, high: bands ? high : undefined,
        colour: several ? run.colour : k, dash: several ? run.dash : k >= BW.COLOURS ? BW.DASHES[1] : "", marks: !!line.marks, unlisted: several && !run.listed && !(figure.title === "Return" && runs.length <= 12) });
    }));
    return found;
  }
  axisOf(curves) { return curves.axes[this.viewState.axis] || curves.axes.iteration || Object.values(curves.axes)[0] || []; }
  placeOf(run, iteration) {
    const from = run.curves.axes.iteration, to = this.axisOf(run.curves);
    if (!from || !from.length || iteration === null) return null;
    const i = from.findIndex((v) => v >= iteration);
    return i < 0 ? to[to.length - 1] : to[i];
  }
};

/* The controls above the charts. */
BW.controls = (viewState, axes) => {
  const choice = (name, value, label) => BW.el("button", { type: "button", class: "toggle", "aria-pressed": String(viewState[name] === value), onclick: () => viewState.set({ [name]: value }) }, label);
  const node = BW.el("div", { class: "controls", role: "toolbar", "aria-label": "figures" });
  /* Any width; the mean of as many points as the screen has of a curve. */
  const shown = BW.el("output", {}), slider = BW.el("input", { type: "range", min: 0, max: 60, step: 1, value: viewState.smooth, "aria-label": "smoothing, points on either side" });
  const say = () => { shown.textContent = viewState.smooth ? `${2 * viewState.smooth + 1} points` : "off"; };
  slider.addEventListener("input", () => { viewState.smooth = Number(slider.value); say(); for (const chart of viewState.charts) chart.request(); });
  const smooth = BW.el("label", { class: "choices" }, "smooth ", slider, shown);
  say();
  const draw = () => {
    node.replaceChildren(
      BW.el("span", { class: "choices" }, "over ", ...axes.map((axis) => choice("axis", axis, { env_steps: "steps", iteration: "iterations", training_seconds: "time" }[axis]))),
      smooth);
    if (viewState.range) node.append(BW.el("button", { type: "button", class: "toggle strong", onclick: () => viewState.set({ range: null }) }, "show all"));
  };
  viewState.onchange = () => { const at = [...node.querySelectorAll("button")].indexOf(document.activeElement); draw(); if (at >= 0) { const b = node.querySelectorAll("button")[at]; if (b) b.focus(); } if (viewState.refresh) viewState.refresh(); };
  draw();
  return node;
};

BW.marksOf = (details) => [
  ...details.events.filter((e) => ["resume", "diverged", "non-finite", "remedy"].includes(e.kind)).map((e) => ({ iteration: e.iteration, kind: e.kind === "resume" ? "resume" : e.kind === "remedy" ? "advised" : "bad", text: `${e.kind}: ${e.message}` })),
  ...details.advice.map((a) => ({ iteration: a.iteration, kind: "advised", text: a.message })),
];
