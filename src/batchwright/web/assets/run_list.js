/* The list of runs: order, filter, groups of seeds, columns of hyper-parameters, tags, hidden runs, CSV. */
"use strict";

/* What a person chose for a folder; kept by the browser, because the server only reads. */
BW.Choices = class {
  constructor(folder) {
    this.key = `batchwright:${folder}`;
    let kept = {};
    try { kept = JSON.parse(localStorage.getItem(this.key)) || {}; } catch { /* no storage here: choices last as long as the page */ }
    this.hidden = new Set(kept.hidden || []);
    this.tags = new Map(Object.entries(kept.tags || {}));
    this.columns = kept.columns || [];
    this.grouped = !!kept.grouped;
  }
  keep() { try { localStorage.setItem(this.key, JSON.stringify({ hidden: [...this.hidden], tags: Object.fromEntries(this.tags), columns: this.columns, grouped: this.grouped })); } catch { /* as above */ } }
};

BW.COLUMNS = [
  ["name", "run", (r) => r.name], ["status", "status", (r) => r.status], ["task", "task", (r) => `${r.env} ${r.algo}`],
  ["return", "return", (r) => r.return], ["evaluation", "evaluation", (r) => r.evaluation], ["progress", "progress", (r) => BW.fraction(r)],
  ["steps", "steps", (r) => r.env_steps], ["written", "last written", (r) => r.written],
];
BW.median = (values) => { const v = values.filter((x) => x !== null && x !== undefined).sort((a, b) => a - b); return v.length ? (v[(v.length - 1) >> 1] + v[v.length >> 1]) / 2 : null; };
BW.listState = { order: { column: "written", down: true }, filter: "", showHidden: false, folded: new Set() };

