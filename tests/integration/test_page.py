"""The page in a real browser, opened from the disk: it works by mouse and by keyboard, and asks nobody for anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from pytest_quant.history.rows import StoredCheck, to_utc
from pytest_quant.printable import clean
from pytest_quant.report.page import page_html
from pytest_quant.report.text import figure, points
from pytest_quant.result import Interval, Status
from tests.support.browser import DESK, PHONE, Seen, Theme, Window
from tests.support.pages import HOSTILE, figures_of, history_of, rich_record, sources
from tests.support.pages import points as points_of
from tests.unit.history.compare.launched import timed
from tests.unit.record.examples import RUN

_FIGURES = """() => [...document.querySelectorAll("[data-value]")].map(
  one => [Number(one.closest("[data-check]").dataset.check), Number(one.dataset.value), one.textContent])"""
"""Reads every number that stands in a table of the page in a browser."""

TABS = ("run", "comparison", "history", "pareto")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with everything, in one file."""
    place = tmp_path_factory.mktemp("page") / "page.html"
    place.write_bytes(page_html(**sources()))
    return place


def _drawn(seen: Seen, charts: str = ".series canvas") -> None:
    expect(seen.page.locator(charts).first).to_be_visible()


@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("tab", TABS)
def test_each_page_opens_from_the_disk(file: Path, window: Window, tab: str, width: int) -> None:
    """No error on the console, no request but for the file itself, and no scrolling sideways."""
    seen = window.open(file, f"#{tab}", width=width)
    expect(seen.page.locator(f"section#{tab}")).to_be_visible()
    assert seen.page.locator("section.page:visible").count() == 1
    if tab == "history":
        _drawn(seen)
    assert seen.problems == []
    assert [url for url in seen.requests if not url.startswith(file.as_uri())] == []
    assert not seen.scrolls_sideways()


def _tests(seen: Seen) -> list[str]:
    return seen.shown("tbody.check tr.row button.open")


def test_a_click_on_a_head_sorts_by_its_figures(file: Path, window: Window) -> None:
    """Up, then down; checks without the figure come last both ways."""
    seen = window.open(file, "#run")
    head = seen.page.get_by_role("button", name="drop pp")
    column = seen.page.locator("tbody.check tr.row td[data-head='drop pp'][data-value]")
    for order, sign in (("ascending", 1.0), ("descending", -1.0)):
        head.click()
        assert (
            seen.page.locator("th[aria-sort=ascending], th[aria-sort=descending]").get_attribute("aria-sort") == order
        )
        drops = [float(each.get_attribute("data-value") or "") for each in column.all()]
        assert drops == sorted(drops, key=lambda drop: sign * drop)
        assert len(drops) == 5
        assert seen.page.locator("tbody.check").last.get_attribute("data-status") == "UNAVAILABLE"
    seen.page.get_by_role("button", name="status", exact=True).click()
    statuses = [each.get_attribute("data-status") for each in seen.page.locator("tbody.check").all()]
    assert statuses == ["FAIL", "UNAVAILABLE", "PASS", "PASS", "PASS", "PASS"]


def test_text_and_status_filter(file: Path, window: Window) -> None:
    """Both must fit, and how many do is told."""
    seen = window.open(file, "#run")
    assert seen.text("#shown") == "6 of 6"
    seen.page.get_by_role("searchbox", name="Search").fill("ladder DYNAMIC")
    assert _tests(seen) == ["test_ladder[ort-int8-dynamic]"]
    assert seen.text("#shown") == "1 of 6"
    seen.page.get_by_role("searchbox", name="Search").fill("")
    button = seen.page.get_by_role("button", name="FAIL 1")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert seen.text("#shown") == "1 of 6"
    seen.page.get_by_role("button", name="UNAVAILABLE 1").click()
    assert seen.text("#shown") == "2 of 6"
    button.click()
    assert seen.shown("tbody.check .status") == ["UNAVAILABLE"]


def test_a_check_opens_with_enter_and_closes_again(file: Path, window: Window) -> None:
    """Its button and the address say whether it is open, its rounds are drawn, and its figures end below each other."""
    seen = window.open(file, "#run")
    button = seen.page.locator("#check-0 button.open")
    detail = seen.page.locator("#detail-0")
    expect(detail).to_be_hidden()
    button.focus()
    seen.page.keyboard.press("Enter")
    expect(detail).to_be_visible()
    assert button.get_attribute("aria-expanded") == "true"
    assert seen.page.url.endswith("#check-0")
    expect(seen.page.locator("#detail-0 svg.rounds")).to_be_visible()
    for figure_of in (
        "#check-0 [data-head='drop pp']",
        "#detail-0 .small tbody td:nth-child(2)",
        "thead .number button",
    ):
        assert seen.page.locator(figure_of).first.evaluate("one => getComputedStyle(one).textAlign") == "right"
    seen.page.keyboard.press("Enter")
    expect(detail).to_be_hidden()
    assert seen.page.url.endswith("#run")
    seen.page.locator("#check-0 tr.row td").first.click()
    expect(detail).to_be_visible()


