"use strict";
// One kind of chart for everything: lines over places 0, 1, 2, ... with intervals, marks and levels, drawn by uPlot.
const charts = (function () {
  const DASHES = [[], [8, 4], [2, 4], [10, 4, 2, 4], [14, 6], [4, 2, 4, 8]];
  const drawn = new Set();
  const tip = document.getElementById("tip");
  const said = document.getElementById("said");

  // Digits as the terminal's tables have them, a half rounded to the even digit.
  const rounded = (options) => new Intl.NumberFormat("en", { useGrouping: false, roundingMode: "halfEven", ...options }).format;
  const significant = (digits) => rounded({ maximumSignificantDigits: digits, maximumFractionDigits: 0, roundingPriority: "morePrecision" });
  const percentage = rounded({ minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const figure = significant(4);
  const ofAxis = significant(6);

  function shown(value, unit) {
    if (value === null || value === undefined) return "-";
    if (unit !== "%" && unit !== "pp") return figure(value + 0);
    const text = percentage(value + 0);
    // Two decimals would say 0 or 100 of what is neither.
    const hides = [0, 100].includes(Math.abs(text)) && Number(text) !== value;
    return hides ? significant(Math.abs(value) < 1 ? 2 : 8)(value) : text;
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // What the axis upwards spans: all that is drawn, with some room.
  function range(low, high, levels) {
    if (low === null) return [0, 1];
    const [least, most] = [Math.min(low, ...levels), Math.max(high, ...levels)];
    const room = (most - least) * 0.08 || Math.abs(most) * 0.08 || 1;
    return [least - room, most + room];
  }

  // The samples of lines that stand above a chart: a line is told by its dashes and its name, not by its colour alone.
  function legend(lines) {
    const items = lines.map((line, place) => {
      const item = element("li", {});
      const dashes = DASHES[place % DASHES.length].join(" ") || "none";
      item.innerHTML = `<svg viewBox="0 0 36 8" aria-hidden="true"><path d="M0 4H36" class="line-${place % 6}" stroke-dasharray="${dashes}"/></svg>`;
      item.append(line.name);
      return item;
    });
    return element("ul", { class: "legend" }, ...items);
  }

  function upright(u, place, name, dash, text, row) {
    const x = Math.round(u.valToPos(place, "x", true));
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) return;
    const ratio = uPlot.pxRatio;
    u.ctx.strokeStyle = colour(name);
    u.ctx.setLineDash(dash.map((length) => length * ratio));
    u.ctx.beginPath();
    u.ctx.moveTo(x, u.bbox.top);
    u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
    if (!text) return;
    const right = x > u.bbox.left + u.bbox.width / 2;
    written(u, text, x + (right ? -4 : 4) * ratio, u.bbox.top + (10 + 13 * (row % 4)) * ratio, name, right ? "right" : "left");
  }

  // Lines of the chart end around a text, so that it can be read where they cross it.
  function written(u, text, x, y, name, align) {
    u.ctx.textAlign = align;
    u.ctx.setLineDash([]);
    u.ctx.lineJoin = "round";
    u.ctx.save();
    u.ctx.lineWidth = 5 * uPlot.pxRatio;
    u.ctx.strokeStyle = colour("bg");
    u.ctx.strokeText(text, x, y);
    u.ctx.restore();
    u.ctx.fillStyle = colour(name);
    u.ctx.fillText(text, x, y);
  }

  function extras(u, chart) {
    const ratio = uPlot.pxRatio;
    u.ctx.save();
    u.ctx.lineWidth = 1.5 * ratio;
    u.ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    for (const place of chart.borders) upright(u, place - 0.5, "muted", [2, 4], "", 0);
    chart.marks.forEach((mark, row) => upright(u, mark.at, "mark", [], mark.text, row));
    for (const value of chart.levels) {
      const y = Math.round(u.valToPos(value, "y", true));
      u.ctx.strokeStyle = colour("level");
      u.ctx.setLineDash([6 * ratio, 4 * ratio]);
      u.ctx.beginPath();
      u.ctx.moveTo(u.bbox.left, y);
      u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
      u.ctx.stroke();
      written(u, "accepted", u.bbox.left + 4 * ratio, y - 4 * ratio, "level", "left");
    }
    u.ctx.setLineDash([]);
    u.ctx.strokeStyle = colour("text");
    for (const place of chart.rings) {
      for (const line of chart.lines) {
        const value = line.values[place];
        if (value === null || value === undefined) continue;
        u.ctx.beginPath();
        u.ctx.arc(u.valToPos(place, "x", true), u.valToPos(value, "y", true), 6 * ratio, 0, 2 * Math.PI);
        u.ctx.stroke();
      }
    }
    u.ctx.restore();
  }

  function options(chart, width) {
    const series = [{}];
    const bands = [];
    const axis = () => ({
      stroke: () => colour("muted"),
      grid: { stroke: () => colour("grid"), width: 1 },
      ticks: { stroke: () => colour("grid"), width: 1 },
      font: "12px system-ui, sans-serif",
    });
    chart.lines.forEach((line, place) => {
      const own = () => colour(`line-${place % 6}`);
      const few = line.values.filter((value) => value !== null).length <= 60;
      series.push({
        label: line.name,
        stroke: own,
        width: 1.8,
        dash: DASHES[place % DASHES.length],
        spanGaps: true,
        points: { show: few, size: 5, stroke: own, fill: () => colour("panel") },
      });
      if (line.low) {
        const edge = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: true };
        series.push({ ...edge, label: `${line.name}, high` }, { ...edge, label: `${line.name}, low` });
        bands.push({ series: [series.length - 2, series.length - 1], fill: () => `${colour(`line-${place % 6}`)}2e` });
      }
    });
    const last = chart.labels.length - 1;
    return {
      width,
      height: chart.height || 230,
      series,
      bands,
      legend: { show: false },
      cursor: { points: { size: 8 }, drag: { x: true, y: false }, y: false },
      scales: {
        x: { time: false, range: (u, from, to) => (from === to ? [-0.5, last + 0.5] : [from, to]) },
        y: { range: (u, low, high) => range(low, high, chart.levels) },
      },
      axes: [
        {
          ...axis(),
          space: 90,
          incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000],
          // A day is named once, where it begins.
          values: (u, splits) =>
            splits.map((place, index) => (index && chart.labels[place] === chart.labels[splits[index - 1]] ? "" : chart.labels[place] || "")),
        },
        { ...axis(), size: 62, values: (u, splits) => splits.map((value) => ofAxis(value + 0)) },
      ],
      hooks: { draw: [(u) => extras(u, chart)], setCursor: [(u) => showTip(u, chart)] },
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
    if (event.key === "Escape") {
      u.setCursor({ left: -10, top: -10 });
      tip.hidden = true;
    }
    if (step === undefined) return;
    event.preventDefault();
    const last = chart.labels.length - 1;
    const now = u.cursor.idx === null || u.cursor.idx === undefined ? last + (step > 0 ? 0 : 1) : u.cursor.idx;
    const next = Math.min(last, Math.max(0, now + step));
    u.setCursor({ left: u.valToPos(next, "x"), top: u.over.clientHeight / 2 });
    said.textContent = chart.tell(next).join(", ");
  }

  // chart: {name, lines: [{name, values, low, high}], labels, tell(place), marks, borders, levels, rings, height}
  function draw(place, chart) {
    const data = [chart.labels.map((_, index) => index)];
    for (const line of chart.lines) {
      data.push(line.values);
      if (line.low) data.push(line.high, line.low);
    }
    const frame = element("div", { class: "frame", role: "img", tabindex: "0", "aria-label": chart.name });
    place.append(frame);
    const u = new uPlot(options(chart, Math.max(200, frame.clientWidth)), data, frame);
    frame.addEventListener("keydown", (event) => keys(event, u, chart));
    frame.addEventListener("blur", () => {
      tip.hidden = true;
    });
    drawn.add(u);
    const sized = new ResizeObserver(() => {
      const width = Math.max(200, frame.clientWidth);
      if (frame.clientWidth && width !== u.width) u.setSize({ width, height: u.height });
    });
    sized.observe(frame);
    return () => {
      sized.disconnect();
      drawn.delete(u);
      u.destroy();
      frame.remove();
    };
  }

  function redraw() {
    for (const u of drawn) u.redraw();
  }

  // Of one check: the median of each round of reference, null and candidate.
  function rounds(place, times) {
    const lines = ["reference", "null", "candidate"]
      .filter((name) => (times[name] || []).length)
      .map((name) => ({ name, values: times[name] }));
    const most = Math.max(...lines.map((line) => line.values.length));
    for (const line of lines) line.values = Array.from({ length: most }, (_, index) => line.values[index] ?? null);
    const labels = Array.from({ length: most }, (_, index) => String(index + 1));
    const tell = (index) => [
      `round ${index + 1}`,
      ...lines.map((line) => `${line.name} ${shown(line.values[index], "ms")} ms`),
    ];
    const name = `${place.dataset.about}; ${most} rounds`;
    place.append(element("p", { class: "note" }, "ms of each round, the median"), legend(lines));
    draw(place, { name, lines, labels, tell, marks: [], borders: [], levels: [], rings: [], height: 180 });
  }

  return { draw, element, legend, redraw, rounds, shown };
})();
