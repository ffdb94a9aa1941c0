/* The distribution of evaluation returns, and the diagram of a plan. */
"use strict";

/* Functions that redraw to a given width, called before printing. */
BW.resizable = [];

/* One column per evaluation: every return a dot, the quartiles a box, the median a line. */
BW.distribution = (parent, evaluations, nameOf) => {
  const draw = (given = 0) => {
    const width = given || Math.max(240, parent.clientWidth || 600), height = 220;
    const most = Math.max(1, Math.floor((width - 60) / 22));
    const every = Math.ceil(evaluations.length / most);
    const shown = evaluations.filter((e, i) => (evaluations.length - 1 - i) % every === 0 && e.returns.length);
    const all = shown.flatMap((e) => e.returns);
    const plot = BW.svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, height, role: "img" });
    if (!all.length) return;
    let low = Math.min(...all), high = Math.max(...all);
    const room = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
    low -= room; high += room;
    const ticks = BW.ticks(low, high, 4), labels = ticks.map((v) => (Math.abs(v) >= 1e4 ? BW.short(v) : BW.figure(v)));
    const left = Math.max(30, ...labels.map((l) => l.length * 6.4 + 12)), right = width - 10, top = 8, bottom = height - 24;
    const Y = (v) => bottom - ((v - low) / (high - low)) * (bottom - top);
    ticks.forEach((v, i) => {
      plot.append(BW.svg("line", { x1: left, x2: right, y1: Y(v), y2: Y(v), class: "gridline" }), BW.svg("text", { x: left - 6, y: Y(v) + 4, class: "tick", "text-anchor": "end" }, labels[i]));
    });
    const slot = (right - left) / shown.length, half = Math.min(14, slot * 0.36);
    let freeFrom = -Infinity;
    shown.forEach((e, i) => {
      const x = left + slot * (i + 0.5), group = BW.svg("g");
      group.append(BW.svg("title", {}, `${nameOf(e)}: mean ${BW.figure(e.mean)}, median ${BW.figure(e.median)}, IQM ${BW.figure(e.iqm)}, ${e.episodes} episodes`));
      if (e.iqr) group.append(BW.svg("rect", { x: x - half, width: half * 2, y: Y(e.iqr[1]), height: Math.max(1, Y(e.iqr[0]) - Y(e.iqr[1])), class: "eval-box" }));
      e.returns.forEach((value, k) => group.append(BW.svg("circle", { cx: x + half * 0.8 * Math.sin(k * 2.4), cy: Y(value), r: 1.8, class: "eval-return" })));
      group.append(BW.svg("line", { x1: x - half, x2: x + half, y1: Y(e.median), y2: Y(e.median), class: "eval-median" }));
      plot.append(group);
      const label = nameOf(e), reach = label.length * 3.2 + 5;
      if (x - reach >= freeFrom && x + reach <= right + 10) { plot.append(BW.svg("text", { x, y: height - 6, class: "tick", "text-anchor": "middle" }, label)); freeFrom = x + reach; }
    });
    plot.append(BW.svg("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }));
    plot.setAttribute("aria-label", `returns of ${evaluations.length} evaluations; last: median ${BW.figure(evaluations[evaluations.length - 1].median)}`);
    parent.replaceChildren(plot);
  };
  BW.keepDrawn(parent, draw);
};

