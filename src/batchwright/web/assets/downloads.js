/* Files that the page and the report save: a chart as CSV or PNG, the list of runs as CSV. Nothing leaves the machine. */
"use strict";

BW.save = (name, content, kind) => {
  const link = BW.el("a", { href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: kind })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
BW.fileName = (text) => text.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 80) || "batchwright";
/* A cell that begins like a formula gets an apostrophe: spreadsheets would run it. */
BW.csvCell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
BW.csv = (rows) => rows.map((row) => row.map(BW.csvCell).join(",")).join("\n") + "\n";

/* The values as drawn, smoothed where the page smooths, one row for each point. */
BW.chartCsv = (chart) => {
  const rows = [["series", chart.viewState.axis, chart.figure.title, "low", "high"]];
  for (const s of chart.shown()) s.x.forEach((x, i) => { if (s.y[i] !== null) rows.push([s.label, x, chart.figure.stack ? s.share[i] : s.y[i], s.low && !s.area ? s.low[i] : null, s.high && !s.area ? s.high[i] : null]); });
  return BW.csv(rows);
};

/* As attributes: the policy of the page forbids styles in elements. */
const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-family", "font-size", "font-weight", "text-anchor"];

/* The chart with its title and its legend as a picture, twice the size on the screen. */
BW.chartPng = async (chart) => {
  if (!chart.geometry) return null;
  const { width, height } = chart.geometry, series = chart.shown(), listed = series.length > 1 ? series : [];
  const style = getComputedStyle(chart.node), copy = chart.plot.cloneNode(true);
  const from = chart.plot.querySelectorAll("*"), to = copy.querySelectorAll("*");
  to.forEach((node, i) => { const seen = getComputedStyle(from[i]); for (const name of DRAWN) node.setAttribute(name, seen.getPropertyValue(name)); });
  const head = 30, foot = 18 * listed.length + (listed.length ? 8 : 0), whole = BW.svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height: height + head + foot });
  const text = (x, y, size, content, weight) => BW.svg("text", { x, y, fill: style.color, "font-family": style.fontFamily, "font-size": size, "font-weight": weight }, content);
  whole.append(BW.svg("rect", { width: "100%", height: "100%", fill: style.backgroundColor }), text(10, 20, 14, `${chart.figure.title}${chart.figure.unit ? ` (${chart.figure.unit})` : ""}`, 600));
  copy.setAttribute("y", head);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  whole.append(copy);
  listed.forEach((s, i) => {
    const y = head + height + 14 + 18 * i, line = chart.plot.querySelector(`path.line.c${s.colour % BW.COLOURS}`);
    whole.append(BW.svg("line", { x1: 12, x2: 34, y1: y - 4, y2: y - 4, stroke: line ? getComputedStyle(line).stroke : style.color, "stroke-width": 2.5, "stroke-dasharray": s.dash || "none" }), text(42, y, 12, s.label, 400));
  });
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(whole))}`;
  await image.decode();
  const canvas = BW.el("canvas", { width: 2 * width, height: 2 * (height + head + foot) }), pen = canvas.getContext("2d");
  pen.scale(2, 2);
  pen.drawImage(image, 0, 0);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
};

BW.saveButtons = (chart) => {
  const name = () => BW.fileName(`${chart.figure.title}-${document.title.replace(" · Batchwright", "")}`);
  const button = (label, title, onclick) => BW.el("button", { type: "button", class: "toggle", title, onclick }, label);
  return BW.el("span", { class: "saves" },
    button("CSV", "save the drawn values", () => BW.save(`${name()}.csv`, BW.chartCsv(chart), "text/csv")),
    button("PNG", "save as a picture", async () => { const picture = await BW.chartPng(chart); if (picture) BW.save(`${name()}.png`, picture); }));
};
