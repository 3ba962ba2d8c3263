"use strict";
// The history of a series as a chart, drawn by uPlot; its data is that of pytest_quant/report/page/charts.py.
const charts = (function () {
  const DASHES = [[], [8, 4], [2, 4], [10, 4, 2, 4], [14, 6], [4, 2, 4, 8]];
  // Height of a text above a chart, and how many stand above each other, those of the newest changes.
  const [LABEL, MOST_LABELS] = [13, 4];
  const NAMES = { speedup: "speedup", latency: "median, ms", score: "score", drop: "drop" };
  const shows = [];
  const tip = document.getElementById("tip");

  // Digits as the terminal's tables have them, a half rounded to the even digit.
  const rounded = (options) => new Intl.NumberFormat("en", { useGrouping: false, roundingMode: "halfEven", ...options }).format;
  const figure = rounded({ maximumSignificantDigits: 4, maximumFractionDigits: 0, roundingPriority: "morePrecision" });
  const percentage = rounded({ minimumFractionDigits: 2, maximumFractionDigits: 2 });

  function shown(value, unit) {
    if (unit !== "%" && unit !== "pp") return figure(value + 0);
    const text = percentage(value + 0);
    // Two decimals would say 0 or 100 of what is neither.
    const hides = [0, 100].includes(Math.abs(text)) && Number(text) !== value;
    return hides ? String(Number(value.toPrecision(Math.abs(value) < 1 ? 2 : 8))) : text;
  }

  // A colour of the theme as a canvas takes it, which knows no variables.
  function colour(name, alpha = 1) {
    tip.style.outlineColor = `rgb(from var(--${name}) r g b / ${alpha})`;
    return getComputedStyle(tip).outlineColor;
  }

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // Upright lines: changes of level with their texts above the chart, and where what is measured changed; crosses.
  function drawMarks(u, chart) {
    const { ctx, bbox } = u;
    const ratio = uPlot.pxRatio;
    const end = bbox.left + bbox.width;
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    [ctx.textAlign, ctx.textBaseline] = ["left", "bottom"];
    chart.uprights.forEach(({ at, text }, row) => {
      const x = Math.round(u.valToPos(at, "x", true));
      if (x < bbox.left || x > end) return;
      ctx.fillStyle = colour(text ? "bad" : "muted");
      ctx.fillRect(x, bbox.top, ratio, bbox.height);
      const left = Math.min(x, end - ctx.measureText(text).width);
      if (row < MOST_LABELS) ctx.fillText(text, left, bbox.top - (2 + LABEL * row) * ratio);
    });
    ctx.font = `bold ${15 * ratio}px system-ui, sans-serif`;
    [ctx.textAlign, ctx.textBaseline] = ["center", "middle"];
    ctx.fillStyle = colour("bad");
    for (const { at, value } of chart.failed) {
      const x = u.valToPos(at, "x", true);
      if (x >= bbox.left && x <= end) ctx.fillText("×", x, u.valToPos(value, "y", true));
    }
    ctx.restore();
  }

  function options(chart, width) {
    const series = [{}];
    const bands = [];
    const axis = { stroke: () => colour("muted"), grid: { stroke: () => colour("line"), width: 0.5 }, font: "12px system-ui, sans-serif" };
    for (const { name, values, low, dots, own, dash, level } of chart.lines) {
      const stroke = () => colour(own);
      const few = values.filter((value) => value !== null).length <= 60;
      const points = { show: dots || (few && !level), size: dots || 5, width: dots ? 2 : 1, stroke, fill: () => colour("bg") };
      series.push({ label: name, stroke, width: dots ? 0 : 1.8, dash, spanGaps: true, points });
      if (!low) continue;
      const edge = { class: "edge", stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
      series.push(edge, { ...edge });
      bands.push({ series: [series.length - 2, series.length - 1], fill: () => colour(own, 0.18) });
    }
    const around = (u, low, high) => {
      const room = (high - low) * 0.08 || Math.abs(high) * 0.08 || 1;
      return low === null ? [0, 1] : [low - room, high + room];
    };
    // A day is named once, where it begins.
    const names = (u, places) => places.map((at, index) => (index && chart.names[at] === chart.names[places[index - 1]] ? "" : chart.names[at] || ""));
    return {
      width,
      height: 260,
      padding: [8 + LABEL * Math.min(MOST_LABELS, chart.uprights.filter(({ text }) => text).length), 32, null, null],
      series,
      bands,
      legend: { live: false, markers: { width: 2, dash: (u, at) => ((u.series[at].dash || [])[0] > 2 ? "dashed" : u.series[at].dash?.length ? "dotted" : "solid") } },
      cursor: { points: { size: 8 }, drag: { x: true, y: false }, y: false },
      scales: { x: { time: false, range: (u, low, high) => (low === high ? [-0.5, chart.names.length - 0.5] : [low, high]) }, y: { range: around } },
      axes: [
        { ...axis, space: 90, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000], values: names },
        { ...axis, size: 62, values: (u, values) => values.map((value) => figure(value + 0)) },
      ],
      hooks: { draw: [(u) => drawMarks(u, chart)], setCursor: [(u) => showTip(u, chart)] },
    };
  }

  function showTip(u, chart) {
    const { idx, left, top } = u.cursor;
    tip.hidden = idx === null || idx === undefined || left < 0;
    if (tip.hidden) return;
    tip.replaceChildren(...chart.tell(idx).map((line) => element("div", {}, line)));
    const box = u.over.getBoundingClientRect();
    const x = Math.min(box.left + left + 14, window.innerWidth - tip.offsetWidth - 8);
    const y = Math.min(box.top + top + 14, window.innerHeight - tip.offsetHeight - 8);
    tip.style.left = `${Math.max(8, x)}px`;
    tip.style.top = `${Math.max(8, y)}px`;
  }

  function keys(event, u, chart) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") u.setCursor({ left: -10, top: -10 });
    if (step === undefined) return;
    event.preventDefault();
    const last = chart.names.length - 1;
    const now = u.cursor.idx ?? (step > 0 ? last : last + 1);
    const next = Math.min(last, Math.max(0, now + step));
    u.setCursor({ left: u.valToPos(next, "x"), top: u.over.clientHeight / 2 });
    document.getElementById("said").textContent = chart.tell(next).join(", ");
  }

  // Points that may be compared are one line: of a machine for times, of an instruction set for scores.
  function linesOf(points, quantity) {
    const names = points.map((point) => point[quantity] && (["speedup", "latency"].includes(quantity) ? point.timed : point.scored));
    return [...new Set(names.filter(Boolean))].map((name, number) => {
      const part = (index) => points.map((point, place) => (names[place] === name ? point[quantity][index] ?? null : null));
      return { name, values: part(0), low: part(1), high: part(2), own: `line-${number % 6}`, dash: DASHES[number % 6] };
    });
  }

  function chartOf(data, quantity, branch, title) {
    const unit = data.units[quantity];
    const points = data.points.filter((point) => !branch || point.branch === branch || point.now);
    const marks = data.changes
      .filter((change) => change.quantity === quantity)
      .map((change) => ({ at: points.indexOf(data.points[change.at]), text: change.text }))
      .filter((mark) => mark.at >= 0);
    const borders = points.map((point, at) => ({ at: at - 0.5, text: "", seen: at && point.data && points[at - 1].data && point.data !== points[at - 1].data }));
    const lines = linesOf(points, quantity);
    const levels = [...data.accepted[quantity].map((value) => ["accepted", value, "level", [6, 4]]), ["limit", data.limits[quantity], "bad", [2, 3]]];
    for (const [name, value, own, dash] of levels) if (Number.isFinite(value)) lines.push({ name, values: points.map(() => value), own, dash, level: true });
    const now = points.map((point) => (point.now && point[quantity] ? point[quantity][0] : null));
    if (now.some((value) => value !== null)) lines.push({ name: "this run", values: now, own: "text", dots: 11 });
    const tell = (place) => {
      const [value, ...interval] = (points[place][quantity] || []).map((number) => shown(number, unit));
      const around = interval.length ? ` [${interval.join(", ")}]` : "";
      const [commit, ...about] = points[place].about;
      const subject = data.subjects[commit.slice(0, 12)];
      return [commit, ...(typeof subject === "string" ? [subject] : []), ...about, `${NAMES[quantity].replace(", ms", "")} ${value ?? "not measured"}${around} ${unit}`.trim()];
    };
    const failed = points.flatMap((point, at) => (point.failed && point[quantity] ? [{ at, value: point[quantity][0] }] : []));
    // Where all points are of one day their commits tell them apart.
    const sameDay = points.every((point) => point.day === points[0].day);
    const names = points.map((point) => (sameDay ? point.about[0].slice(0, 9) : point.day));
    const name = `${title}: ${NAMES[quantity]} of ${points.length} points, ${marks.length} change${marks.length === 1 ? "" : "s"} of level. Arrow keys go from point to point.`;
    return { name, names, lines, tell, failed, uprights: [...marks, ...borders.filter((border) => border.seen)] };
  }

  function draw(place, data) {
    const title = place.closest("article").querySelector("h3").textContent;
    const measured = Object.keys(NAMES).filter((quantity) => data.points.some((point) => point[quantity]));
    if (!measured.length) return place.append("No point of this series was measured.");
    let quantity = [...data.broken, ...data.changes.map((change) => change.quantity)].find((name) => measured.includes(name)) || measured[0];
    let { branch } = data;
    let u, chart;
    const controls = element("p", { class: "filters" });
    const frame = element("div", { class: "frame", role: "img", tabindex: "0" });
    const width = () => Math.max(200, frame.clientWidth);

    function show() {
      if (u) u.destroy();
      chart = chartOf(data, quantity, branch, title);
      frame.setAttribute("aria-label", chart.name);
      const columns = chart.lines.flatMap((line) => (line.low ? [line.values, line.high, line.low] : [line.values]));
      u = new uPlot(options(chart, width()), [chart.names.map((_, index) => index), ...columns], frame);
    }

    function picker(label, choices, chosen, changed) {
      const select = element("select", { "aria-label": `${label} of ${title}` });
      select.append(...choices.map(([value, text]) => new Option(text, value, false, value === chosen)));
      select.addEventListener("change", () => (changed(select.value), show()));
      controls.append(select);
    }

    picker("Figure", measured.map((name) => [name, NAMES[name]]), quantity, (name) => (quantity = name));
    const branches = [...new Set(data.points.map((point) => point.branch).filter(Boolean))];
    if (branches.length > 1) picker("Branch", [["", "all branches"], ...branches.map((name) => [name, name])], branch, (name) => (branch = name));
    place.append(controls, frame);
    show();
    shows.push(show);
    frame.addEventListener("keydown", (event) => keys(event, u, chart));
    frame.addEventListener("blur", () => (tip.hidden = true));
    new ResizeObserver(() => frame.clientWidth && width() !== u.width && u.setSize({ width: width(), height: u.height })).observe(frame);
  }

  return { draw, redraw: () => shows.forEach((show) => show()), shown };
})();