def test_the_top_names_what_is_broken_and_leads_there(file: Path, window: Window) -> None:
    """In the first window, without scrolling, beside what changed and by how much; the link opens the check."""
    for width in (PHONE, DESK):
        seen = window.open(file, width=width)
        for place in (".broken a", ".broken .why", ".verdict", ".differences [data-head=change]"):
            expect(seen.page.locator(place).first).to_be_in_viewport(ratio=1)
    assert "max_drop 4.23 > 1.0 pp" in seen.text(".broken")
    seen.page.locator(".broken a").first.click()
    expect(seen.page.locator("#detail-0")).to_be_visible()
    expect(seen.page.locator("#check-0 button.open")).to_be_focused()


def test_pages_are_chosen_by_keys_and_kept_in_the_address(file: Path, window: Window) -> None:
    """The one that is shown says so; the address of a page, a check or a series opens it, and a skip leaves it."""
    seen = window.open(file)
    for name in (*TABS[1:], TABS[0]):
        seen.page.locator(f"#tab-{name}").focus()
        seen.page.keyboard.press("Enter")
        expect(seen.page.locator(f"section#{name}")).to_be_visible()
        assert seen.page.url.endswith(f"#{name}")
        assert seen.page.locator("nav a[aria-current]").get_attribute("id") == f"tab-{name}"
    seen.page.locator("#tab-history").click()
    seen.page.locator(".skip").focus()
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("section#history")).to_be_visible()
    seen = window.open(file, "#series-1")
    expect(seen.page.locator("#series-1")).to_be_in_viewport()
    seen = window.open(file, "#check-3")
    expect(seen.page.locator("#detail-3")).to_be_visible()


def test_everything_can_be_reached_by_the_tab_key(file: Path, window: Window) -> None:
    """And what has the focus is seen to have it."""
    seen = window.open(file, "#run")
    seen.page.locator(".skip").focus()
    reached = set()
    for _ in range(40):
        seen.page.keyboard.press("Tab")
        result = seen.page.evaluate(
            "() => { const one = document.activeElement; const style = getComputedStyle(one);"
            " return [one.id || one.dataset.column || one.className || one.tagName, style.outlineStyle]; }"
        )
        if result[0] == "BODY":
            break
        assert result[1] != "none", result
        reached.add(result[0])
    assert {"theme", "tab-run", "search", "expand", "0", "open"} <= reached


