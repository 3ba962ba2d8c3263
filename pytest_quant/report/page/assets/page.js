"use strict";
// What the page holds, tabs, the table of the run, search, themes and print.
const content = (async function () {
  const bytes = Uint8Array.from(atob(document.getElementById("data").textContent), (char) => char.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
})();
(function () {
  const STATUSES = ["ERROR", "FAIL", "TEST FAILED", "UNAVAILABLE", "INCONCLUSIVE", "NO_BASELINE", "XFAIL", "PASS"];
  const THEMES = ["auto", "light", "dark"];
  const root = document.documentElement;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const links = all("nav a");
  const bodies = all("tbody.check");
  let data = null;

  // A page is chosen by the end of the address, which also opens one check or one series.
  function route() {
    const target = document.getElementById(location.hash.slice(1));
    const page = target?.closest("section.page") || document.querySelector("section.page:not([hidden])");
    for (const link of links) {
      link.ariaCurrent = link.hash === `#${page.id}` ? "page" : null;
      document.querySelector(link.hash).hidden = !link.ariaCurrent;
    }
    if (!target || target === page) return scrollTo(0, 0);
    if (target.matches("tbody.check")) {
      target.hidden = false;
      open(target, true);
      target.querySelector("button.open").focus();
    }
    target.scrollIntoView({ block: "start" });
  }

  function open(body, wanted) {
    body.classList.toggle("opened", wanted);
    body.querySelector("button.open").setAttribute("aria-expanded", String(wanted));
    if (wanted) fill(body);
  }

  // The templates of the page made this, with every text escaped.
  function fill(body) {
    const cell = body.querySelector("tr.detail > td");
    if (!cell.childElementCount && data) cell.innerHTML = data.details[body.id];
  }

  // A chart is drawn when it is about to be seen.
  const seer = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        seer.unobserve(target);
        charts.draw(target, { ...data[target.dataset.series], subjects: data.subjects });
      }
    },
    { rootMargin: "600px" },
  );

  function setTheme(name) {
    root.dataset.theme = name;
    charts.redraw();
  }

  // What is printed is open, dark on white paper, with the charts of the history that were seen.
  function openForPrint() {
    bodies.forEach(fill);
    const chosen = root.dataset.theme;
    setTheme("light");
    addEventListener("afterprint", () => setTheme(chosen), { once: true });
  }

  function onTable(event) {
    const button = event.target.closest("button");
    if (button && button.dataset.column !== undefined) return sort(button);
    const row = event.target.closest("a, .detail") ? null : event.target.closest("tr.row");
    if (!row || (!button && String(getSelection()))) return;
    const wanted = !row.parentElement.classList.contains("opened");
    open(row.parentElement, wanted);
    // The address leads back to what was opened last.
    history.replaceState(null, "", wanted ? `#${row.parentElement.id}` : "#run");
  }

  // By the number of a cell, of two that of the candidate; cells without one come last either way.
  function keyOf(body, column) {
    const cell = body.rows[0].cells[column];
    const text = cell.textContent.trim();
    if (column === 0) return STATUSES.indexOf(text);
    return cell.dataset.value === undefined ? text : Number(cell.dataset.value);
  }

  function sort(button) {
    const head = button.parentElement;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const keys = new Map(bodies.map((body) => [body, keyOf(body, Number(button.dataset.column))]));
    bodies.sort((left, right) => {
      const [first, second] = [keys.get(left), keys.get(right)];
      if (first === "-" || second === "-") return (first === "-") - (second === "-");
      const order = typeof first === "number" && typeof second === "number" ? first - second : String(first).localeCompare(String(second));
      return up ? order : -order;
    });
    document.getElementById("checks").append(...bodies);
    document.getElementById("said").textContent = `sorted by ${button.textContent}, ${up ? "ascending" : "descending"}`;
  }

  // Shows what has all words of a search field and one of the chosen statuses, and how many that are.
  function filter(id, items, output) {
    const words = document.getElementById(id).value.toLowerCase().split(/\s+/).filter(Boolean);
    const statuses = all("button.filter[aria-pressed=true]").map((button) => button.dataset.status);
    for (const item of items) {
      const chosen = !statuses.length || !item.dataset.status || statuses.includes(item.dataset.status);
      item.hidden = !chosen || !words.every((word) => item.dataset.words.includes(word));
    }
    document.getElementById(output).textContent = `${items.filter((item) => !item.hidden).length} of ${items.length}`;
  }

  const filters = [
    ["search", bodies, "shown"],
    ["search-series", all("article[data-words]"), "shown-series"],
  ].filter(([id]) => document.getElementById(id));
  for (const each of filters) {
    document.getElementById(each[0]).addEventListener("input", () => filter(...each));
    filter(...each);
  }
  for (const button of all("button.filter")) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      filter(...filters[0]);
    });
  }
  document.getElementById("expand")?.addEventListener("click", ({ target }) => {
    const wanted = bodies.some((body) => !body.hidden && !body.classList.contains("opened"));
    for (const body of bodies) if (!body.hidden) open(body, wanted);
    target.textContent = wanted ? "Close all" : "Expand all";
  });
  const theme = document.getElementById("theme");
  theme.textContent = `Theme: ${root.dataset.theme}`;
  theme.addEventListener("click", () => {
    setTheme(THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length]);
    theme.textContent = `Theme: ${root.dataset.theme}`;
    try {
      localStorage.setItem("pytest-quant-theme", root.dataset.theme);
    } catch (error) {
      // Then it holds for this visit.
    }
  });
  for (const body of bodies) open(body, false);
  if (bodies.length) document.getElementById("checks").addEventListener("click", onTable);
  addEventListener("hashchange", route);
  addEventListener("beforeprint", openForPrint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", charts.redraw);
  route();
  content.then((unpacked) => {
    data = unpacked;
    bodies.filter((body) => body.classList.contains("opened")).forEach(fill);
    all(".chart").forEach((place) => seer.observe(place));
  });
})();
