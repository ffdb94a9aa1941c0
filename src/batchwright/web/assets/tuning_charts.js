/* Charts of a tuning: parallel coordinates, the effect of one number, the scores of two together. */
"use strict";

/* Where a value lies between 0 and 1, and the labels of an axis. Numbers over more than a factor of 10 are logarithmic. */
BW.scaleOf = (values) => {
  const numbers = values.every((v) => typeof v === "number"), distinct = [...new Set(values)].sort((a, b) => (numbers ? a - b : String(a) < String(b) ? -1 : 1));
  if (!numbers || distinct.length < 2) return { place: (v) => (distinct.length < 2 ? 0.5 : distinct.indexOf(v) / (distinct.length - 1)), labels: distinct };
  const low = distinct[0], high = distinct[distinct.length - 1], log = low > 0 && high / low > 10, of = log ? Math.log : (v) => v;
  return { place: (v) => (of(v) - of(low)) / (of(high) - of(low)), labels: distinct };
};

BW.parallel = (parent, ranked, names) => {
  const draw = (given = 0) => {
    const space = given || parent.clientWidth - 30 || 800, shown = ranked.filter((s) => s.score !== null);
    if (!shown.length) { parent.replaceChildren(BW.el("p", { class: "muted" }, "No setting has a score yet.")); return; }
    const columns = [...names.map((name) => ({ name, of: (s) => s.values[name] })), { name: "score", of: (s) => s.score }];
    /* A column needs room for its labels: narrow pages scroll. */
    const slot = Math.max(78, space / columns.length), width = Math.max(space, slot * columns.length), height = 300, top = 40, bottom = height - 16;
    const plot = BW.svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${shown.length} settings; the best: ${shown[0].label}` });
    const scales = columns.map((c) => BW.scaleOf(shown.map(c.of))), X = (i) => slot * (i + 0.5), Y = (i, v) => bottom - scales[i].place(v) * (bottom - top);
    const lines = shown.map((s, rank) => ({ s, rank })).reverse();
    for (const { s, rank } of lines) {
      const path = BW.svg("path", { d: `M${columns.map((c, i) => `${X(i).toFixed(1)},${Y(i, c.of(s)).toFixed(1)}`).join("L")}`, class: `line ${rank < 3 ? "c1" : "c0"}`, opacity: rank < 3 ? 0.95 : 0.32, "stroke-dasharray": s.label === "default" ? "6 3" : "" });
      if (s.label === "default") { path.setAttribute("opacity", 1); path.setAttribute("class", "line c2"); }
      path.append(BW.svg("title", {}, `${rank + 1}. ${s.label}: ${BW.exact(s.score)}`));
      plot.append(path);
    }
    columns.forEach((c, i) => {
      const text = c.name.length * 6.6 > slot - 6 ? `${c.name.slice(0, Math.floor((slot - 6) / 6.6) - 1)}…` : c.name;
      const label = BW.svg("text", { x: X(i), y: 16, class: "tick", "text-anchor": "middle" }, text);
      label.append(BW.svg("title", {}, c.name));
      plot.append(BW.svg("line", { x1: X(i), x2: X(i), y1: top, y2: bottom, class: "axis" }), label);
      let free = Infinity;
      const { labels } = scales[i], most = c.name === "score" ? [labels[0], labels[labels.length - 1]] : labels;
      for (const v of [...new Set(most)]) {
        const y = Y(i, v);
        if (free - y < 13) continue;
        free = y;
        plot.append(BW.svg("text", { x: X(i) + 5, y: y + (y < top + 6 ? -4 : 4), class: "tick halo" }, typeof v === "number" ? (c.name === "score" ? BW.exact(v, 3) : BW.value(v)) : v));
      }
    });
    parent.replaceChildren(BW.el("div", { class: "sideways", tabindex: "0", role: "region", "aria-label": "settings as lines" }, plot));
  };
  BW.keepDrawn(parent, draw);
};

/* One column per value: every unit a dot, the mean a bar. */
BW.effect = (parent, effect) => {
  const draw = (given = 0) => {
    const width = given || Math.max(240, parent.clientWidth || 360), height = 190, all = effect.rows.flatMap((row) => row[5]);
    const plot = BW.svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${effect.name}: ${effect.rows.map((row) => `${row[0]} ${BW.exact(row[1], 3)}`).join(", ")}` });
    let low = Math.min(...all), high = Math.max(...all);
    const room = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
    low -= room; high += room;
    const ticks = BW.ticks(low, high, 4), labels = ticks.map((v) => (Math.abs(v) >= 1e4 ? BW.short(v) : BW.figure(v)));
    const left = Math.max(30, ...labels.map((l) => l.length * 6.4 + 12)), right = width - 8, top = 8, bottom = height - 24, Y = (v) => bottom - ((v - low) / (high - low)) * (bottom - top);
    ticks.forEach((v, i) => plot.append(BW.svg("line", { x1: left, x2: right, y1: Y(v), y2: Y(v), class: "gridline" }), BW.svg("text", { x: left - 6, y: Y(v) + 4, class: "tick", "text-anchor": "end" }, labels[i])));
    const slot = (right - left) / effect.rows.length, half = Math.min(16, slot * 0.36);
    let freeFrom = -Infinity;
    effect.rows.forEach(([value, mean, lowest, highest, units, scores], i) => {
      const x = left + slot * (i + 0.5), group = BW.svg("g");
      group.append(BW.svg("title", {}, `${value}: mean ${BW.exact(mean)}, ${BW.exact(lowest)} to ${BW.exact(highest)}, ${units} units`));
      group.append(BW.svg("line", { x1: x, x2: x, y1: Y(lowest), y2: Y(highest), class: "axis" }));
      scores.forEach((score, k) => group.append(BW.svg("circle", { cx: x + half * 0.8 * Math.sin(k * 2.4), cy: Y(score), r: 2.2, class: "eval-return" })));
      group.append(BW.svg("line", { x1: x - half, x2: x + half, y1: Y(mean), y2: Y(mean), class: "eval-median" }));
      plot.append(group);
      const reach = value.length * 3.2 + 4;
      if (x - reach >= freeFrom) { plot.append(BW.svg("text", { x, y: height - 6, class: value === effect.default ? "tick strong" : "tick", "text-anchor": "middle" }, value)); freeFrom = x + reach; }
    });
    plot.append(BW.svg("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }));
    parent.replaceChildren(plot);
  };
  BW.keepDrawn(parent, draw);
};

