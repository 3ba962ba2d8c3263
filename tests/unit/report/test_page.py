"""A page: one harmless file, whose figures and drawings are those of records; see ``screens`` for all that it says."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html import unescape
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.history.rows import StoredCheck
from pytest_quant.printable import clean
from pytest_quant.record import Record, run_to_json
from pytest_quant.report import page
from pytest_quant.report.page import UPLOT, page_html, run_table
from pytest_quant.result import AccuracyResult, Status
from tests.support.pages import (
    HOSTILE,
    data_of,
    figures_of,
    history_of,
    numbers_of,
    opened,
    points,
    rich_record,
    sources,
    words_of,
    wrong_texts,
)
from tests.unit.history.compare.launched import packed
from tests.unit.record.examples import FAILED_DROP, RUN, a_pass, a_record, series_of, unavailable

MOST_BYTES = 3_000_000
CHECKS = 200

_ASSETS = files("pytest_quant.report.page").joinpath("assets")
_RELEASED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""Files of https://registry.npmjs.org/uplot/-/uplot-1.6.32.tgz with their SHA-256."""


@pytest.fixture(scope="module")
def html() -> str:
    """A page with everything."""
    return page_html(**sources()).decode()


def test_every_figure_is_that_of_its_check(html: str) -> None:
    """Bit for bit a number that the check has in the JSON of the run, and as many digits as are shown are right."""
    checks = sources()["checks"]
    run = json.loads(json.dumps(run_to_json(checks[0].run, [check.record for check in checks])))
    numbers = [numbers_of(check) for check in run["checks"]]
    figures = figures_of(html)
    assert len(figures) > 50
    for figure in figures:
        assert figure.value in numbers[figure.check], figure
    assert list(wrong_texts(figures)) == []


def test_foreign_texts_are_shown_as_texts() -> None:
    """Of tests, models, outputs, metrics, branches and messages; nothing becomes markup, acts or changes a number."""
    hostile, plain = (page_html(**sources(text)).decode() for text in (HOSTILE, "-plain"))
    assert words_of(hostile).count(clean(HOSTILE)) > 20
    assert [figure.value for figure in figures_of(hostile)] == [figure.value for figure in figures_of(plain)]
    hostile, plain = opened(hostile), opened(plain)
    for tag in ("<script", "</script", "<img", "<style", "</style", "-->"):
        assert hostile.count(tag) == plain.count(tag)
    assert {char for char in hostile if not char.isprintable()} == {"\n"}


def test_two_hundred_checks_with_their_history_take_three_megabytes() -> None:
    """At the most, with as many points of each series as fit into one file; how many are left out is told."""
    names = [f"tests/test_models.py::test_{number}" for number in range(CHECKS)]
    record = rich_record()
    records = [replace(record, nodeid=name, series=series_of(name)) for name in names]
    history = [history_of(points(100, seed=seed), nodeid=name, total=5000) for seed, name in enumerate(names)]
    html = page_html([StoredCheck(RUN, record) for record in records], history=history)
    assert len(html) <= MOST_BYTES
    left_out = "20000 of 1000000 points of 200 series, the newest ones; pytest-quant history SERIES --json"
    assert left_out in words_of(html.decode())


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def test_the_policy_allows_what_is_in_the_page_and_nothing_else(html: str) -> None:
    """Styles and scripts by their digests; images, connections and frames by nobody."""
    content = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert content is not None
    directives = [words.split() for words in content[1].replace("&#39;", "'").split("; ")]
    policy = {name: allowed for name, *allowed in directives}
    assert policy["default-src"] == ["'none'"]
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert sorted(policy["script-src"]) == sorted(map(_digest, scripts))
    assert policy["style-src"] == [*map(_digest, re.findall(r"<style>(.*?)</style>", html, re.DOTALL))]


def test_nothing_is_asked_of_a_network(html: str) -> None:
    """No element names an address but places in the page itself, and none has a handler or a style of its own."""
    markup = re.sub(r"<(script|style)\b.*?</\1>", "", opened(html), flags=re.DOTALL)
    assert re.findall(r'\b(?:src|srcset|action|data|poster)="', markup) == []
    assert {address[0] for address in re.findall(r'href="([^"]*)"', markup)} == {"#"}
    assert re.findall(r'<[^>]*\s(?:on\w+|style)="', markup) == []


