/* A tuning, on the live page and in the report: phases, settings, what each number did, verdict, cost.
   A part is built anew when its data has changed, so that what a reader has opened or zoomed stays. */
"use strict";

BW.TuningView = class {
  constructor(parent) { Object.assign(this, { parent, shown: new Map(), states: new Map() }); }

  update(tuning) {
    const parts = this.parts(tuning).filter(([, data]) => data !== null);
    const names = parts.map(([name]) => name);
    for (const name of [...this.shown.keys()]) if (!names.includes(name)) { this.shown.get(name).node.remove(); this.shown.delete(name); this.states.delete(name); }
    parts.forEach(([name, data, build], i) => {
      const text = JSON.stringify(data), old = this.shown.get(name);
      if (!old || old.text !== text) {
        const node = build(data);
        if (old) old.node.replaceWith(node);
        else this.parent.insertBefore(node, this.parent.children[i] || null);
        this.shown.set(name, { text, node });
        if (node.fill) node.fill();
      }
    });
  }

  parts(t) {
    return [
      ["verdict", [t.verdict, t.objective, t.unit_steps, t.edges, BW.bestSoFar(t)], (d) => this.verdict(...d)],
      ["cost", [t.cost, t.phases.map((p) => [p.letter, p.title, p.units, p.most_units, p.decided])], (d) => this.progress(...d)],
      ["settings", t.settings.length ? [t.settings, t.axes] : null, (d) => this.settings(...d)],
      ["effects", t.effects.length ? t.effects : null, (d) => this.effects(d)],
      ["interactions", t.interactions.length ? t.interactions : null, (d) => this.interactions(d)],
      ...t.phases.filter((phase) => phase.units || phase.seen.length).map((phase) => [`phase ${phase.letter}`, phase, (d) => this.phase(d)]),
      ["failed", t.failed.length ? t.failed : null, (d) => BW.section("Units without a score", BW.table("failed units", ["setting", "seed", "status", "reason"], d, 0))],
    ];
  }

  verdict(verdict, objective, steps, edges, best) {
    const warnings = edges.length ? [BW.el("ul", { class: "notes", "aria-label": "edges of ranges" }, ...edges.map((text) => BW.el("li", {}, text)))] : [];
    const score = `Score: mean of ${objective} over the ${BW.exact(steps, 12)} steps of a training.`;
    if (!verdict) return BW.section("Not finished", BW.note(best ? `Best so far: ${best.label}, score ${BW.exact(best.score)}; ${best.phase === "default" ? "it is the default" : `found in phase ${best.phase}`}. Nothing is judged yet. ${score}` : `Nothing is scored yet. ${score}`), ...warnings);
    const head = ["setting", "IQM", "95% interval", "last return", "P(better than default)", "95% interval", "p", "tuning − judging", "seeds", "failed"];
    const rows = verdict.rows.map((r) => [r.label, BW.exact(r.iqm), BW.pair(r.iqm_interval), BW.exact(r.final_iqm), BW.exact(r.probability, 2), BW.pair(r.probability_interval, 2), BW.exact(r.p_value, 2), BW.exact(r.fell), r.scores.length, r.failed.length]);
    return BW.section(verdict.winner === null ? "No winner" : `Winner: ${verdict.winner}`, BW.note(`${verdict.reason}. ${score} Judged on seeds that no decision has seen.`), BW.table("verdict", head, rows), ...warnings);
  }

  progress(cost, phases) {
    const expected = cost.expected, known = expected.units !== null && expected.units !== undefined;
    const now = phases.findIndex((p) => !p[4] && p[2] < (p[3] || Infinity));
    const strip = BW.el("ol", { class: "phases", "aria-label": "phases" }, ...phases.map(([letter, title, units, most, decided], i) => BW.el("li", { class: decided || (units && (now < 0 || i < now)) ? "done" : i === now ? "now" : "" },
      BW.el("b", {}, /^.: /.test(title) ? title.slice(3) : title), BW.el("small", {}, `${/^.: /.test(title) ? `phase ${letter}, ` : ""}${units} of ${most === null || most === undefined ? "?" : `at most ${most}`} units`))));
    const share = (done, all) => (known && all ? `${Math.round((100 * done) / all)}% of the forecast` : "");
    const tiles = BW.el("dl", { class: "tiles" },
      BW.tile("units", BW.exact(cost.units, 9), known ? `of at most ${BW.exact(expected.units, 9)}` : ""),
      BW.tile("environment steps", BW.short(cost.env_steps), known ? `of at most ${BW.short(expected.steps)}, ${share(cost.env_steps, expected.steps)}` : ""),
      BW.tile("minutes", BW.exact(cost.seconds / 60, 3), known ? `forecast ${BW.exact(expected.seconds / 60, 3)} within ${Math.round(expected.within * 100)}%; ${share(cost.seconds, expected.seconds)}` : ""),
      BW.tile("failed units", String(cost.failed), cost.units ? `${Math.round((100 * cost.failed) / cost.units)}% of all` : ""),
      BW.tile("left out", String(cost.skipped), "units that the budget did not allow"));
    return BW.section("Phases and cost", strip, tiles);
  }

  settings(settings, axes) {
    const frame = BW.el("div", { class: "chart wide" });
    const ranked = settings.slice().sort((a, b) => (b.score === null ? -Infinity : b.score) - (a.score === null ? -Infinity : a.score));
    const rows = ranked.map((s, i) => [String(i + 1), s.label, s.phase, BW.exact(s.score), ...axes.map((name) => BW.value(s.values[name]))]);
    const node = BW.section("Settings", ...(axes.length ? [BW.note("Each line is a setting, from the values of the numbers that moved the score most to its mean score. The best three are strong, the default is dashed."), frame] : []),
      BW.el("details", { open: settings.length <= 12 }, BW.el("summary", {}, BW.el("h3", {}, `All ${settings.length} settings, the best first`)), BW.table("settings", ["rank", "setting", "phase", "mean score", ...axes], rows, 3)));
    if (axes.length) node.fill = () => BW.parallel(frame, ranked, axes);
    return node;
  }

  effects(effects) {
    const grid = BW.el("div", { class: "grid" }), fills = [];
    for (const e of effects) {
      const frame = BW.el("div", { class: "frame" });
      fills.push(() => BW.effect(frame, e));
      grid.append(BW.el("figure", { class: "chart wide" }, BW.el("figcaption", {}, BW.el("span", { class: "title" }, e.name), BW.el("span", { class: "unit" }, `default ${e.default}`), BW.el("span", { class: "now", title: "highest mean minus lowest mean" }, BW.exact(e.range, 3))), frame));
    }
    const rows = effects.flatMap((e) => e.rows.map(([value, mean, low, high, units]) => [e.name, value, BW.exact(mean), BW.exact(low), BW.exact(high), units]));
    const node = BW.section("What each number did", BW.note("A dot is a unit, a bar the mean of all units with that value; other numbers differ between them. Beside the name: by how much the means differ; the numbers that moved the score most come first."), grid,
      BW.el("details", {}, BW.el("summary", {}, BW.el("h3", {}, "As a table")), BW.table("effects", ["number", "value", "mean score", "lowest", "highest", "units"], rows)));
    node.fill = () => fills.forEach((fill) => fill());
    return node;
  }

  interactions(pairs) {
    const grid = BW.el("div", { class: "grid" }), fills = [];
    for (const pair of pairs) {
      const frame = BW.el("div", { class: "frame" });
      fills.push(() => BW.heat(frame, pair));
      const noise = pair.noise === null ? "no combination was tried twice, so the noise is not known" : `scores of one combination lie ${BW.exact(pair.noise, 3)} apart`;
      grid.append(BW.el("figure", { class: "chart wide" }, BW.el("figcaption", {}, BW.el("span", { class: "title" }, `${pair.names[0]} and ${pair.names[1]}`)), frame, BW.el("p", { class: "note" }, `${BW.exact(pair.beyond, 3)} beyond a sum of two effects; ${noise}.`)));
    }
    const node = BW.section("What numbers did together", BW.note("Mean scores of combinations. Pairs whose effects add up the least come first; what is not larger than the noise means nothing."), grid);
    node.fill = () => fills.forEach((fill) => fill());
    return node;
  }

  phase(phase) {
    const state = new BW.ViewState(), bar = BW.el("div"), body = BW.el("div"), figures = new BW.Figures(body, state);
    this.states.set(`phase ${phase.letter}`, state);
    const runs = phase.curves.map((c, i) => ({ key: c.label, label: c.label, colour: i, dash: BW.DASHES[Math.floor(i / BW.COLOURS) % BW.DASHES.length], curves: { ...c.curves, figures: c.curves.figures.map((f) => ({ ...f, note: "the median over the seeds of a setting; the band from lowest to highest, quartiles from four seeds on" })) }, grouped: true, listed: true }));
    const axes = [...new Set(runs.flatMap((r) => Object.keys(r.curves.axes)))];
    if (axes.length && !axes.includes(state.axis)) state.axis = axes[0];
    if (axes.length) bar.append(BW.controls(state, axes));
    state.refresh = () => figures.update(runs);
    const scores = (found) => (found.length > 1 ? found.map((s) => (s === null ? "failed" : BW.exact(s))).join(", ") : "");
    const several = phase.rows.some((row) => row[2].length > 1);
    const node = BW.el("section", {}, BW.el("div", { class: "bar" }, BW.el("h2", {}, /^[A-Z]: /.test(phase.title) ? `Phase ${phase.title}` : phase.title[0].toUpperCase() + phase.title.slice(1)), bar),
      ...(phase.best === null ? [] : [BW.note(`Kept: ${phase.best}.`)]), ...(phase.seen.length ? [BW.note(`${phase.seen.join("; ")}.`)] : []),
      ...phase.edges.map((text) => BW.el("ul", { class: "warnings" }, BW.el("li", {}, text))),
      ...(phase.rows.length ? [BW.table(phase.title, ["setting", "mean score", ...(several ? ["of its seeds"] : [])], phase.rows.map(([label, mean, found, status]) => [label, mean === null ? status : BW.exact(mean), ...(several ? [scores(found)] : [])]))] : []), ...(axes.length ? [body] : []));
    if (axes.length) { body.classList.add("spaced"); node.fill = () => figures.update(runs); }
    return node;
  }
};