BW.runList = (route, { main, chosen, ask, runLink, compareLink, tuningLink }) => {
  document.title = "Batchwright";
  const state = BW.listState, rows = new Map(), heads = new Map(), groupRows = new Map();
  let choices = null, settings = {}, settingsOf = "";
  const body = BW.el("tbody"), headRow = BW.el("tr");
  const compare = BW.el("a", { class: "button", href: "#/" }, "compare");
  const all = BW.el("input", { type: "checkbox", "aria-label": "choose all shown", onchange: () => { for (const [name, row] of rows) if (!row.tr.hidden) { row.box.checked = all.checked; chosen[all.checked ? "add" : "delete"](name); } updateCompareButton(); } });
  const search = BW.el("input", { type: "search", placeholder: "filter runs and tags", "aria-label": "filter runs", value: state.filter, oninput: () => { state.filter = search.value; arrange(); } });
  const grouping = BW.el("input", { type: "checkbox", onchange: () => { choices.grouped = grouping.checked; choices.keep(); arrange(); } });
  const pick = BW.el("div", { class: "menu" }), menu = BW.el("details", { class: "picker" }, BW.el("summary", { class: "toggle" }, "columns"), pick);
  const unhide = BW.el("button", { type: "button", class: "toggle", hidden: true, onclick: () => { state.showHidden = !state.showHidden; arrange(); } });
  const saving = BW.el("button", { type: "button", class: "toggle", title: "save the shown rows", onclick: () => BW.save("runs.csv", toCsv(), "text/csv") }, "CSV");
  const empty = BW.el("div", { class: "empty-state", hidden: true }), notes = BW.el("p", { class: "muted" }), count = BW.el("span", { class: "muted" }), tunings = BW.el("section", { hidden: true });
  const table = BW.el("table", { class: "runs" }, BW.el("thead", {}, headRow), body);
  const tools = BW.el("span", { class: "choices tools" }, BW.el("label", {}, grouping, "group seeds"), menu, saving, unhide);
  main.replaceChildren(BW.el("div", { class: "bar" }, BW.el("h1", {}, "Runs"), count, search, tools, compare), empty, BW.el("div", { class: "scroll" }, table), notes, tunings);

  const valueIn = (name, key) => (settings[name] ? settings[name].plan[key] : undefined);
  const asNumber = (text) => { const n = Number(String(text).replaceAll(",", "")); return text === undefined || text === "" ? null : Number.isFinite(n) ? n : text; };
  const columns = () => [...BW.COLUMNS.slice(0, 3), ...(choices ? choices.columns : []).map((key) => [`plan:${key}`, key, (r) => asNumber(valueIn(r.name, key))]), ...BW.COLUMNS.slice(3)];
  const drawHead = () => {
    heads.clear();
    for (const [key, title] of columns()) {
      const button = BW.el("button", { type: "button", onclick: () => { state.order = { column: key, down: state.order.column === key ? !state.order.down : !["name", "status", "task"].includes(key) }; arrange(); } }, title);
      heads.set(key, BW.el("th", { scope: "col", class: key.startsWith("plan:") ? "value" : key }, button));
    }
    headRow.replaceChildren(BW.el("th", { class: "choose" }, all), ...heads.values());
    for (const row of rows.values()) row.shown = "";
  };
  const drawPicker = () => {
    const names = [...new Set(Object.values(settings).flatMap((s) => Object.keys(s.plan)))];
    const differs = (key) => new Set(Object.values(settings).map((s) => s.plan[key])).size > 1;
    const box = (key) => { const input = BW.el("input", { type: "checkbox", onchange: () => { choices.columns = input.checked ? [...choices.columns, key] : choices.columns.filter((c) => c !== key); choices.keep(); drawHead(); refill(); } }); input.checked = choices.columns.includes(key); return BW.el("label", {}, input, key); };
    const part = (title, keys) => (keys.length ? [BW.el("b", {}, title), ...keys.map(box)] : []);
    pick.replaceChildren(...part("different among these runs", names.filter(differs)), ...part("the same in all", names.filter((key) => !differs(key))));
  };
  const editTag = (name) => {
    const row = rows.get(name), field = BW.el("input", { type: "text", class: "tagging", maxlength: 60, value: choices.tags.get(name) || "", placeholder: "tag", "aria-label": `tag of ${name}` });
    const done = () => { const text = field.value.trim(); if (text) choices.tags.set(name, text); else choices.tags.delete(name); choices.keep(); row.editing = false; row.shown = ""; refill(); };
    row.editing = true;
    field.addEventListener("keydown", (event) => { if (event.key === "Enter") field.blur(); if (event.key === "Escape") { field.value = choices.tags.get(name) || ""; field.blur(); } });
    field.addEventListener("blur", done);
    row.marks.replaceChildren(field);
    field.focus();
  };
  const hide = (name) => { if (!choices.hidden.delete(name)) { choices.hidden.add(name); chosen.delete(name); rows.get(name).box.checked = false; } choices.keep(); rows.get(name).shown = ""; refill(); updateCompareButton(); };
  const updateCompareButton = () => {
    const names = [...rows.keys()].filter((name) => chosen.has(name));
    compare.href = names.length ? compareLink(names) : "#/";
    compare.textContent = names.length ? `compare ${names.length}` : "compare";
    compare.setAttribute("aria-disabled", String(!names.length));
    compare.title = names.length ? "" : "choose runs first";
  };
  const add = (name) => {
    const box = BW.el("input", { type: "checkbox", "aria-label": `choose ${name}`, onchange: () => { chosen[box.checked ? "add" : "delete"](name); updateCompareButton(); } });
    box.checked = chosen.has(name);
    const row = { box, tr: BW.el("tr"), marks: BW.el("span", { class: "marks" }), shown: "", editing: false };
    rows.set(name, row);
    return row;
  };
  const fill = (row, run, now) => {
    const share = BW.fraction(run), age = BW.ago(run.written === null ? null : now - run.written), key = JSON.stringify([run, age]);
    row.run = run;
    row.now = now;
    if (row.shown === key || row.editing) return;
    row.shown = key;
    const name = run.name, tag = choices.tags.get(name), small = (label, title, onclick) => BW.el("button", { type: "button", class: "toggle quiet", title, onclick }, label);
    row.marks.replaceChildren(...(tag ? [] : [small("tag", "write a tag", () => editTag(name))]), small(choices.hidden.has(name) ? "show" : "hide", "hide the run in this list", () => hide(name)));
    const cells = {
      name: [BW.el("a", { href: runLink(name) }, name), " ", ...(tag ? [BW.el("button", { type: "button", class: "tag", title: "change the tag", onclick: () => editTag(name) }, tag)] : []), row.marks],
      status: [BW.chip(run.status), ...(run.advice ? [BW.el("span", { class: "count", title: "advice" }, run.advice === 1 ? "1 finding" : `${run.advice} findings`)] : []), ...(run.notes.length ? [BW.el("span", { class: "count", title: run.notes.join("\n") }, "note")] : []), ...BW.reason(run)],
      task: [BW.el("span", { title: run.env }, BW.env(run.env) || "–"), " ", BW.el("small", {}, [run.algo, run.seed === null ? "" : `seed ${run.seed}`].filter(Boolean).join(", "))],
      return: [BW.figure(run.return)], evaluation: [BW.figure(run.evaluation)], progress: [share === null ? "–" : BW.bar(share, `${Math.round(100 * share)}%`)],
      steps: [run.env_steps === null ? "–" : BW.short(run.env_steps)], written: [age === "–" || age === "in the future" ? age : `${age} ago`],
    };
    row.tr.replaceChildren(BW.el("td", { class: "choose" }, row.box), ...columns().map(([column, title]) => (cells[column] ? BW.el("td", { class: column, "data-label": column === "return" ? column : null }, ...cells[column]) : BW.el("td", { class: "value plan-value", "data-label": title }, valueIn(name, title) || "–"))));
  };
  const refill = () => { for (const row of rows.values()) if (row.run) fill(row, row.run, row.now); arrange(); };
  const matches = (run) => state.filter.toLowerCase().split(/\s+/).every((word) => `${run.name} ${run.env} ${run.algo} ${run.status} ${choices.tags.get(run.name) || ""}`.toLowerCase().includes(word));
  const sorted = () => {
    const column = columns().find(([key]) => key === state.order.column) || BW.COLUMNS[7], sign = state.order.down ? -1 : 1;
    const missing = (v) => v === null || v === undefined || v === "";
    return [...rows.values()].sort((a, b) => {
      const [x, y] = [column[2](a.run), column[2](b.run)];
      if (missing(x) || missing(y)) return missing(x) - missing(y) || (a.run.name < b.run.name ? -1 : 1);
      return (x < y ? -sign : x > y ? sign : a.run.name < b.run.name ? -1 : 1);
    });
  };
  /* A row above the runs of one setting: their number, and medians over them. */
  const groupRow = (key, label, members) => {
    const found = groupRows.get(key) || { tr: BW.el("tr", { class: "group" }), box: BW.el("input", { type: "checkbox" }) };
    groupRows.set(key, found);
    const names = members.map((row) => row.run.name), folded = state.folded.has(key);
    found.box.setAttribute("aria-label", `choose ${label}`);
    found.box.checked = names.every((name) => chosen.has(name));
    found.box.onchange = () => { for (const row of members) { row.box.checked = found.box.checked; chosen[found.box.checked ? "add" : "delete"](row.run.name); } updateCompareButton(); };
    const fold = BW.el("button", { type: "button", class: "fold", "aria-expanded": String(!folded), onclick: () => { if (!state.folded.delete(key)) state.folded.add(key); arrange(); } }, label);
    const common = (key) => { const values = new Set(names.map((name) => valueIn(name, key))); return values.size === 1 ? [[...values][0] || "–"] : []; };
    const cells = { name: [fold, BW.el("small", {}, ` ${names.length} run${names.length === 1 ? "" : "s"}`)], return: [BW.figure(BW.median(members.map((m) => m.run.return)))], evaluation: [BW.figure(BW.median(members.map((m) => m.run.evaluation)))] };
    found.tr.replaceChildren(BW.el("td", { class: "choose" }, found.box), ...columns().filter(([column]) => column !== "status" && column !== "task").map(([column, title]) => (column.startsWith("plan:") ? BW.el("td", { class: "value plan-value", "data-label": title }, ...common(title))
      : BW.el("td", { class: column, colspan: column === "name" ? 3 : null, "data-label": column === "return" ? "median return" : null, title: cells[column] && column !== "name" ? "median over the runs" : null }, ...(cells[column] || [])))));
    return found.tr;
  };
  const arrange = () => {
    if (!choices) return;
    const ordered = sorted().filter((row) => row.run), lines = [], byGroup = new Map();
    for (const row of ordered) row.tr.hidden = !matches(row.run) || (choices.hidden.has(row.run.name) && !state.showHidden);
    for (const row of ordered) row.tr.classList.toggle("faded", choices.hidden.has(row.run.name));
    const visible = ordered.filter((row) => !row.tr.hidden);
    if (choices.grouped) {
      for (const row of visible) { const s = settings[row.run.name], key = s ? s.group : -1; byGroup.set(key, [...(byGroup.get(key) || []), row]); }
      for (const [key, members] of byGroup) {
        lines.push(groupRow(key, key === -1 ? "reading the plans" : settings[members[0].run.name].label, members));
        for (const row of members) { row.tr.hidden = state.folded.has(key); lines.push(row.tr); }
      }
      lines.push(...ordered.filter((row) => !visible.includes(row)).map((row) => row.tr));
    } else lines.push(...ordered.map((row) => row.tr));
    lines.forEach((line, i) => { if (body.children[i] !== line) body.insertBefore(line, body.children[i] || null); });
    while (body.children.length > lines.length) body.lastChild.remove();
    for (const [key, head] of heads) { if (key === state.order.column) head.setAttribute("aria-sort", state.order.down ? "descending" : "ascending"); else head.removeAttribute("aria-sort"); }
    count.textContent = visible.length === rows.size ? `${rows.size}` : `${visible.length} of ${rows.size}`;
    const put = [...rows.keys()].filter((name) => choices.hidden.has(name)).length;
    unhide.hidden = !put;
    unhide.textContent = state.showHidden ? "leave out hidden" : `show ${put} hidden`;
  };
  const toCsv = () => {
    const shown = columns().filter(([key]) => key !== "task" && key !== "progress"), kept = sorted().filter((row) => row.run && !row.tr.hidden);
    const cell = (run, [key, , value]) => (key === "status" ? run.status : key === "written" && run.written !== null ? new Date(1000 * run.written).toISOString() : value(run));
    return BW.csv([[...shown.map(([, title]) => title), "env", "algo", "seed", "iteration", "reason", "tag", "group"],
      ...kept.map(({ run }) => [...shown.map((column) => cell(run, column)), run.env, run.algo, run.seed, run.iteration, run.reason, choices.tags.get(run.name) || "", settings[run.name] ? settings[run.name].label : ""])]);
  };
  let listed = "";
  const listTunings = (found) => {
    tunings.hidden = !found.length;
    if (listed === JSON.stringify(found)) return;
    listed = JSON.stringify(found);
    const row = (t) => BW.el("tr", {}, BW.el("td", { class: "name" }, BW.el("a", { href: tuningLink(t.name) }, t.name)), BW.el("td", {}, `${BW.env(t.env)} `, BW.el("small", {}, t.algo)),
      BW.el("td", {}, BW.bar(t.most_units && !t.finished ? Math.min(1, t.units / t.most_units) : t.finished ? 1 : null, `${t.units}${t.most_units ? ` of at most ${t.most_units}` : ""} units`)), BW.el("td", {}, t.finished ? (t.winner === null ? "no winner" : `winner: ${t.winner}`) : t.phase ? `phase ${t.phase}` : "measuring"));
    tunings.replaceChildren(BW.el("h2", {}, "Tunings"), BW.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "tunings" }, BW.el("table", {}, BW.el("thead", {}, BW.el("tr", {}, ...["tuning", "task", "progress", "outcome"].map((t) => BW.el("th", { scope: "col" }, t)))), BW.el("tbody", {}, ...found.map(row)))));
  };
  /* The numbers of the plans: asked for when a run or a plan is new, and needed by groups and columns. */
  const askForSettings = async (fresh) => {
    const now = JSON.stringify(fresh.runs.map((run) => [run.name, run.stamp.slice(2)]));
    if (now === settingsOf || !fresh.runs.length) return;
    settings = (await ask("/api/settings")).runs;
    settingsOf = now;
    for (const row of rows.values()) row.shown = "";
    drawPicker();
  };
  const update = async (fresh) => {
    if (!choices) { choices = new BW.Choices(fresh.folder); grouping.checked = choices.grouped; drawHead(); }
    const names = new Set(fresh.runs.map((run) => run.name));
    for (const [name, row] of rows) if (!names.has(name)) { row.tr.remove(); rows.delete(name); chosen.delete(name); }
    const show = () => { for (const run of fresh.runs) fill(rows.get(run.name) || add(run.name), run, fresh.now); arrange(); updateCompareButton(); };
    show();
    listTunings(fresh.tunings);
    table.hidden = tools.hidden = !rows.size;
    empty.hidden = !!rows.size;
    if (!rows.size) empty.replaceChildren(BW.el("p", {}, `There is no run in ${fresh.folder} yet. One appears here as soon as it starts:`), BW.el("pre", {}, "batchwright train CartPole-v1"));
    notes.textContent = fresh.links ? `${fresh.links} link${fresh.links > 1 ? "s" : ""} in this folder ${fresh.links > 1 ? "are" : "is"} not followed.` : "";
    const before = settingsOf;
    await askForSettings(fresh);
    if (settingsOf !== before) show();
  };
  return { route, update };
};