/* The stages of a plan, side by side if there is room, else one below the other. */
BW.picture = (parent, picture) => {
  const draw = (given = 0) => {
    const space = given || parent.clientWidth || 900, wide = space >= 800, stages = picture.stages;
    const gap = 44, stageWidth = wide ? Math.min(380, (space - 2 - gap * (stages.length - 1)) / stages.length) : Math.min(space - 2, 400);
    const lines = Math.max(...stages.map((stage) => Math.min(3, stage.lines.length)));
    const stageHeight = (wide ? 96 : 80) + 18 * lines, loop = wide ? [picture.loop] : picture.loop.split("; "), loopRoom = wide ? 40 : 8 + 18 * loop.length;
    const width = wide ? stageWidth * stages.length + gap * (stages.length - 1) + 2 : stageWidth + 2;
    const height = (wide ? stageHeight : stageHeight * stages.length + gap * (stages.length - 1)) + loopRoom + 2;
    const plot = BW.svg("svg", { class: "picture", viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
    const place = (i) => (wide ? [1 + i * (stageWidth + gap), 1] : [1, 1 + i * (stageHeight + gap)]);
    stages.forEach((stage, i) => {
      const [x, y] = place(i);
      plot.append(BW.svg("rect", { x, y, width: stageWidth, height: stageHeight, rx: 8, class: "stage" }));
      plot.append(BW.svg("text", { x: x + 14, y: y + 24, class: "stage-title" }, stage.title));
      stage.lines.slice(0, 3).forEach((line, k) => plot.append(BW.svg("text", { x: x + 14, y: y + stageHeight - 14 - 18 * (Math.min(3, stage.lines.length) - 1 - k), class: k === 0 ? "stage-line first" : "stage-line" }, line)));
      BW.pictureCells(plot, stage, x + 14, y + 34, stageWidth - 28, wide ? 34 : 24);
      if (i + 1 < stages.length) {
        const [x0, y0, x1, y1] = wide ? [x + stageWidth + 6, y + stageHeight / 2, x + stageWidth + gap - 6, y + stageHeight / 2] : [x + stageWidth / 2, y + stageHeight + 6, x + stageWidth / 2, y + stageHeight + gap - 6];
        BW.arrow(plot, [[x0, y0], [x1, y1]]);
      }
    });
    const [lastX, lastY] = place(stages.length - 1), floor = lastY + stageHeight;
    if (wide) BW.arrow(plot, [[lastX + stageWidth / 2, floor + 4], [lastX + stageWidth / 2, floor + 16], [1 + stageWidth / 2, floor + 16], [1 + stageWidth / 2, floor + 5]]);
    loop.forEach((line, k) => plot.append(BW.svg("text", { x: width / 2, y: height - 6 - 18 * (loop.length - 1 - k), class: "stage-line", "text-anchor": "middle" }, line)));
    plot.setAttribute("aria-label", `${stages.map((s) => `${s.title}: ${s.lines.join(", ")}`).join("; ")}. ${picture.loop}`);
    parent.replaceChildren(plot);
  };
  BW.keepDrawn(parent, draw);
};

/* Draws now and whenever the width changes. */
BW.keepDrawn = (parent, draw) => {
  let width = parent.clientWidth;
  draw();
  BW.resizable.push(draw);
  new ResizeObserver(() => { if (parent.clientWidth !== width) { width = parent.clientWidth; draw(); } }).observe(parent);
};

BW.arrow = (plot, points) => {
  const [[ax, ay], [bx, by]] = points.slice(-2), angle = Math.atan2(by - ay, bx - ax);
  const side = (turn) => `${(bx - 7 * Math.cos(angle + turn)).toFixed(1)},${(by - 7 * Math.sin(angle + turn)).toFixed(1)}`;
  plot.append(BW.svg("path", { d: `M${points.map((p) => p.join(",")).join("L")}`, class: "arrow" }));
  plot.append(BW.svg("path", { d: `M${side(0.5)}L${bx},${by}L${side(-0.5)}`, class: "arrow" }));
};

/* A rollout as rows of environments, minibatches as one row of cells; at most as many as can be distinguished. */
BW.pictureCells = (plot, stage, x, y, width, height) => {
  if (stage.grid && stage.grid[0] && stage.grid[1]) {
    const rows = Math.min(stage.grid[0], 6), columns = Math.min(stage.grid[1], Math.floor(width / 7));
    const w = width / columns, h = height / rows;
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) plot.append(BW.svg("rect", { x: x + c * w, y: y + r * h, width: Math.max(1, w - 1), height: Math.max(1, h - 1), class: `cell c${r % BW.COLOURS}` }));
  } else if (stage.cells) {
    const most = Math.floor(width / 14), cut = stage.cells > most, shown = cut ? most - 3 : stage.cells, w = (cut ? width - 3 * 14 : width) / shown;
    for (let c = 0; c < shown; c++) plot.append(BW.svg("rect", { x: x + c * w, y, width: Math.max(1, w - 3), height, rx: 2, class: stage.title === "Update" ? "cell update" : "cell mixed" }));
    if (cut) plot.append(BW.svg("text", { x: x + width - 38, y: y + height / 2 + 4, class: "stage-line" }, `+ ${BW.short(stage.cells - shown)}`));
  }
};