/* A setting breaks between its flags, never within one. */
BW.flags = (text) => text.split(/ (?=--)/).flatMap((flag) => [BW.el("span", { class: "flag" }, flag), " "]);
BW.exact = (value, digits = 4) => (value === null || value === undefined ? "–" : Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits }).replace("-", "−"));
BW.pair = (values, digits = 4) => (values ? `${BW.exact(values[0], digits)} to ${BW.exact(values[1], digits)}` : "–");
BW.value = (value) => (typeof value === "number" ? String(Number(value.toPrecision(5))) : String(value));
BW.note = (text) => BW.el("p", { class: "note" }, text);
BW.bestSoFar = (tuning) => tuning.settings.filter((s) => s.score !== null).reduce((best, s) => (best && best.score >= s.score ? best : s), null);
BW.table = (label, head, rows, textual = 1) => BW.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, BW.el("table", {},
  BW.el("thead", {}, BW.el("tr", {}, ...head.map((t, i) => BW.el("th", { scope: "col", class: textual && i >= textual ? "value" : "" }, t)))),
  BW.el("tbody", {}, ...rows.map((cells) => BW.el("tr", {}, ...cells.map((t, i) => BW.el("td", { class: textual && i >= textual ? "value" : head[i] === "setting" || head[i] === "reason" ? "setting" : "" }, ...(head[i] === "setting" ? BW.flags(String(t)) : [String(t)]))))))));