@pytest.mark.parametrize("system", ["light", "dark"])
def test_a_chosen_theme_is_kept(file: Path, window: Window, system: str) -> None:
    """The button goes from the system's to light to dark; the next page that is opened has it."""
    seen = window.open(file, theme="dark" if system == "dark" else "light")

    def ground() -> str:
        return str(seen.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    own = {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}
    button = seen.page.get_by_role("button", name="Theme")
    assert (ground(), button.inner_text()) == (own[system], "Theme: auto")
    for theme in ("light", "dark"):
        button.click()
        assert (ground(), button.inner_text()) == (own[theme], f"Theme: {theme}")
    seen.page.reload()
    assert (ground(), button.inner_text()) == (own["dark"], "Theme: dark")
    button.click()
    assert ground() == own[system]


def test_a_chart_tells_its_points(file: Path, window: Window) -> None:
    """By mouse and by arrow keys, commits beside figures; each figure can be picked, and each machine is a line."""
    seen = window.open(file, "#series-1")
    frame = seen.page.locator("#series-1 .frame")
    expect(frame).to_be_visible()
    chart_points = points_of(120, seed=1)
    frame.focus()
    seen.page.keyboard.press("End")
    last = chart_points[-1]
    tip = seen.text("#tip")
    assert (last.commit or "")[:12] in tip
    assert f"speedup {figure(last.speedup)} [{figure(last.speedup_ci_low)}, {figure(last.speedup_ci_high)}] x" in tip
    assert (seen.page.locator("#said").text_content() or "").split(", ")[0] == (last.commit or "")[:12]
    seen.page.keyboard.press("ArrowLeft")
    assert (chart_points[-2].commit or "")[:12] in seen.text("#tip")
    seen.page.keyboard.press("Escape")
    expect(seen.page.locator("#tip")).to_be_hidden()
    frame.locator(".u-over").hover()
    expect(seen.page.locator("#tip")).to_be_visible()
    picker = seen.page.locator("#series-1 select").first
    assert picker.locator("option").all_inner_texts() == ["speedup", "median, ms", "score", "drop"]
    assert "1 change of level" in (frame.get_attribute("aria-label") or "")
    picker.select_option(label="drop")
    assert ": drop of 120 points, 0 changes" in (frame.get_attribute("aria-label") or "")
    assert seen.shown("#series-0 .u-legend .u-series:not(.edge)") == ["machine A", "machine B", "accepted"]
    assert seen.problems == []


_DRAWN = """async () => {
  const drawn = [];
  CanvasRenderingContext2D.prototype.fillText = (text, x, y) => drawn.push([text, y]);
  charts.redraw();
  await new Promise(requestAnimationFrame);
  const over = document.querySelector(".u-over");
  const top = over.getBoundingClientRect().top - over.closest(".u-wrap").getBoundingClientRect().top;
  return [drawn, top * uPlot.pxRatio];
}"""
"""Reads the texts that are drawn on the first chart, each with its place from above, and where the points begin."""


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_a_pull_request_ends_the_line_of_the_main_branch(tmp_path: Path, window: Window, width: int) -> None:
    """In the figure whose limit it breaks: limit, crosses and subjects are there, and no text is on a point."""
    main = [replace(point, candidate=97.0) for point in points_of(24)]
    main = [
        replace(point, candidate=68.0, drop=30.0, status=Status.FAIL) if at > 11 else point
        for at, point in enumerate(main)
    ]
    head = replace(main[-1], branch="topic", commit=RUN.commit, started_at=to_utc(RUN.started_at))
    history = history_of([*main, head], subjects={RUN.commit or "": "Use entropy"})
    record = rich_record()
    (tmp_path / "page.html").write_bytes(page_html([StoredCheck(RUN, record)], history=[history]))
    seen = window.open(tmp_path / "page.html", "#history", width=width)
    _drawn(seen)
    assert [each.evaluate("one => one.value") for each in seen.page.locator(".chart select").all()] == ["drop", "main"]
    assert seen.shown(".u-legend .u-series:not(.edge)") == ["avx2", "limit", "this run"]
    seen.page.locator(".frame").focus()
    seen.page.keyboard.press("End")
    assert seen.text("#tip").splitlines()[:2] == [(RUN.commit or "")[:12], "Use entropy"]
    seen.page.locator(".chart select").first.select_option("score")
    drawn, top = seen.page.evaluate(_DRAWN)
    assert sum(text == "\N{MULTIPLICATION SIGN}" for text, _ in drawn) == 13
    (label,) = {y for text, y in drawn if text.startswith("-29 pp at ")}
    assert label < top
    assert seen.problems == []


def test_an_open_page_has_the_figures_of_its_records(file: Path, window: Window) -> None:
    """What the browser shows, read back, is what stands in the file."""
    seen = window.open(file, "#run")
    seen.page.get_by_role("button", name="Expand all").click()
    expect(seen.page.locator("#detail-5 .parts")).to_be_visible()
    shown = seen.page.evaluate(_FIGURES)
    figures = [[each.check, each.value, each.text] for each in figures_of(file.read_text("utf-8"))]
    assert sorted(shown, key=str) == sorted(figures, key=str)


def test_foreign_texts_are_texts(tmp_path: Path, window: Window) -> None:
    """Of tests, models, branches and messages, in the table, the charts and their labels; nothing of them runs."""
    (tmp_path / "page.html").write_bytes(page_html(**sources(HOSTILE)))
    seen = window.open(tmp_path / "page.html", "#run")
    seen.page.get_by_role("button", name="Expand all").click()
    for tab in TABS:
        seen.page.locator(f"#tab-{tab}").click()
        assert clean(HOSTILE) in seen.page.locator(f"section#{tab}").inner_text() or tab == "pareto"
    seen.page.locator("#tab-history").click()
    expect(seen.page.locator("#series-0 canvas")).to_be_visible()
    assert clean(HOSTILE) in (seen.page.locator("#series-0 .frame").get_attribute("aria-label") or "")
    assert clean(HOSTILE) in seen.page.title()
    assert seen.page.locator("img").count() == 0
    assert seen.problems == []


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_a_text_of_thousands_of_characters_hides_nothing(tmp_path: Path, window: Window, width: int) -> None:
    """The tabs stay in the first two windows, the checks in the first four, and nothing is wider than the page."""
    (tmp_path / "page.html").write_bytes(page_html(**sources(HOSTILE + "x" * 5000)))
    seen = window.open(tmp_path / "page.html", "#run", width=width)
    height = int(seen.page.evaluate("innerHeight"))

    def top(place: str) -> float:
        return float(seen.page.locator(place).evaluate("one => one.getBoundingClientRect().top + scrollY"))

    assert top("#tab-run") < 2 * height
    assert top("#check-1") < 4 * height
    seen.page.get_by_role("button", name="Expand all").click()
    expect(seen.page.locator("#detail-0 .parts")).to_be_visible()
    for tab in TABS:
        seen.page.locator(f"#tab-{tab}").click()
        assert not seen.scrolls_sideways(), tab
    assert seen.problems == []


def test_without_a_script_the_tables_are_there(file: Path, window: Window) -> None:
    """As a forge shows it that runs none: every page below the other, and what is missing is told."""
    context = window.browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("section.page:visible").count() == len(TABS)
    assert page.locator("tbody.check tr.row:visible").count() == 6
    assert page.get_by_text("What each check opens to is shown by a script").is_visible()
    assert not page.locator("#search").is_visible()


def test_print_shows_everything(file: Path, window: Window) -> None:
    """Every page and every check; what is not drawn says so."""
    seen = window.open(file)
    seen.page.evaluate("content.then(() => dispatchEvent(new Event('beforeprint')))")
    seen.page.emulate_media(media="print")
    assert seen.page.locator("section.page:visible").count() == len(TABS)
    assert all(each.is_visible() for each in seen.page.locator("tr.detail").all())
    laid_out = "all => all.map(one => one.checkVisibility({ contentVisibilityAuto: true }))"
    assert all(seen.page.locator(".part").evaluate_all(laid_out))
    expect(seen.page.locator("#detail-0 svg.rounds")).to_be_visible()
    assert not seen.page.locator("#search").is_visible()


def test_a_dark_page_is_printed_on_white(file: Path, window: Window) -> None:
    """Whoever chose the theme, and it is dark again afterwards."""
    seen = window.open(file, theme="dark")

    def text() -> str:
        return str(seen.page.evaluate("getComputedStyle(document.body).color"))

    dark = text()
    seen.page.get_by_role("button", name="Theme").click(click_count=2)
    for _ in ("chosen", "of the system"):
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert text() == "rgb(27, 31, 36)"
        seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert text() == dark
        seen.page.get_by_role("button", name="Theme").click()


def test_no_table_of_checks_is_cut(tmp_path: Path, window: Window) -> None:
    """At a desk the one of all checks is seen as a whole, with every column, and those of each in its own."""
    page = sources()
    record = timed(rich_record(), 25.389)
    lost = replace(record.accuracy, drop=49.07, drop_ci=Interval(44.06, 54.1)) if record.accuracy else None
    other = replace(record, accuracy=lost, model="magika", precision="fp32", scheme="dynamic", batch_size=32)
    page["checks"] = [StoredCheck(page["checks"][0].run, each) for each in (record, other)]
    place = tmp_path / "page.html"
    place.write_bytes(page_html(**page))
    seen = window.open(place, "#check-0")
    expect(seen.page.locator("#detail-0 .parts")).to_be_visible()
    cut = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)"
    assert seen.page.locator(".wide:visible").evaluate_all(cut) == []


