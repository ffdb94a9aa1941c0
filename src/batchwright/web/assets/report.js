/* The report: the charts of the live page over finished data. */
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main");
  main.replaceChildren();
  const viewState = new BW.ViewState(), PRINTED_PIXELS = 860;

  const foot = () => BW.el("p", { class: "muted foot" }, `Written ${data.written} by Batchwright ${data.version}.`);
  const curvesSection = (runs, axes, marks) => {
    const bar = BW.el("div"), body = BW.el("div"), figures = new BW.Figures(body, viewState);
    if (axes.length && !axes.includes(viewState.axis)) viewState.axis = axes[0];
    if (axes.length) bar.append(BW.controls(viewState, axes));
    viewState.refresh = () => figures.update(runs, marks);
    main.append(BW.el("section", {}, BW.el("div", { class: "bar" }, BW.el("h2", {}, "Curves"), bar), body));
    figures.update(runs, marks);
    return figures;
  };
  const videosOf = (run) => run.embedded.map((video) => BW.el("figure", { class: "video" }, /^data:image/.test(video.data) ? BW.el("img", { src: video.data, alt: `video ${video.file}` }) : BW.el("video", { src: video.data, controls: true, loop: true }), BW.el("figcaption", {}, video.file)));
  const planOf = (run) => BW.section("Plan", ...(run.warnings.length ? [BW.el("ul", { class: "warnings" }, ...run.warnings.map((w) => BW.el("li", {}, w)))] : []), run.plan.length ? BW.planTable(run.plan) : BW.el("p", { class: "muted" }, "The plan cannot be read."));
  const evaluationsOf = (run, figures) => {
    if (!run.evaluations.length) return;
    const frame = BW.el("div", { class: "chart wide" });
    main.append(BW.section("Evaluations", BW.el("p", { class: "note" }, "Every return a dot, quartiles a box, the median a line."), frame));
    BW.distribution(frame, run.evaluations, (e) => { const x = figures.placeOf(run, e.iteration); return x === null ? `${e.iteration}` : BW.AXES[viewState.axis].show(x); });
  };

  const one = (run) => {
    const summary = run.summary;
    main.append(BW.el("div", { class: "head" }, BW.el("h1", {}, summary.name), BW.chip(summary.status), BW.el("span", { class: "muted" }, BW.subtitle(summary))));
    const notes = BW.notes(summary.notes);
    if (notes) main.append(notes);
    main.append(BW.tiles(summary, run.evaluations));
    if (run.picture) { const frame = BW.el("div", { class: "picture-frame" }); main.append(frame); BW.picture(frame, run.picture); }
    main.append(BW.section("Findings", run.findings.length ? BW.advice(run.findings) : BW.el("p", { class: "muted" }, "The doctor has no findings for this run.")));
    if (run.advice.length) main.append(BW.section("Advice during training", BW.advice(run.advice)));
    const figures = curvesSection([{ key: summary.name, label: summary.name, colour: 0, dash: "", curves: run.curves }], Object.keys(run.curves.axes), BW.marksOf(run));
    evaluationsOf(run, figures);
    if (run.embedded.length) main.append(BW.section("Videos", ...videosOf(run)));
    main.append(planOf(run));
    if (run.events.length) main.append(BW.section("Events", BW.events(run.events)));
  };

  const interval = (pair) => (pair ? `${BW.figure(pair[0])} to ${BW.figure(pair[1])}` : "–");
  const several = () => {
    main.append(BW.el("div", { class: "head" }, BW.el("h1", {}, data.title)));
    const swatch = (i) => { const svg = BW.svg("svg", { class: "swatch", viewBox: "0 0 16 8", "aria-hidden": "true" }); svg.append(BW.svg("line", { x1: 0, x2: 16, y1: 4, y2: 4, class: `line c${i % BW.COLOURS}`, "stroke-dasharray": BW.DASHES[Math.floor(i / BW.COLOURS) % BW.DASHES.length] })); return svg; };
    const head = ["setting", "runs", "median", "IQM", "95% interval of the IQM", "lowest", "highest"];
    main.append(BW.section("Results", BW.el("p", { class: "note" }, `One score per run: ${data.score}. The interval resamples runs.`), BW.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "results" }, BW.el("table", {},
      BW.el("thead", {}, BW.el("tr", {}, ...head.map((t, i) => BW.el("th", { scope: "col", class: i ? "value" : "" }, t)))),
      BW.el("tbody", {}, ...data.groups.map((g, i) => { const found = g.scores.map((s) => s.score).filter((s) => s !== null); return BW.el("tr", {}, BW.el("td", {}, swatch(i), g.label), ...[String(g.scores.length), BW.figure(g.median), BW.figure(g.iqm), interval(g.iqm_interval), found.length ? BW.figure(Math.min(...found)) : "–", found.length ? BW.figure(Math.max(...found)) : "–"].map((t) => BW.el("td", { class: "value" }, t))); }))))));
    const first = data.runs[0];
    if (data.groups.length === 1 && first.picture) { const frame = BW.el("div", { class: "picture-frame" }); main.append(frame); BW.picture(frame, first.picture); }
    const grouped = data.groups.map((g, i) => ({ key: g.label, label: g.label, colour: i, dash: BW.DASHES[Math.floor(i / BW.COLOURS) % BW.DASHES.length], curves: g.curves, grouped: true, listed: true }));
    const axes = [...new Set(grouped.flatMap((g) => Object.keys(g.curves.axes)))];
    const bands = [...new Set(data.groups.map((g) => g.curves.band).filter(Boolean))];
    if (bands.length) main.append(BW.el("p", { class: "note spaced" }, "Curves are the median over the runs of a setting; bands are the quartiles from four runs on, else lowest to highest."));
    /* A single setting is drawn as one line. */
    curvesSection(grouped, axes, []);
    main.append(BW.section("Runs", BW.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "runs" }, BW.el("table", { class: "runs compared" },
      BW.el("thead", {}, BW.el("tr", {}, ...["run", "status", "task", "score", "steps"].map((t, i) => BW.el("th", { scope: "col", class: i > 2 ? "value" : "" }, t)))),
      BW.el("tbody", {}, ...data.runs.map((run) => { const s = run.summary, score = data.groups.flatMap((g) => g.scores).find((x) => x.run === s.name); return BW.el("tr", {}, BW.el("td", { class: "name" }, s.name), BW.el("td", { class: "status" }, BW.chip(s.status)), BW.el("td", { class: "task" }, BW.subtitle(s)), BW.el("td", { class: "value return", "data-label": "score" }, BW.figure(score ? score.score : null)), BW.el("td", { class: "value steps" }, s.env_steps === null ? "–" : BW.short(s.env_steps))); })))),
      ...data.runs.filter((run) => run.summary.notes.length).map((run) => BW.notes(run.summary.notes.map((note) => `${run.summary.name}: ${note}`)))));
    const advised = data.runs.filter((run) => run.findings.length);
    if (advised.length) main.append(BW.section("Findings", ...advised.flatMap((run) => [BW.el("h3", {}, run.summary.name), BW.advice(run.findings)])));
    if (data.differing.rows.length) main.append(BW.section("Numbers in which the plans differ", BW.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "differing numbers" }, BW.el("table", { class: "plan" },
      BW.el("thead", {}, BW.el("tr", {}, BW.el("th", { scope: "col" }, "quantity"), ...data.differing.labels.map((label) => BW.el("th", { scope: "col", class: "value" }, label)))),
      BW.el("tbody", {}, ...data.differing.rows.map(([name, ...values]) => BW.el("tr", {}, BW.el("td", { class: "name" }, name), ...values.map((value) => BW.el("td", { class: "value" }, value)))))))));
    if (data.groups.length === 1) main.append(planOf(first));
  };

  const tuned = () => {
    main.append(BW.el("div", { class: "head" }, BW.el("h1", {}, data.title)));
    const body = BW.el("div"), shown = new BW.TuningView(body);
    main.append(body);
    shown.update(data.tuning);
    return [...shown.states.values()];
  };
  const states = data.tuning ? tuned() : [viewState];
  if (!data.tuning) { if (data.groups.length) several(); else one(data.runs[0]); }
  main.append(foot());
  /* Printing includes charts that were never scrolled to and collapsed sections. */
  const printAll = () => {
    for (const draw of BW.resizable) draw(PRINTED_PIXELS);
    for (const node of document.querySelectorAll("details")) node.open = true; for (const chart of states.flatMap((s) => [...s.charts])) if (chart.stale) chart.draw(); };
  window.addEventListener("beforeprint", printAll);
  window.addEventListener("afterprint", () => { for (const draw of BW.resizable) draw(); });
})();
