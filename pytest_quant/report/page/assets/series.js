"use strict";
// The chart of a series, with what picks its figure and its branch; its data is that of pytest_quant/report/page/series.py.
const series = (function () {
  const TABLE_ROWS = 200;
  const MOST_LINES = 6;
  const NAMES = { speedup: "speedup", latency: "median, ms", score: "score", drop: "drop" };
  const TIMED = ["speedup", "latency"];

  // Points that may be compared: of one version of the data, and of one machine, or one instruction set for scores.
  function linesOf(points, quantity) {
    const lines = new Map();
    const several = new Set(points.map((point) => point.data).filter(Boolean)).size > 1;
    const empty = () => new Array(points.length).fill(null);
    points.forEach((point, place) => {
      if (!point[quantity]) return;
      const where = TIMED.includes(quantity) ? `machine ${point.machine}` : point.isa || "scores";
      const name = several && point.data ? `${where}, data ${point.data}` : where;
      if (!lines.has(name)) lines.set(name, { name, values: empty(), low: empty(), high: empty() });
      const line = lines.get(name);
      [line.values[place], line.low[place], line.high[place]] = [...point[quantity], null, null];
    });
    for (const line of lines.values()) if (line.low.every((value) => value === null)) line.low = line.high = null;
    return [...lines.values()];
  }

  // Of many machines the ones seen last have a line each; those before them share one.
  function few(lines) {
    if (lines.length <= MOST_LINES) return lines;
    const last = (line) => line.values.findLastIndex((value) => value !== null);
    const sorted = [...lines].sort((first, second) => last(second) - last(first));
    const others = sorted.splice(MOST_LINES - 1);
    const values = others[0].values.map((_, place) => others.map((line) => line.values[place]).find((value) => value !== null) ?? null);
    return [...sorted, { name: "other machines", values, low: null, high: null }];
  }

  function tell(point, quantity, unit) {
    const [value, low, high] = (point[quantity] || []).map((number) => charts.shown(number, unit));
    const interval = low === undefined ? "" : ` [${low}, ${high}]`;
    return [
      `${point.commit || "no commit"}${point.dirty ? " dirty" : ""}`,
      `${point.started} ${point.branch}`.trim(),
      `${NAMES[quantity].replace(", ms", "")} ${value ?? "not measured"}${interval} ${unit}`.trim(),
      `${point.status}, machine ${point.machine}, ${point.isa}`,
    ];
  }

  function chartOf(data, quantity, branch, title) {
    const points = data.points.filter((point) => !branch || point.branch === branch || point.now);
    const placesWhere = (chosen) => points.map((_, place) => place).filter((place) => chosen(points[place], points[place - 1]));
    const marks = data.changes
      .filter((change) => change.quantity === quantity)
      .map((change) => ({ at: points.indexOf(data.points[change.at]), text: change.text }))
      .filter((mark) => mark.at >= 0);
    return {
      name: `${title}: ${NAMES[quantity]} of ${points.length} points, ${marks.length} change${marks.length === 1 ? "" : "s"} of level. Arrow keys go from point to point.`,
      points,
      lines: few(linesOf(points, quantity)),
      labels: points.map((point) => point.started.slice(0, 10)),
      tell: (place) => tell(points[place], quantity, data.units[quantity]),
      marks,
      borders: placesWhere((point, before) => before && point.data && before.data && point.data !== before.data),
      levels: data.accepted[quantity] || [],
      rings: placesWhere((point) => point.now),
    };
  }

  function picker(label, choices, chosen, changed) {
    const select = charts.element("select", { "aria-label": label });
    for (const [value, text] of choices) select.append(new Option(text, value, false, value === chosen));
    select.addEventListener("change", () => changed(select.value));
    return select;
  }

  function table(points, quantity, unit) {
    const row = (tag, attributes, texts) => charts.element("tr", {}, ...texts.map((text) => charts.element(tag, attributes, text)));
    const head = ["started", "commit", "branch", "status", `${NAMES[quantity]} ${unit === "ms" ? "" : unit}`, "low", "high", "machine"];
    const body = charts.element("tbody", {});
    for (const point of points.slice(-TABLE_ROWS).reverse()) {
      const [value, low, high] = point[quantity] || [];
      const figures = [value, low, high].map((number) => charts.shown(number, unit));
      body.append(row("td", { class: "n" }, [point.started, point.commit || "-", point.branch || "-", point.status, ...figures, point.machine]));
    }
    const left = points.length - TABLE_ROWS;
    const about = left > 0 ? `the newest ${TABLE_ROWS} of ${points.length} points` : "all points, the newest first";
    const caption = charts.element("caption", {}, about);
    const content = charts.element("table", { class: "small" }, caption, charts.element("thead", {}, row("th", { scope: "col" }, head)), body);
    return charts.element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Points of the chart" }, content);
  }

  function draw(place, data) {
    const title = place.closest("article").querySelector("h3").textContent;
    const measured = Object.keys(NAMES).filter((quantity) => data.points.some((point) => point[quantity]));
    if (!measured.length) {
      place.append(charts.element("p", { class: "note" }, "No point of this series was measured."));
      return;
    }
    let quantity = data.changes.map((change) => change.quantity).find((name) => measured.includes(name)) || measured[0];
    let branch = data.branch;
    let remove = () => {};
    const canvas = charts.element("div", { class: "canvas" });
    const under = charts.element("div", { class: "under" });

    function show() {
      remove();
      const chart = chartOf(data, quantity, branch, title);
      canvas.replaceChildren(charts.legend(chart.lines));
      remove = charts.draw(canvas, chart);
      const asTable = charts.element("button", { type: "button", class: "plain" }, "Points as a table");
      asTable.addEventListener("click", () => under.replaceChildren(table(chart.points, quantity, data.units[quantity])));
      under.replaceChildren(asTable);
    }

    const figures = measured.map((name) => [name, NAMES[name]]);
    const controls = charts.element("p", { class: "pick" }, picker(`Figure of ${title}`, figures, quantity, (name) => ((quantity = name), show())));
    const branches = [...new Set(data.points.map((point) => point.branch).filter(Boolean))];
    if (branches.length > 1) {
      const choices = [["", "all branches"], ...branches.map((name) => [name, name])];
      controls.append(picker(`Branch of ${title}`, choices, branch, (name) => ((branch = name), show())));
    }
    place.replaceChildren(controls, canvas, under);
    show();
  }

  return { draw };
})();
