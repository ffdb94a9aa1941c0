/* The live page: fetches new data once a second and merges it into what it has. */
"use strict";

(() => {
  const POLL_MS = 1000, LOST_MS = 3000;
  const main = document.getElementById("main"), link = document.getElementById("link");
  const curves = new Map();
  const chosen = new Set();
  let state = null, view = null, timer = 0, isPolling = false;

  const routeOf = () => {
    const [, kind, names] = location.hash.split("/");
    const decode = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
    if (kind === "run" && names) return { kind, names: [decode(names)] };
    if (kind === "tuning" && names) return { kind, names: [], tuning: decode(names) };
    if (kind === "compare" && names) return { kind, names: [...new Set(names.split(",").map(decode))].slice(0, 100) };
    return { kind: "list", names: [] };
  };
  const tuningLink = (name) => `#/tuning/${encodeURIComponent(name)}`;
  const runLink = (name) => `#/run/${encodeURIComponent(name)}`;
  const compareLink = (names) => `#/compare/${names.map(encodeURIComponent).join(",")}`;

  const ask = async (path) => {
    const answer = await fetch(path, { headers: { Accept: "application/json" } });
    if (answer.status === 403) throw new Error("open the link that batchwright watch printed: this one has expired");
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return answer.json();
  };

  const merge = (name, fresh) => {
    const old = curves.get(name);
    if (!old || fresh.start === 0 || fresh.closer) { curves.set(name, fresh); return; }
    for (const part of ["axes", "mean", "low", "high"]) for (const key of Object.keys(fresh[part])) {
      const kept = old[part][key] || [];
      kept.length = Math.min(kept.length, fresh.start);
      fresh[part][key] = kept.concat(fresh[part][key]);
    }
    for (const part of ["axes", "mean", "low", "high"]) fresh[part] = { ...old[part], ...fresh[part] };
    curves.set(name, { ...fresh, figures: old.figures });
  };

  const poll = async () => {
    if (isPolling) return;
    isPolling = true;
    clearTimeout(timer);
    let pause = POLL_MS;
    const { names } = view.route, viewState = view.viewState, closer = viewState && viewState.range ? { axis: viewState.axis, low: viewState.range[0], high: viewState.range[1] } : null;
    const query = new URLSearchParams({ points: names.length > 8 ? 128 : names.length > 1 ? 256 : 512, bands: names.length > 1 ? 0 : 1, ...closer });
    for (const name of names) {
      const c = curves.get(name);
      query.append("run", name);
      query.append("known", c && !c.closer && !closer ? `${c.generation}.${c.metrics}.${c.size}.${c.whole}` : "none");
    }
    const requestedBy = view;
    try {
      const fresh = await ask(`/api/state?${query}`);
      state = fresh;
      link.textContent = "live";
      link.className = "live";
      document.getElementById("folder").textContent = fresh.folder;
      const outdated = JSON.stringify(viewState && viewState.range) !== JSON.stringify(closer && [closer.low, closer.high]);
      for (const [name, part] of Object.entries(fresh.curves)) if (part && !outdated) merge(name, { ...part, closer: !!closer });
      if (outdated) pause = 0;
      if (requestedBy === view) await view.update(fresh);
      if (names.some((name) => fresh.curves[name] && !fresh.curves[name].complete)) pause = Math.min(pause, 60);
    } catch (error) {
      link.textContent = error instanceof TypeError ? "no connection; trying again" : error.message;
      link.className = "lost";
      pause = LOST_MS;
    }
    isPolling = false;
    timer = setTimeout(poll, document.hidden ? 5 * pause : pause);
  };

  /* Zooming in or out fetches at once. */
  const pollNow = () => { clearTimeout(timer); timer = setTimeout(poll, 0); };

  const open = () => {
    const route = routeOf();
    if (view && view.close) view.close();
    curves.clear();
    view = { list: listView, run: runView, compare: compareView, tuning: tuningView }[route.kind](route);
    window.scrollTo(0, 0);
    if (state) view.update(state).catch(() => {});
    clearTimeout(timer);
    timer = setTimeout(poll, 0);
  };

  const listView = (route) => BW.runList(route, { main, chosen, ask, runLink, compareLink, tuningLink });

  /* One run. */
  const runView = (route) => {
    const name = route.names[0], viewState = new BW.ViewState();
    const part = (title) => { const node = BW.el("section", { hidden: true }); return { node, fill: (...children) => { node.hidden = !children.length; node.replaceChildren(...(title ? [BW.el("h2", {}, title)] : []), ...children); } }; };
    const head = BW.el("div", { class: "head" }), tiles = BW.el("div"), notes = BW.el("div"), gone = BW.el("p", { class: "banner", hidden: true, role: "status" });
    const advice = part("Advice"), evaluations = part("Evaluations"), videos = part("Videos"), plan = part("Plan"), events = part("Events");
    const picture = BW.el("div", { class: "picture-frame" }), reading = BW.el("p", { class: "muted", hidden: true, role: "status" });
    const body = BW.el("div");
    const figures = new BW.Figures(body, viewState);
    const bar = BW.el("div");
    main.replaceChildren(BW.el("p", { class: "crumbs" }, BW.el("a", { href: "#/" }, "all runs")), head, gone, notes, tiles, picture, advice.node, BW.el("section", {}, BW.el("div", { class: "bar" }, BW.el("h2", {}, "Curves"), bar), reading, body), evaluations.node, videos.node, plan.node, events.node);
    document.title = `${name} · Batchwright`;
    let stamp = "", found = null, axes = "", pictured = "";
    const showCurves = () => {
      const c = curves.get(name);
      if (!c) return;
      const known = Object.keys(c.axes);
      if (known.length && !known.includes(viewState.axis)) viewState.axis = known[0];
      if (axes !== known.join()) { axes = known.join(); bar.replaceChildren(BW.controls(viewState, known)); }
      figures.update([{ key: name, label: name, colour: 0, dash: "", curves: c }], found ? BW.marksOf(found) : []);
      reading.hidden = c.complete;
      reading.textContent = `reading the record: ${Math.round(100 * c.read)}%`;
    };
    viewState.refresh = () => { showCurves(); pollNow(); };
    const showDetails = () => {
      advice.fill(...(found.advice.length ? [BW.advice(found.advice.slice().reverse())] : []));
      if (JSON.stringify(found.picture) !== pictured) { pictured = JSON.stringify(found.picture); if (found.picture) BW.picture(picture, found.picture); else picture.replaceChildren(); }
      if (found.evaluations.length) {
        const frame = BW.el("div", { class: "chart wide" });
        evaluations.fill(BW.el("p", { class: "note" }, "Every return a dot, quartiles a box, the median a line."), frame);
        BW.distribution(frame, found.evaluations, (e) => { const c = curves.get(name), x = c ? figures.placeOf({ curves: c }, e.iteration) : null; return x === null ? `${e.iteration}` : BW.AXES[viewState.axis].show(x); });
      } else evaluations.fill();
      videos.fill(...found.videos.map((file) => { const source = `/video?${new URLSearchParams({ run: name, file })}`; return BW.el("figure", { class: "video" }, /\.gif$/i.test(file) ? BW.el("img", { src: source, alt: `video ${file}`, loading: "lazy" }) : BW.el("video", { src: source, controls: true, loop: true }), BW.el("figcaption", {}, file)); }));
      plan.fill(...(found.warnings.length ? [BW.el("ul", { class: "warnings" }, ...found.warnings.map((w) => BW.el("li", {}, w)))] : []), found.plan.length ? BW.planTable(found.plan) : BW.el("p", { class: "muted" }, "The plan cannot be read."));
      events.fill(found.events.length ? BW.events(found.events) : BW.el("p", { class: "muted" }, `No event but ${found.checkpoints} checkpoint${found.checkpoints === 1 ? "" : "s"}.`));
    };
    const update = async (fresh) => {
      const run = fresh.runs.find((r) => r.name === name);
      gone.hidden = !!run;
      if (!run) {
        gone.textContent = found ? "This run was removed from the folder. Its last data is still shown." : "There is no run of this name in the folder.";
        if (found) { head.replaceChildren(BW.el("h1", {}, name), BW.chip("removed")); showCurves(); }
        return;
      }
      head.replaceChildren(BW.el("h1", {}, name), BW.chip(run.status), ...BW.reason(run), BW.el("span", { class: "muted" }, BW.subtitle(run)), BW.el("span", { class: "muted" }, run.written === null ? "" : `last written ${BW.ago(fresh.now - run.written)} ago`));
      notes.replaceChildren(...[BW.notes(run.notes)].filter(Boolean));
      tiles.replaceChildren(BW.tiles(run, found ? found.evaluations : []));
      showCurves();
      const now = JSON.stringify([run.stamp, run.status, (fresh.curves[name] || {}).videos]);
      if (now !== stamp) {
        found = await ask(`/api/run?${new URLSearchParams({ run: name })}`);
        stamp = now;
        showDetails();
        tiles.replaceChildren(BW.tiles(run, found.evaluations));
        showCurves();
      }
    };
    return { route, update, viewState };
  };

  /* One tuning: asked for again when its ledger has grown. */
  const tuningView = (route) => {
    const name = route.tuning, head = BW.el("div", { class: "head" }, BW.el("h1", {}, name)), gone = BW.el("p", { class: "banner", hidden: true }), body = BW.el("div"), shown = new BW.TuningView(body);
    document.title = `${name} · Batchwright`;
    main.replaceChildren(BW.el("p", { class: "crumbs" }, BW.el("a", { href: "#/" }, "all runs")), head, gone, body);
    let stamp = null;
    const update = async (fresh) => {
      const tuning = fresh.tunings.find((t) => t.name === name);
      gone.hidden = !!tuning;
      gone.textContent = stamp === null ? "There is no tuning of this name in the folder." : "This tuning was removed from the folder. Its last data is still shown.";
      if (!tuning || tuning.stamp === stamp) return;
      const found = await ask(`/api/tuning?${new URLSearchParams({ tuning: name })}`);
      stamp = tuning.stamp;
      head.replaceChildren(BW.el("h1", {}, name), BW.chip(tuning.finished ? "finished" : "not finished"), BW.el("span", { class: "muted" }, `${BW.env(found.env)} · tuning of ${found.algo}`));
      shown.update(found);
    };
    return { route, update };
  };

  /* Several runs overlaid. */
  const compareView = (route) => {
    document.title = `${route.names.length} runs · Batchwright`;
    const viewState = new BW.ViewState(), off = new Set(), known = new Map(), swatches = new Map();
    let groups = null, groupsOf = "", isGrouped = null;
    const grouping = BW.el("input", { type: "checkbox", onchange: () => { isGrouped = grouping.checked; groupsOf = ""; pollNow(); show(); } }), note = BW.el("p", { class: "note", hidden: true });
    const body = BW.el("div"), bar = BW.el("div"), reading = BW.el("p", { class: "muted", hidden: true, role: "status" }), differs = BW.el("section", { hidden: true });
    const figures = new BW.Figures(body, viewState);
    const cells = new Map(), dash = (i) => BW.DASHES[Math.floor(i / BW.COLOURS) % BW.DASHES.length];
    const colour = (swatch, i) => swatch.replaceChildren(BW.svg("line", { x1: 0, x2: 16, y1: 4, y2: 4, class: `line c${i % BW.COLOURS}`, "stroke-dasharray": dash(i) }));
    const rows = route.names.map((name, i) => {
      const box = BW.el("input", { type: "checkbox", "aria-label": `show ${name}`, onchange: () => { if (!off.delete(name)) off.add(name); groupsOf = ""; show(); if (isGrouped) pollNow(); } });
      box.checked = true;
      const swatch = BW.svg("svg", { class: "swatch", viewBox: "0 0 16 8", "aria-hidden": "true" });
      swatches.set(name, swatch);
      colour(swatch, i);
      const own = { status: BW.el("td", { class: "status" }), task: BW.el("td", { class: "task" }), return: BW.el("td", { class: "value return", "data-label": "return" }), evaluation: BW.el("td", { class: "value evaluation", "data-label": "evaluation" }), steps: BW.el("td", { class: "value steps" }) };
      cells.set(name, own);
      return BW.el("tr", {}, BW.el("td", { class: "choose" }, box), BW.el("td", { class: "name" }, swatch, BW.el("a", { href: runLink(name) }, name)), ...Object.values(own));
    });
    const head = BW.el("tr", {}, BW.el("th"), ...["run", "status", "task", "return", "evaluation", "steps"].map((t, i) => BW.el("th", { scope: "col", class: i > 2 ? "value" : "" }, t)));
    main.replaceChildren(BW.el("p", { class: "crumbs" }, BW.el("a", { href: "#/" }, "all runs")), BW.el("div", { class: "head" }, BW.el("h1", {}, `${route.names.length} runs`)),
      BW.el("div", { class: "scroll short", tabindex: "0", role: "region", "aria-label": "runs" }, BW.el("table", { class: "runs compared" }, BW.el("thead", {}, head), BW.el("tbody", {}, ...rows))), differs,
      BW.el("section", {}, BW.el("div", { class: "bar" }, BW.el("h2", {}, "Curves"), BW.el("label", { class: "choices", hidden: route.names.length < 2 }, grouping, "group seeds"), bar), note, reading, body));
    let axes = "";
    const show = () => {
      const there = route.names.map((name, i) => ({ key: name, label: name, colour: i, dash: dash(i), curves: curves.get(name) })).filter((run) => run.curves);
      const shared = ["env_steps", "iteration", "training_seconds"].filter((axis) => there.some((run) => run.curves.axes[axis]));
      if (shared.length && !shared.includes(viewState.axis)) viewState.axis = shared[0];
      if (axes !== shared.join()) { axes = shared.join(); bar.replaceChildren(BW.controls(viewState, shared)); }
      const isOn = isGrouped && groups, place = new Map((isOn ? groups : []).flatMap((g, i) => g.runs.map((name) => [name, i])));
      route.names.forEach((name, i) => colour(swatches.get(name), place.get(name) ?? i));
      note.hidden = !isOn;
      if (isOn) {
        note.textContent = `${groups.length} setting${groups.length === 1 ? "" : "s"}: the median over seeds; bands are the quartiles from four runs on, else lowest to highest.`;
        figures.update(groups.map((g, i) => ({ key: g.label, label: `${g.label} (${g.runs.length})`, colour: i, dash: dash(i), curves: g.curves, grouped: true, listed: true })));
        reading.hidden = there.every((run) => run.curves.complete);
        return;
      }
      const drawn = there.filter((run) => !off.has(run.key) && (run.curves.axes[viewState.axis] || []).length);
      /* A single remaining run keeps the charts of several, so that the layout does not jump. */
      figures.update(drawn.length === 1 ? [...drawn, { ...drawn[0], curves: { axes: {}, mean: {}, low: {}, high: {}, figures: [] } }] : drawn);
      const open = there.filter((run) => !run.curves.complete);
      reading.hidden = !open.length;
      reading.textContent = `reading ${open.length} of ${there.length} records`;
    };
    viewState.refresh = () => { show(); pollNow(); };
    /* Asked for again when a run has grown, a run is left out, or the axis changed. */
    const askForGroups = async (fresh) => {
      const names = route.names.filter((name) => !off.has(name)), rows = fresh.runs.filter((r) => names.includes(r.name)).map((r) => [r.name, r.iteration, r.stamp]);
      const now = JSON.stringify([viewState.axis, names, rows, names.map((name) => (curves.get(name) || {}).rows)]);
      if (isGrouped === false || now === groupsOf || names.length < 2) return;
      groups = (await ask(`/api/groups?${new URLSearchParams([["axis", viewState.axis], ...names.map((name) => ["run", name])])}`)).groups;
      groupsOf = now;
      /* Seeds are grouped without being asked where any setting has several. */
      if (isGrouped === null && groups.length) { isGrouped = groups.some((g) => g.runs.length > 1); grouping.checked = isGrouped; }
    };
    const showDiffering = async () => {
      const fresh = route.names.slice(0, 20).filter((name) => cells.has(name) && !known.has(name));
      for (const name of fresh) { known.set(name, null); try { known.set(name, await ask(`/api/run?${new URLSearchParams({ run: name })}`)); } catch { /* the run was removed: its row shows that */ } }
      if (!fresh.length) return;
      const plans = [...known].filter(([, d]) => d && d.plan.length).map(([name, d]) => [name, new Map(d.plan.map((row) => [row[0], row[1]]))]);
      const names = [...new Set(plans.flatMap(([, plan]) => [...plan.keys()]))].filter((key) => new Set(plans.map(([, plan]) => plan.get(key))).size > 1);
      differs.hidden = !names.length;
      differs.replaceChildren(BW.el("details", {}, BW.el("summary", {}, BW.el("h2", {}, `Plans differ in ${names.length} number${names.length === 1 ? "" : "s"}`)), BW.el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "differing numbers" }, BW.el("table", { class: "plan" },
        BW.el("thead", {}, BW.el("tr", {}, BW.el("th", { scope: "col" }, "quantity"), ...plans.map(([name]) => BW.el("th", { scope: "col", class: "value" }, name)))),
        BW.el("tbody", {}, ...names.map((key) => BW.el("tr", {}, BW.el("td", { class: "name" }, key), ...plans.map(([, plan]) => BW.el("td", { class: "value" }, plan.get(key) || "–")))))))));
    };
    const update = async (fresh) => {
      for (const name of route.names) {
        const run = fresh.runs.find((r) => r.name === name), own = cells.get(name);
        if (!run) { own.status.replaceChildren(BW.chip("removed")); continue; }
        own.status.replaceChildren(BW.chip(run.status), ...BW.reason(run));
        own.task.textContent = BW.subtitle(run);
        own.return.textContent = BW.figure(run.return);
        own.evaluation.textContent = BW.figure(run.evaluation);
        own.steps.textContent = run.env_steps === null ? "–" : BW.short(run.env_steps);
      }
      await askForGroups(fresh);
      show();
      await showDiffering();
    };
    return { route, update, viewState };
  };

  window.addEventListener("hashchange", () => { if (location.hash === "#main") return; open(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
  open();
})();