/* Mean scores of combinations as shaded cells with their figures. */
BW.heat = (parent, pair) => {
  const draw = (given = 0) => {
    const width = given || Math.max(240, parent.clientWidth || 360), rowHeight = 26, top = 24;
    const left = Math.min(width * 0.35, Math.max(40, ...pair.rows.map((t) => t.length * 6.6 + 12))), slot = (width - left) / pair.columns.length, height = top + rowHeight * pair.rows.length + 2;
    const all = pair.cells.flat().filter((v) => v !== null), low = Math.min(...all), high = Math.max(...all);
    const plot = BW.svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `mean scores by ${pair.names[0]} (rows) and ${pair.names[1]} (columns)` });
    const fits = (text, room) => (text.length * 6.4 > room ? `${text.slice(0, Math.max(1, Math.floor(room / 6.4) - 1))}…` : text);
    pair.columns.forEach((t, i) => plot.append(BW.svg("text", { x: left + slot * (i + 0.5), y: 15, class: "tick", "text-anchor": "middle" }, fits(t, slot - 4))));
    pair.rows.forEach((t, r) => {
      plot.append(BW.svg("text", { x: left - 6, y: top + rowHeight * (r + 0.5) + 4, class: "tick", "text-anchor": "end" }, fits(t, left - 8)));
      pair.cells[r].forEach((v, c) => {
        const x = left + slot * c, y = top + rowHeight * r, group = BW.svg("g");
        group.append(BW.svg("rect", { x: x + 1, y: y + 1, width: Math.max(1, slot - 2), height: rowHeight - 2, rx: 3, class: v === null ? "heat none" : "heat", opacity: v === null ? 0.12 : high > low ? 0.1 + (0.5 * (v - low)) / (high - low) : 0.3 }));
        group.append(BW.svg("title", {}, `${pair.names[0]} ${t}, ${pair.names[1]} ${pair.columns[c]}: ${v === null ? "not tried" : BW.exact(v)}`));
        if (v !== null && slot > 34) group.append(BW.svg("text", { x: x + slot / 2, y: y + rowHeight / 2 + 4, class: "tick ink", "text-anchor": "middle" }, BW.exact(v, slot > 60 ? 4 : 3)));
        plot.append(group);
      });
    });
    parent.replaceChildren(plot);
  };
  BW.keepDrawn(parent, draw);
};