def test_figures_have_the_digits_of_the_terminal(file: Path, window: Window) -> None:
    """What scripts write is what Python writes, halves rounded to even digits too; exponents are written out."""
    values = [0.0, 93.125, 0.125, 99.9996, 0.001, 12345.678, 9999.4, 9999.5, -3.25, 0.045, 2.5, 1.0 / 3.0, 1e9]
    seen = window.open(file)
    shown = seen.page.evaluate("values => values.map(one => [charts.shown(one), charts.shown(one, '%')])", values)
    assert shown == [[figure(value), points(value)] for value in values]
    assert seen.page.evaluate("charts.shown(0.00001234)") == "0.00001234"


def assert_accessible(file: Path, window: Window, tab: str, width: int, theme: Theme) -> None:
    """Let axe look at a page with every check open, every list unfolded and the charts drawn."""
    seen = window.open(file, f"#{tab}", width=width, theme=theme)
    if tab == "run":
        seen.page.get_by_role("button", name="Expand all").click()
        expect(seen.page.locator("#detail-0 svg.rounds")).to_be_visible()
    if tab == "history":
        expect(seen.page.locator("#series-0 canvas")).to_be_visible()
    for details in seen.page.locator(f"section#{tab} details").all():
        details.evaluate("one => { one.open = true; }")
    assert seen.faults() == []


@pytest.mark.parametrize(("width", "theme"), [(DESK, "light"), (PHONE, "dark")])
@pytest.mark.parametrize("tab", TABS)
def test_axe_finds_nothing_serious(file: Path, window: Window, tab: str, width: int, theme: Theme) -> None:
    """In both themes and both widths; a night looks at the other two pairs."""
    assert_accessible(file, window, tab, width, theme)
