"use strict";
// The history: columns of bytes read back, see pytest_quant/report/page/tracks.py, and one chart for each series.
const quant = (function () {
  const given = JSON.parse(document.getElementById("data").textContent);
  const kept = new Map();
  const TABLE_ROWS = 200;
  const MOST_LINES = 6;
  const FIGURES = {
    speedup: { name: "speedup", value: "speedup", low: "speedup_low", high: "speedup_high", timed: true, unit: () => "x" },
    candidate_p50_ms: {
      name: "median, ms",
      value: "candidate_p50_ms",
      low: "p50_low_ms",
      high: "p50_high_ms",
      timed: true,
      unit: () => "ms",
    },
    candidate: { name: "score", value: "candidate", unit: (track) => track.unit },
    drop: {
      name: "drop",
      value: "drop",
      low: "drop_low",
      high: "drop_high",
      unit: (track) => (track.unit === "%" ? "pp" : track.unit),
    },
  };

  // What checks open to, their rounds and the history come deflated.
  const unpacked = inflated(given.packed).then((bytes) => {
    for (const [name, value] of Object.entries(JSON.parse(new TextDecoder().decode(bytes)))) kept.set(name, value);
  });

  async function load(name) {
    await unpacked;
    return kept.get(name);
  }

  async function inflated(text) {
    const packed = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // All first bytes, then all second ones: put together again, they are little-endian numbers.
  function numbersOf(bytes, count, kind) {
    const size = Number(kind.slice(1));
    const view = new DataView(new ArrayBuffer(bytes.length));
    for (let byte = 0; byte < size; byte++) {
      for (let place = 0; place < count; place++) view.setUint8(place * size + byte, bytes[byte * count + place]);
    }
    if (kind === "u1") return Array.from(bytes);
    return Array.from({ length: count }, (_, place) => {
      const value = kind === "f8" ? view.getFloat64(place * 8, true) : view.getUint32(place * 4, true);
      return Number.isNaN(value) ? null : value;
    });
  }

  async function columns(track) {
    const bytes = await inflated(track.bytes);
    const found = {};
    let start = 0;
    for (const [name, kind] of track.columns) {
      const end = start + Number(kind.slice(1)) * track.n;
      found[name] = numbersOf(bytes.subarray(start, end), track.n, kind);
      start = end;
    }
    return found;
  }

  function day(runs, run) {
    const seconds = runs.started[run];
    return seconds === null ? "" : new Date(seconds * 1000).toISOString().slice(0, 10);
  }

  function time(runs, run) {
    const seconds = runs.started[run];
    return seconds === null ? "" : new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
  }

  function bounded(found, figure, point) {
    return [figure.low, figure.high].every((name) => found[name] && found[name][point] !== null);
  }

  // Points that may be compared, those of one version of the data and one machine, or one instruction set for scores.
  function groups(track, found, figure, chosen) {
    const kind = figure.timed ? "identity" : "isa";
    const lines = new Map();
    chosen.forEach((point, place) => {
      const value = found[figure.value][point];
      if (value === null) return;
      const key = `${found.version[point]} ${found[kind][point]}`;
      if (!lines.has(key)) {
        const what = figure.timed
          ? `machine ${numbers.letter(found.identity[point])}`
          : track.texts.isa[found.isa[point]] || "scores";
        const data = track.texts.version.filter(Boolean).length > 1 ? `, data ${found.version[point] + 1}` : "";
        const empty = () => new Array(chosen.length).fill(null);
        lines.set(key, { name: what + data, values: empty(), low: empty(), high: empty() });
      }
      const line = lines.get(key);
      line.values[place] = value;
      if (bounded(found, figure, point)) {
        line.low[place] = found[figure.low][point];
        line.high[place] = found[figure.high][point];
      }
    });
    for (const line of lines.values()) if (line.low.every((value) => value === null)) line.low = line.high = null;
    return [...lines.values()];
  }

  // Of many machines the ones seen last have a line each; those before them share one.
  function few(lines) {
    if (lines.length <= MOST_LINES) return lines;
    const last = (line) => line.values.findLastIndex((value) => value !== null);
    const sorted = [...lines].sort((one, other) => last(other) - last(one));
    const values = sorted[0].values.map((_, place) => {
      const one = sorted.slice(MOST_LINES - 1).find((line) => line.values[place] !== null);
      return one ? one.values[place] : null;
    });
    return [...sorted.slice(0, MOST_LINES - 1), { name: "other machines", values, low: null, high: null }];
  }

  function tell(track, runs, found, figure, point) {
    const run = found.run[point];
    const unit = figure.unit(track);
    const shown = (name) => numbers.inUnit(found[name] ? found[name][point] : null, unit === "pp" ? "%" : unit);
    const value = found[figure.value][point];
    const around = bounded(found, figure, point) ? ` [${shown(figure.low)}, ${shown(figure.high)}]` : "";
    return [
      `${runs.commit[run] || "no commit"}${runs.dirty[run] ? " dirty" : ""}`,
      `${time(runs, run)} ${runs.branches[runs.branch[run]] || ""}`.trim(),
      `${figure.name.replace(", ms", "")} ${value === null ? "not measured" : shown(figure.value)}${around} ${unit}`.trim(),
      `${track.texts.status[found.status[point]]}, machine ${numbers.letter(found.identity[point])}, ${track.texts.isa[found.isa[point]]}`,
    ];
  }

  function chartOf(track, runs, found, key, branch, title) {
    const figure = FIGURES[key];
    const now = new Set(track.now);
    const chosen = [];
    for (let point = 0; point < track.n; point++) {
      if (branch === "" || runs.branches[runs.branch[found.run[point]]] === branch || now.has(point)) chosen.push(point);
    }
    const places = new Map(chosen.map((point, place) => [point, place]));
    const lines = few(groups(track, found, figure, chosen));
    const marks = track.changes.filter((one) => one.figure === key && places.has(one.at)).map((one) => ({ ...one, at: places.get(one.at) }));
    const borders = chosen
      .map((point, place) => [place, found.version[point], found.version[chosen[place - 1]]])
      .filter(([place, version, before]) => place && version !== before && track.texts.version[version] && track.texts.version[before])
      .map(([place]) => place);
    return {
      name: `${title}: ${figure.name} of ${chosen.length} points, ${marks.length} change${marks.length === 1 ? "" : "s"} of level. Arrow keys go from point to point.`,
      lines,
      labels: chosen.map((point) => day(runs, found.run[point])),
      tell: (place) => tell(track, runs, found, figure, chosen[place]),
      marks,
      borders,
      levels: track.accepted.filter((one) => one.figure === key).map((one) => one.value),
      rings: track.now.map((point) => places.get(point)).filter((place) => place !== undefined),
      chosen,
    };
  }

  function picker(label, choices, chosen, changed) {
    const select = charts.element("select", { "aria-label": label });
    for (const [value, text] of choices) select.append(new Option(text, value, false, value === chosen));
    select.addEventListener("change", () => changed(select.value));
    return select;
  }

  function table(track, runs, found, key, chart) {
    const figure = FIGURES[key];
    const unit = figure.unit(track);
    const made = charts.element("table", { class: "small" });
    const head = charts.element("tr", {});
    for (const text of ["started", "commit", "branch", "status", `${figure.name} ${unit === "ms" ? "" : unit}`, "low", "high", "machine"]) {
      head.append(charts.element("th", { scope: "col" }, text));
    }
    made.append(charts.element("thead", {}, head));
    const body = charts.element("tbody", {});
    for (const point of chart.chosen.slice(-TABLE_ROWS).reverse()) {
      const run = found.run[point];
      const row = charts.element("tr", {});
      const texts = [time(runs, run), runs.commit[run] || "-", runs.branches[runs.branch[run]] || "-", track.texts.status[found.status[point]]];
      for (const text of texts) row.append(charts.element("td", {}, text));
      for (const name of [figure.value, figure.low, figure.high]) {
        const value = found[name] ? found[name][point] : null;
        const cell = charts.element("td", { class: "n" }, numbers.inUnit(value, unit === "pp" ? "%" : unit));
        row.append(cell);
      }
      row.append(charts.element("td", {}, numbers.letter(found.identity[point])));
      body.append(row);
    }
    made.append(body);
    const left = chart.chosen.length - TABLE_ROWS;
    const about = left > 0 ? `the newest ${TABLE_ROWS} of ${chart.chosen.length} points` : "all points, the newest first";
    made.prepend(charts.element("caption", {}, about));
    return charts.element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Points of the chart" }, made);
  }

  // One chart with what picks its figure and its branch; drawn while it is near what is seen.
  async function begin(place) {
    const title = place.closest("article").querySelector("h3").textContent;
    const track = await load(place.dataset.series);
    const runs = await load("runs");
    const found = await columns(track);
    const known = Object.keys(FIGURES).filter((key) => found[FIGURES[key].value]);
    if (!known.length) {
      place.append(charts.element("p", { class: "note" }, "No point of this series was measured."));
      return { hide: () => {}, show: () => {} };
    }
    const changed = track.changes.map((one) => one.figure).find((figure) => known.includes(figure));
    let key = changed || known[0];
    let branch = track.branch || "";
    let remove = () => {};
    const under = charts.element("div", { class: "under" });
    const canvas = charts.element("div", { class: "canvas" });
    const names = [...new Set(found.run.map((run) => runs.branches[runs.branch[run]]).filter(Boolean))];

    function show() {
      remove();
      canvas.replaceChildren();
      under.replaceChildren();
      const chart = chartOf(track, runs, found, key, branch, title);
      canvas.append(charts.legend(chart.lines));
      const undraw = charts.draw(canvas, chart);
      const asTable = charts.element("button", { type: "button", class: "plain" }, "Points as a table");
      asTable.addEventListener("click", () => under.replaceChildren(table(track, runs, found, key, chart)));
      under.append(asTable);
      remove = undraw;
    }

    const controls = charts.element("p", { class: "pick" });
    controls.append(picker(`Figure of ${title}`, known.map((one) => [one, FIGURES[one].name]), key, (value) => ((key = value), show())));
    if (names.length > 1) {
      const choices = [["", "all branches"], ...names.map((name) => [name, name])];
      controls.append(picker(`Branch of ${title}`, choices, branch, (value) => ((branch = value), show())));
    }
    place.replaceChildren(controls, canvas, under);
    show();
    return { hide: () => (remove(), (remove = () => {})), show };
  }

  const shown = new WeakMap();

  function seen(place) {
    if (place.dataset.rounds !== undefined) {
      charts.rounds(place, kept.get(place.dataset.rounds));
      seer.unobserve(place);
      return;
    }
    const state = shown.get(place);
    if (state === undefined) {
      shown.set(place, null);
      begin(place)
        .then((series) => {
          shown.set(place, series);
          place.dataset.drawn = "yes";
        })
        .catch((error) => {
          place.replaceChildren(charts.element("p", { class: "note" }, `This chart cannot be drawn: ${error.message}`));
        });
    } else again(place);
  }

  function again(place) {
    if (place.dataset.drawn !== "no") return;
    shown.get(place).show();
    place.dataset.drawn = "yes";
  }

  // What was seen is printed; the figures of other charts would have to be unpacked, for which no printer waits.
  function showForPrint() {
    document.querySelectorAll(".chart[data-drawn=no]").forEach(again);
  }

  function gone(place) {
    const state = shown.get(place);
    if (!state || place.dataset.drawn !== "yes" || place.contains(document.activeElement)) return;
    // Of a page that is not shown nothing has a height.
    if (place.offsetHeight) place.style.minHeight = `${place.offsetHeight}px`;
    state.hide();
    place.dataset.drawn = "no";
  }

  const seer = new IntersectionObserver(
    (entries) => entries.forEach((entry) => (entry.isIntersecting ? seen(entry.target) : gone(entry.target))),
    { rootMargin: "600px" },
  );

  function watch(places) {
    for (const place of places) seer.observe(place);
  }

  return { kept, load, showForPrint, watch };
})();
