"""Pages of known content, and what stands on a page, read back from its HTML."""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from typing import Any

import numpy as np

from pytest_quant.history.baselines.file import AcceptedLatency, BaselineEntry
from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Comparison
from pytest_quant.history.rows import StoredCheck
from pytest_quant.history.summaries import CheckSummary, SeriesSummary
from pytest_quant.history.trends import SeriesHistory, find_changes
from pytest_quant.record import Record
from pytest_quant.result import ClassScore, Hint, OpCoverage, OutputError, Status
from pytest_quant.spec import SeriesKey
from tests.unit.history.compare.launched import answered, answers, launch, packed, record_of, timed
from tests.unit.record.examples import ACCURACY, CAUSE, COVERAGE, RUN, a_check, a_pass, a_record, series_of, unavailable

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`${7*7}{{ 7*7 }}"
    "&lt;</style></title>--><!--\u2028\x1b[31m\u202e"
)
"""A text that is markup, a template, a script's end, an escape for a terminal, and turns what follows it round."""

STEP = 0.9
"""Factor of the speedup from the middle of a series on."""

_START = datetime(2026, 1, 1, tzinfo=UTC)
_LARGE = OpCoverage("QLinearConv", 53, 52, 1_814_073_344, 1_696_058_368, stands_for="Conv")
"""Convolutions of a usual model."""

_VOID = frozenset({"meta", "input", "link", "br", "img", "hr", "wbr"})


def points(
    number: int, *, series: str = "key", branch: str = "main", seed: int = 0, machines: int = 1
) -> list[CheckSummary]:
    """Return points whose score repeats, whose speedup is noisy and drops by a tenth in their middle."""
    random = np.random.default_rng(seed)
    result = []
    for place, noise in enumerate(np.exp(random.normal(0.0, 0.01, number)).tolist()):
        speedup = 2.0 * noise * (STEP if place >= number // 2 else 1.0)
        result.append(
            CheckSummary(
                run_id=f"{branch}-{place}",
                started_at=(_START + timedelta(hours=place)).isoformat(),
                commit=f"{place:08x}{'c' * 32}",
                branch=branch,
                dirty=False,
                series=series,
                version="v1",
                identity=f"machine-{place % machines}",
                isa="avx2",
                status=Status.PASS,
                metric="top1",
                unit="%",
                better="higher",
                n=400,
                reference=97.75,
                candidate=93.125,
                drop=4.625,
                speedup=speedup,
                reference_p50_ms=1.0,
                candidate_p50_ms=1.0 / speedup,
                coverage_pct=87.5,
                size_mb=0.05,
                speedup_ci_low=speedup * 0.98,
                speedup_ci_high=speedup * 1.02,
                p50_low_ms=0.99 / speedup,
                p50_high_ms=None if place % 7 == 0 else 1.01 / speedup,
                drop_ci_low=3.5,
                drop_ci_high=5.75,
            )
        )
    return result


def history_of(
    measured: Sequence[CheckSummary],
    *,
    nodeid: str = "tests/test_digits.py::test_int8",
    total: int | None = None,
    accepted: bool = False,
    subjects: Mapping[str, str] = {},
) -> SeriesHistory:
    """Return the history of one series with these points, whose main branch is ``main``."""
    key = json.dumps([nodeid, "digits", "ort", "int8", "static", 1, "top1"])
    summary = SeriesSummary(key, total or len(measured), measured[-1].started_at)
    entry = BaselineEntry(
        **SeriesKey.parse(key)._asdict(),
        commit="acce97ed" * 5,
        run="20260101T000000Z-00",
        reason="the release",
        accepted_at=_START,
        unit="%",
        candidate_score=93.5,
        drop=4.25,
        latency=(AcceptedLatency({"cpu": "Some CPU"}, 1.95, 0.51),),
    )
    changes = find_changes(point for point in measured if point.branch == "main")
    return SeriesHistory(summary, measured, "main", tuple(changes), entry if accepted else None, subjects)


def rich_record(name: str = "test_int8", hostile: str = "") -> Record:
    """Return a failed record with everything that a page shows of one, `hostile` in each of its texts."""
    record = a_record()
    right = answers(range(5))
    accuracy = replace(
        ACCURACY,
        n=len(right),
        reference_correct=packed(answers((390, 391))),
        candidate_correct=packed(answers((0, 1, 2, 390))),
        by_output=(
            OutputError(f"scores{hostile}", 21.37, 0.98765, 3.25, 17),
            OutputError("boxes/0~x", 33.1, 0.99, 0.5, 3),
        ),
        by_class=tuple(ClassScore(label, 40 + label, 98.3125, 98.3125 - 2.5 * label) for label in range(15)),
        metric=f"top1{hostile}",
    )
    return replace(
        record,
        nodeid=f"tests/test_digits.py::{name}[{hostile}]" if hostile else f"tests/test_digits.py::{name}",
        series=series_of(f"tests/test_digits.py::{name}"),
        model=f"digits{hostile}",
        accuracy=accuracy,
        coverage=replace(COVERAGE, by_op=(*COVERAGE.by_op, _LARGE)),
        notes=(*record.notes, f"a note{hostile}"),
        cause=replace(
            CAUSE,
            text=f"{CAUSE.text}{hostile}",
            without=f"{CAUSE.without}{hostile}",
            steps=(replace(CAUSE.steps[0], asked=f"the engine{hostile}"), *CAUSE.steps[1:]),
            ranges=tuple(replace(row, nodes=(f"{row.nodes[0]}{hostile}",)) for row in CAUSE.ranges),
            sites=tuple(replace(row, nodes=(f"{row.nodes[0]}{hostile}",)) for row in CAUSE.sites),
            unseen=tuple(f"{text}{hostile}" for text in CAUSE.unseen),
        ),
        hints=(Hint(f"it helps{hostile}", f"exclude=['/conv1/Conv{hostile}']", "max_drop", 4.23, 0.5),),
    )


def ladder() -> list[Record]:
    """Return three engines of one model, timed and compared."""
    result = []
    for scheme, score, ms in (("static", 93.5, 0.25), ("dynamic", 97.0, 0.4), ("qat", 92.0, 0.5)):
        record = timed(a_record(a_check(scheme=scheme)), ms)
        accuracy = replace(ACCURACY, candidate=score, drop=97.78 - score)
        nodeid = f"tests/test_ladder.py::test_ladder[ort-int8-{scheme}]"
        result.append(
            replace(record, nodeid=nodeid, accuracy=accuracy, series=series_of(nodeid, scheme), status=Status.PASS)
        )
    return result


def compared(hostile: str = "") -> Comparison:
    """Return a comparison with a regression of accuracy and of speed, and a test that stayed as it was."""

    def side(commit: str, wrong: int, ms: float) -> list[StoredCheck]:
        result = []
        for run, noise in enumerate((1.0, 1.001, 0.999, 1.002, 0.998)):
            changed = timed(
                answered(record_of(f"tests/test_a.py::test_a{hostile}", latency=True), answers(range(wrong))),
                ms * noise,
            )
            same = timed(answered(record_of("tests/test_b.py::test_b", latency=True), answers()), 0.5 * noise)
            result += launch(changed, same, run=str(run), commit=commit)
        return result

    about = (f"base ba5e: merge base with main{hostile}",)
    return compare(side("ba5e", 0, 0.5), side("4ead", 20, 0.6), full_suite=True, about=about)


def sources(hostile: str = "", *, history: int = 120, series: int = 2) -> dict[str, Any]:
    """Return what a page is made of: a run of six checks, compared, with a history."""
    run = replace(RUN, branch=f"topic{hostile}", dirty=True, pull_request="17")
    missing = replace(unavailable(), message=f"the runtime is not here{hostile}\n  next: pip install it")
    records = [rich_record(hostile=hostile), replace(a_pass(), nodeid="tests/test_b.py::test_b"), missing, *ladder()]
    first = history_of(
        points(history, machines=2),
        nodeid=f"tests/test_digits.py::test_int8{hostile}",
        total=5 * history,
        accepted=True,
    )
    others = [
        history_of(points(history, seed=seed), nodeid=f"tests/test_n.py::test_{seed}") for seed in range(1, series)
    ]
    return {
        "checks": [StoredCheck(run, record) for record in records],
        "compared": compared(hostile),
        "history": [first, *others],
    }


@dataclass(frozen=True, slots=True)
class ReadFigure:
    """A cell of a table with a number: the check that it is of, the number, and the text that shows it."""

    check: int
    value: float
    text: str


class _Reader(HTMLParser):
    """Reads the texts of a page, and the cells with numbers."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.figures: list[ReadFigure] = []
        self.texts: list[str] = []
        self._stack: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[list[Any]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            return
        self._stack.append((tag, dict(attrs)))
        if "data-value" in self._stack[-1][1]:
            self._open.append([len(self._stack), ""])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Such an element of a drawing holds nothing."""

    def handle_data(self, data: str) -> None:
        if self._stack and self._stack[-1][0] not in ("script", "style"):
            self.texts.append(data)
        for each in self._open:
            each[1] += data

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open[-1][0] == len(self._stack):
            self._keep(self._open.pop()[1])
        assert self._stack[-1][0] == tag, f"</{tag}> ends <{self._stack[-1][0]}>"
        self._stack.pop()

    def _keep(self, text: str) -> None:
        around = [attributes for _, attributes in self._stack]
        check = next(attributes["data-check"] for attributes in reversed(around) if "data-check" in attributes)
        self.figures.append(ReadFigure(int(check or ""), float(around[-1]["data-value"] or ""), text.strip()))


def data_of(html: str) -> dict[str, Any]:
    """Return what comes deflated with a page."""
    result = re.search(r'<script type="text/plain" id="data">(.*?)</script>', html, re.DOTALL)
    assert result is not None
    data: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(result[1])))
    return data


def opened(html: str) -> str:
    """Return a page in which every check is open, as a browser has it then."""
    for anchor, detail in data_of(html)["details"].items():
        number = anchor.removeprefix("check-")
        place = re.compile(rf'(<tr class="detail" id="detail-{number}"><td colspan="\d+">)(?=</td>)')
        html, times = place.subn(lambda result, detail=detail: result[1] + detail, html)  # type: ignore[misc]
        assert times == 1
    return html


def figures_of(html: str) -> list[ReadFigure]:
    """Return every number in the tables of a page, those of what its checks open to among them."""
    reader = _Reader()
    reader.feed(opened(html))
    return reader.figures


def words_of(html: str) -> str:
    """Return what a reader of the page sees, every check open, without what scripts draw."""
    reader = _Reader()
    reader.feed(opened(html))
    return " ".join(reader.texts)


_BLOCKS = "address|article|caption|dl|div|details|footer|h1|h2|h3|header|li|main|nav|p|section|summary|table|tr|ul"


def lines_of(html: str) -> list[str]:
    """Return what a reader of the page sees, line by line, with every check open; drawings are told in brackets."""
    text = re.sub(
        r"<(head|script|style|footer)\b.*?</\1>|<title>.*?</title>|<wbr>|\n", "", opened(html), flags=re.DOTALL
    )
    text = re.sub(r'<svg[^>]*aria-label="([^"]*)"[^>]*>', r" [\1] ", text)
    text = re.sub(rf"</?(?:{_BLOCKS})\b[^>]*>", "\n", text)
    lines = (" ".join(unescape(re.sub(r"<[^>]*>", "  ", line)).split()) for line in text.splitlines())
    return [line for line in lines if line]


def numbers_of(document: Any) -> set[float]:
    """Return all numbers of a JSON document."""
    if isinstance(document, dict | list):
        parts = document.values() if isinstance(document, dict) else document
        return set().union(*map(numbers_of, parts))
    return {float(document)} if isinstance(document, int | float) else set()


def wrong_texts(figures: Sequence[ReadFigure]) -> Iterator[ReadFigure]:
    """Yield the cells whose last figure is not their number, rounded to the digits that it has."""
    for figure in figures:
        text = re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", figure.text)[-1]
        mantissa, _, exponent = text.partition("e")
        decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
        if not math.isclose(float(text), figure.value, abs_tol=0.5000001 * 10.0**-decimals):
            yield figure