@given(st.text())
def test_no_text_ends_a_script(text: str) -> None:
    """The data of a page is base64 for every text, and comes back."""
    written = page.pack({text: 1.5, "text": text})
    assert re.fullmatch("[A-Za-z0-9+/]+=*", written)
    assert json.loads(zlib.decompress(base64.b64decode(written)))["text"] == text


def test_scripts_and_styles_end_nothing_and_the_library_is_the_one_that_was_released(html: str) -> None:
    """Its files have the digests that stand beside its version, which the page names, and its licence is there."""
    for name in ("page.css", "first.js", "charts.js", "page.js", *(f"uplot/{name}" for name in _RELEASED)):
        text = _ASSETS.joinpath(*name.split("/")).read_text("utf-8")
        assert not re.search(r"</(script|style)|<!--|\r", text, re.IGNORECASE), name
    for name, digest in _RELEASED.items():
        assert hashlib.sha256(_ASSETS.joinpath("uplot", name).read_bytes()).hexdigest() == digest
    assert f"(v{UPLOT})" in _ASSETS.joinpath("uplot", "uPlot.iife.min.js").read_text("utf-8")[:100]
    assert "MIT License" in _ASSETS.joinpath("uplot", "LICENSE").read_text("utf-8")
    assert f"uPlot {UPLOT}, MIT" in html


def _table(*records: Record, broken: tuple[str, ...] = ()) -> dict[str, Any]:
    return run_table([StoredCheck(RUN, record) for record in records], broken)


def test_what_is_broken_is_named_first_with_both_figures() -> None:
    """Errors and failures before what could not be told; of many eight, and how many more; no pass, none expected."""
    table = _table(a_pass(), unavailable(), a_record())
    assert [(check["row"].status, check["headline"]) for check in table["broken"]] == [
        ("FAIL", "max_drop 4.23 > 1.0 pp"),
        ("UNAVAILABLE", "backend 'ort-cuda' cannot run here: onnxruntime-gpu is not installed"),
    ]
    assert table["counts"] == [("FAIL", 1), ("UNAVAILABLE", 1), ("PASS", 1)]
    table = _table(*(replace(a_record(), nodeid=f"t.py::test_{number}") for number in range(11)))
    assert (len(table["broken"]), table["unnamed"]) == (8, 3)
    table = _table(replace(a_record(), expected=True))
    assert ([check["row"].status for check in table["checks"]], table["broken"]) == (["XFAIL"], [])
    (failed,) = _table(a_pass(), broken=(a_pass().nodeid,))["broken"]
    assert (failed["row"].status, failed["headline"][:22]) == ("TEST FAILED", "the check passed, the ")
    verdict = replace(FAILED_DROP, status=Status.INCONCLUSIVE, reason="too few samples")
    table = _table(replace(a_record(), status=Status.INCONCLUSIVE, verdicts=(verdict,)))
    assert table["checks"][0]["headline"] == "max_drop: too few samples"


def _facts(record: Record) -> dict[str, str]:
    (check,) = _table(record)["checks"]
    return dict(pair for section in check["sections"] for pair in section.facts)


def test_the_cell_that_breaks_a_limit_is_marked() -> None:
    """Of each broken limit, and no other; an SQNR stands where the score does, and a percentile has no cell."""

    def marked(*limits: str, record: Record | None = None) -> list[str]:
        verdicts = (*(replace(FAILED_DROP, limit=limit) for limit in limits), *(a_pass().verdicts or ()))
        table = _table(replace(record or a_record(), verdicts=verdicts))
        cells = zip(table["heads"], table["checks"][0]["cells"], strict=True)
        return [head for (head, _), (_, _, is_broken) in cells if is_broken]

    assert marked() == []
    assert marked("max_drop", "max_size_mb", "outputs") == ["drop pp", "size MB"]
    assert marked("min_speedup", "max_latency_ms", "min_coverage") == ["p50 ms", "speedup x", "coverage %"]
    assert marked("max_latency_ms[p99]", "min_sqnr_db") == []
    assert marked("min_sqnr_db", record=a_record(accuracy=AccuracyResult(n=9, sqnr_db=4.5))) == ["SQNR dB"]


