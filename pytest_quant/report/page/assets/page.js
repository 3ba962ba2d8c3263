"use strict";
// What the page holds, tabs, the table of the run, search, themes and print.
const content = (async function () {
  const { packed } = JSON.parse(document.getElementById("data").textContent);
  const bytes = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
})();
(function () {
  const root = document.documentElement;
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const bodies = [...document.querySelectorAll("tbody.check")];
  const search = document.getElementById("search");
  const searchSeries = document.getElementById("search-series");
  const expand = document.getElementById("expand");
  const said = document.getElementById("said");

  let current = "";
  let themed;
  let data = null;

  // A page is chosen by the end of the address, which also opens one check or one series.
  function show(name) {
    current = name;
    for (const tab of tabs) {
      const chosen = tab.getAttribute("aria-controls") === name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
    }
  }

  function route() {
    const target = document.getElementById(location.hash.slice(1));
    const page = target && target.closest("section.page");
    if (!page) {
      if (!current) show("run");
      return;
    }
    show(page.id);
    if (target === page) {
      scrollTo(0, 0);
      return;
    }
    if (target.matches("tbody.check")) {
      target.hidden = false;
      open(target, true);
      target.querySelector("button.open").focus();
    }
    target.scrollIntoView({ block: "start" });
  }

  function onTabs(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const now = tabs.indexOf(event.target);
    if (now < 0) return;
    let next = null;
    if (step) next = tabs[(now + step + tabs.length) % tabs.length];
    if (event.key === "Home") next = tabs[0];
    if (event.key === "End") next = tabs[tabs.length - 1];
    if (event.key === " ") next = event.target;
    if (!next) return;
    event.preventDefault();
    location.hash = next.getAttribute("href");
    next.focus();
  }

  function open(body, wanted) {
    body.classList.toggle("opened", wanted);
    body.querySelector("button.open").setAttribute("aria-expanded", String(wanted));
    if (wanted) fill(body);
  }

  // The templates of the page made this, with every text escaped.
  function fill(body) {
    const cell = body.querySelector("tr.detail > td");
    if (cell.childElementCount || !data) return;
    cell.innerHTML = data.details[body.id];
    cell.querySelectorAll(".chart").forEach((place) => seer.observe(place));
  }

  function draw(place) {
    seer.unobserve(place);
    if (place.childElementCount) return;
    if (place.dataset.rounds) charts.rounds(place, data[place.dataset.rounds]);
    else series.draw(place, data[place.dataset.series]);
  }

  // A chart is drawn when it is about to be seen.
  const seer = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target)), {
    rootMargin: "600px",
  });

  // What is printed is open, dark on white paper, with its charts and those of the history that were seen.
  function openForPrint() {
    themed = root.dataset.theme;
    root.dataset.theme = "light";
    bodies.forEach(fill);
    document.querySelectorAll(".chart[data-rounds]").forEach(draw);
    charts.redraw();
  }

  function printed() {
    if (themed === undefined) delete root.dataset.theme;
    else root.dataset.theme = themed;
    charts.redraw();
  }

  function onTable(event) {
    const button = event.target.closest("button");
    if (button && button.dataset.column !== undefined) sort(button);
    else if (!event.target.closest("a, .detail") && event.target.closest("tr.row")) {
      const body = event.target.closest("tbody");
      if (button || !String(getSelection())) open(body, !body.classList.contains("opened"));
    }
  }

  // By the number of a cell, of two that of the candidate; cells without one come last either way.
  function keyOf(body, column) {
    const cell = body.rows[0].cells[column];
    if (column === 0) return ["ERROR", "FAIL", "UNAVAILABLE", "INCONCLUSIVE", "NO_BASELINE", "XFAIL", "PASS"].indexOf(body.dataset.status);
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = cell.textContent.trim();
    return text === "-" ? null : text;
  }

  function sort(button) {
    const column = Number(button.dataset.column);
    const head = button.parentElement;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const keys = new Map(bodies.map((body) => [body, keyOf(body, column)]));
    bodies.sort((one, other) => {
      const [first, second] = [keys.get(one), keys.get(other)];
      if (first === null || second === null) return (first === null) - (second === null);
      const order = typeof first === "number" && typeof second === "number" ? first - second : String(first).localeCompare(String(second));
      return up ? order : -order;
    });
    document.getElementById("checks").append(...bodies);
    said.textContent = `sorted by ${button.textContent}, ${up ? "ascending" : "descending"}`;
  }

  // Shows what has all words of a search field, and how many that are.
  function filter(field, all, output, fits = () => true) {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const item of all) item.hidden = !fits(item) || !words.every((word) => item.dataset.words.includes(word));
    document.getElementById(output).textContent = `${all.filter((item) => !item.hidden).length} of ${all.length}`;
  }

  function filterChecks() {
    const statuses = [...document.querySelectorAll("button.filter[aria-pressed=true]")].map((button) => button.dataset.status);
    filter(search, bodies, "shown", (body) => !statuses.length || statuses.includes(body.dataset.status));
  }

  function filterSeries() {
    filter(searchSeries, [...document.querySelectorAll("article.series")], "shown-series");
  }

  function theme() {
    const button = document.getElementById("theme");
    const names = ["auto", "light", "dark"];
    const tell = () => {
      button.textContent = `Theme: ${root.dataset.theme || "auto"}`;
    };
    button.addEventListener("click", () => {
      const next = names[(names.indexOf(root.dataset.theme || "auto") + 1) % names.length];
      if (next === "auto") delete root.dataset.theme;
      else root.dataset.theme = next;
      try {
        localStorage.setItem("pytest-quant-theme", next);
      } catch (error) {
        // Then it holds for this visit.
      }
      tell();
      charts.redraw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", charts.redraw);
    tell();
  }

  for (const body of bodies) open(body, false);
  document.querySelector("[role=tablist]").addEventListener("keydown", onTabs);
  window.addEventListener("hashchange", route);
  if (bodies.length) {
    document.getElementById("checks").addEventListener("click", onTable);
    search.addEventListener("input", filterChecks);
    for (const button of document.querySelectorAll("button.filter")) {
      button.addEventListener("click", () => {
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
        filterChecks();
      });
    }
    expand.addEventListener("click", () => {
      const wanted = bodies.some((body) => !body.hidden && !body.classList.contains("opened"));
      for (const body of bodies) if (!body.hidden) open(body, wanted);
      expand.textContent = wanted ? "Close all" : "Expand all";
    });
    filterChecks();
  }
  if (searchSeries) {
    searchSeries.addEventListener("input", filterSeries);
    filterSeries();
  }
  window.addEventListener("beforeprint", openForPrint);
  window.addEventListener("afterprint", printed);
  theme();
  route();
  content.then((unpacked) => {
    data = unpacked;
    bodies.filter((body) => body.classList.contains("opened")).forEach(fill);
    document.querySelectorAll(".chart[data-series]").forEach((place) => seer.observe(place));
  });
})();
