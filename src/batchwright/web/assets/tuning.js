/* The report of a tuning: verdict, phases, what each number did, cost. */
"use strict";

BW.tuningReport = (main, tuning, curvesSection) => {
  const number = (value, digits = 4) => (value === null || value === undefined ? "–" : Number(value.toPrecision(digits)).toLocaleString("en"));
  const pair = (values, digits = 4) => (values ? `${number(values[0], digits)} to ${number(values[1], digits)}` : "–");
  const table = (label, head, rows) => BW.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, BW.el("table", {},
    BW.el("thead", {}, BW.el("tr", {}, ...head.map((t, i) => BW.el("th", { scope: "col", class: i ? "value" : "" }, t)))),
    BW.el("tbody", {}, ...rows.map((cells) => BW.el("tr", {}, ...cells.map((t, i) => BW.el("td", { class: i ? "value" : "" }, String(t))))))));
  const note = (text) => BW.el("p", { class: "note" }, text);

  main.append(BW.el("div", { class: "head" }, BW.el("h1", {}, `${tuning.env}: tuning of ${tuning.algo}`)));
  const verdict = tuning.verdict;
  if (verdict) {
    const head = ["setting", "IQM", "95% interval", "last return", "P(better than default)", "95% interval", "p", "tuning - judging", "seeds", "failed"];
    const rows = verdict.rows.map((r) => [r.label, number(r.iqm), pair(r.iqm_interval), number(r.final_iqm), number(r.probability, 2), pair(r.probability_interval, 2), number(r.p_value, 2), number(r.fell), r.scores.length, r.failed.length]);
    main.append(BW.section(verdict.winner === null ? "No winner" : `Winner: ${verdict.winner}`,
      note(`${verdict.reason}. Score: mean of ${tuning.objective} over the ${number(tuning.unit_steps, 12)} steps of a training. Judged on seeds that no decision has seen.`), table("verdict", head, rows)));
  } else main.append(BW.section("Not finished", note("Best settings so far are at the top of each phase.")));
  const cost = tuning.cost, expected = cost.expected;
  main.append(BW.section("Cost", table("cost", ["", "so far", "forecast"], [
    ["units", cost.units, expected.units === null ? "–" : `at most ${number(expected.units, 9)}`],
    ["environment steps", number(cost.env_steps, 12), expected.steps === null ? "–" : `at most ${number(expected.steps, 12)}`],
    ["minutes", number(cost.seconds / 60, 3), expected.seconds === null ? "–" : `${number(expected.seconds / 60, 3)}, within ${Math.round(expected.within * 100)}%`],
    ["units that failed", cost.failed, ""], ["units that the budget did not allow", cost.skipped, ""]])));
  for (const phase of tuning.phases) {
    const section = [...(phase.best === null ? [] : [note(`Kept: ${phase.best}.`)]), ...phase.edges.map((text) => BW.el("ul", { class: "warnings" }, BW.el("li", {}, text)))];
    main.append(BW.section(`Phase ${phase.title}`, ...section, table(phase.title, ["setting", "mean score", "units"], phase.rows.map(([label, mean, units]) => [label, number(mean), units]))));
    const runs = phase.curves.map((c, i) => ({ key: c.label, label: c.label, colour: i, dash: BW.DASHES[Math.floor(i / BW.COLOURS) % BW.DASHES.length], curves: c.curves, grouped: true, listed: true }));
    const axes = [...new Set(runs.flatMap((r) => Object.keys(r.curves.axes)))];
    if (axes.length) curvesSection(runs, axes, []);
  }
  if (tuning.effects.length) main.append(BW.section("What each number did", note("Means over all settings of the tuning that had a value; other numbers differ between them. The numbers that moved the score most come first."),
    ...tuning.effects.map((e) => BW.el("div", {}, BW.el("h3", {}, `${e.name} (default ${e.default})`), table(e.name, ["value", "mean score", "lowest", "highest", "units"], e.rows.map(([value, mean, low, high, units]) => [value, number(mean), number(low), number(high), units]))))));
  if (tuning.failed.length) main.append(BW.section("Units without a score", table("failed units", ["setting", "seed", "status", "reason"], tuning.failed)));
};