def test_a_question_mark_has_its_reason() -> None:
    """Beside the speedup that is in doubt; one in another text is a text."""
    record = a_record()
    assert record.latency is not None
    doubtful = replace(record, model="net ?", latency=replace(record.latency, reasons=("the clock is slow",)))
    html = page_html([StoredCheck(RUN, each) for each in (doubtful, record)]).decode()
    assert re.findall(r"<abbr[^>]*>", html) == ['<abbr title="timing in doubt: the clock is slow">']


def test_the_cause_comes_first_with_all_that_was_asked() -> None:
    """Ranges side by side, the worst first, with factors; what each rounding costs; the command that asks again."""
    record = rich_record()
    (check,) = _table(record)["checks"]
    cause = check["sections"][0]
    assert cause.title == "Cause"
    assert cause.facts[0] == ("cause", "calibration, 2 of 3 ranges do not fit the evaluation samples")
    asked, ranges, sites = cause.tables
    assert asked.rows == (("the engine", "12.1"), ("weights alone rounded", "40.2"), ("nothing", "equal"))
    assert ranges.caption == "Ranges of the engine and of evaluation samples, 2 of 3 off"
    # Widths 255 against 4, 1 against 2, and 2.5 against 2.
    assert [row[1:] for row in ranges.rows] == [
        ("[0, 255]", "[-2, 2]", "63.8"),
        ("[-0.5, 0.5]", "[-1, 1]", "0.5"),
        ("[0, 2.5]", "[0, 2]", "1.25"),
    ]
    assert [row[:3] for row in sites.rows] == [("/fc/Gemm", "weights", "81.2"), ("/conv1/Conv", "activations", "-2.5")]
    assert "pytest-quant diagnose tests/test_digits.py::test_int8" in dict(check["commands"]).values()
    (check,) = _table(a_pass())["checks"]
    assert check["sections"][0].title == "Accuracy"
    assert not any("diagnose" in command for _, command in check["commands"])


@pytest.mark.parametrize("has_base", [True, False])
def test_what_changed_comes_first_where_there_is_a_base(has_base: bool) -> None:
    """Else the run; the tabs have the same order, and how much there is to see behind each."""
    arguments = sources()
    html = page_html(**arguments | ({} if has_base else {"compared": None})).decode()
    order = ["comparison", "run"] if has_base else ["run", "comparison"]
    assert re.findall(r'<section id="(\w+)"', html) == [*order, "history", "pareto"]
    tabs = [" ".join(re.sub("<[^>]+>", "", tab).split()) for tab in re.findall(r'<a id="tab-\w+".*', html)]
    first = ["Comparison 2 regressed", "This run 1 failed"] if has_base else ["This run 1 failed", "Comparison"]
    changes = sum(len(series.changes) for series in arguments["history"])
    assert tabs == [*first, f"History {changes} changes of level", "Pareto"]


def test_all_changes_of_level_stand_in_one_list() -> None:
    """The newest first, each with the subject of its commit and a link to its series."""
    old, new = points(60), points(80)
    subject = f"Use <b>entropy</b> {'x' * 99}"
    old_history = history_of(old, subjects={old[30].commit or "": subject})
    html = page_html([], history=[old_history, history_of(new, nodeid="test_new")]).decode()
    items = re.findall(r"<li>(2026-01-0\d) <a href=\"#(series-\d)\">.*?</a>: WORSE, speedup (.*?)</li>", html)
    assert [(day, anchor) for day, anchor, _ in items] == [("2026-01-02", "series-1"), ("2026-01-02", "series-0")]
    assert [unescape(text).partition("; ")[2] for *_, text in items] == ["", f"0000001ecccc {subject[:72]}"]
    assert data_of(html)["subjects"] == {"0000001ecccc": subject[:72]}


def test_lost_and_won_samples_are_those_of_the_bits() -> None:
    """Right in one engine only, of many the first dozen; damaged bits are told and leave the rest."""
    record = rich_record()
    assert record.accuracy is not None
    facts = _facts(record)
    assert (facts["samples lost"], facts["samples won"]) == ("3: 0, 1, 2", "1: 391")
    none_right = replace(record.accuracy, candidate_correct=packed([False] * record.accuracy.n))
    facts = _facts(replace(record, accuracy=none_right))
    assert facts["samples lost"] == "398: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..."
    assert facts["samples won"] == "none"
    damaged = replace(record, accuracy=replace(record.accuracy, candidate_correct="!"))
    (check,) = _table(damaged)["checks"]
    assert any("are damaged" in line for section in check["sections"] for line in section.lines)
    assert "drop" in _facts(damaged)
