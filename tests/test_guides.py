"""The guides and README.md hold together: links lead somewhere, tables are whole, words are those of the field."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pytest_quant.backends import GROUP, TARGET, TF32, Backend, Engine, Offer, get_backend
from pytest_quant.result import Status
from pytest_quant.spec import LIMITS
from pytest_quant.stats.paired import tango_interval
from tests.support.documents import GUIDES, INDEX, README, Document, guides
from tests.support.example import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OTHERS = [Document(ROOT / name) for name in ("CHANGELOG.md", "example_project/README.md", ".github/CONTRIBUTING.md")]


@cache
def _anchors(file: Path) -> set[str]:
    return Document(file).anchors()


def _name(document: Document) -> str:
    return document.file.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", [README, INDEX, *guides(), *OTHERS], ids=_name)
def test_every_link_leads_somewhere(document: Document) -> None:
    """A file that is there, a heading that it has; an address of the web by its form only."""
    wrong = []
    for link in document.links():
        parts = urlsplit(link)
        if parts.scheme:
            if parts.scheme != "https" or "." not in parts.netloc:
                wrong.append(link)
            continue
        target = document.file if not parts.path else (document.file.parent / parts.path).resolve()
        if not target.exists():
            wrong.append(f"{link}: no such file")
        elif parts.fragment and parts.fragment not in _anchors(target):
            wrong.append(f"{link}: no such heading")
    assert wrong == []


@pytest.mark.parametrize("document", guides(), ids=_name)
def test_a_guide_links_only_to_what_is_packaged_with_it(document: Document) -> None:
    """It is read from an installed package too."""
    local = [urlsplit(link).path for link in document.links() if not urlsplit(link).scheme]
    assert [path for path in local if not (document.file.parent / path).resolve().is_relative_to(GUIDES)] == []


def test_every_backend_is_in_the_table() -> None:
    """Each that the package registers, with what it offers; the one in numpy is for authors of backends and is none."""
    rows = Document(GUIDES / "backends.md").table("backend")
    assert [row[0] for row in rows] == sorted(PROJECT["entry-points"][GROUP])
    assert not [place for place in PROJECT["entry-points"][GROUP].values() if place.startswith("pytest_quant.testing")]
    for name, *cells in rows:
        text = " ".join(cells)
        for precision, schemes in get_backend(name).offer.precisions.items():
            assert all(word in text for word in (precision, *(scheme for scheme in schemes if scheme))), name


@pytest.mark.parametrize("guide", ["gpu.md", "backends.md"])
def test_a_guide_says_that_nothing_ran_on_a_gpu_until_something_did(guide: str) -> None:
    """``python -m tests.gpu`` writes that report where there is a GPU."""
    text = " ".join((GUIDES / guide).read_text("utf-8").split())
    ran = (ROOT / "tests" / "gpu" / "REPORT.md").exists()
    assert ("run on a real GPU yet" in text or "run on a real one yet" in text) is not ran


def test_every_limit_is_in_the_table_of_limits() -> None:
    """By what one would promise with it."""
    rows = Document(GUIDES / "limits.md").table("what you promise")
    assert {name for row in rows for name in re.findall(r"`(m\w+)`", row[1])} == set(LIMITS)


COUNTED = {
    "the same engine twice, one launch, quiet machine": "A/A, quiet: FAIL",
    "5 % more work at a limit of 3 %, quiet machine": "+5 % at a limit of 3 %, one launch, quiet: FAIL",
    "`pytest -n 4` on 2 processors with bursts of load, the same engine twice": (
        "`pytest -n 4` on 2 processors, A/A, bursty: FAIL"
    ),
    "simulated, scores of 1319 samples, three runs a side, a drop of 3 points at `max_drop=1.0`": (
        "scores, drop of 3 pp at max_drop 1, n 1319, 3 runs a side, 0 earlier records, answers drawn anew: FAIL"
    ),
    "the same with five earlier records in the history": (
        "scores, drop of 3 pp at max_drop 1, n 1319, 3 runs a side, 5 earlier records, answers drawn anew: FAIL"
    ),
    "`--quant-against`, the same code on both sides": "`--quant-against`, same code both sides: FAIL",
    "`--quant-against`, 5 % more work at a limit of 3 %": "`--quant-against`, +5 % at a limit of 3 %: FAIL",
}
"""What the guide of statistics calls some figures of the benchmarks."""


@pytest.mark.parametrize(("said", "figure"), COUNTED.items())
def test_rates_of_wrong_verdicts_are_those_that_were_counted(said: str, figure: str) -> None:
    """Trials and FAILs of the guide are those of the newest table of the benchmarks."""
    rows = Document(GUIDES / "statistics.md").table("what was tried")
    (claimed,) = [row[1] for row in rows if row[0].strip("`") == said.strip("`")]
    counted = (ROOT / "tests" / "benchmarks" / "README.md").read_text("utf-8")
    (line,) = [line for line in counted.splitlines() if line.startswith(f"| {figure} |")]
    result = re.search(r"\| (?P<rate>[\d.]+) % \[[\d., ]+\] n=(?P<n>\d+)", line)
    assert result is not None, line
    n = int(result["n"])
    assert claimed == f"{round(float(result['rate']) * n / 100)} of {n}"


def test_limits_by_number_of_samples_are_those_of_the_interval() -> None:
    """Where as many samples are lost as won, the interval reaches as far as the limit that the guide has for them."""
    document = Document(GUIDES / "language-models.md")
    rows = document.table("share d that differs")
    limits = (1.0, 2.0, 5.0)
    told = [
        (float(share.removesuffix(" %")) / 100, int(n), limit)
        for share, *numbers in rows
        for n, limit in zip(numbers, limits, strict=True)
        if n
    ]
    assert len(told) >= 8
    for share, n, limit in told:
        _, high = tango_interval(n * share / 2, n * share / 2, n)
        assert 100 * high == pytest.approx(limit, rel=0.1), (share, n)
    _, high = tango_interval(1319 * 0.025, 1319 * 0.025, 1319)
    assert f"d = 5 %,\n{100 * high:.1f} points" in document.text


def test_every_status_is_named_where_the_table_is_explained() -> None:
    """In the guide that one reads first."""
    text = Document(GUIDES / "first-check.md").text
    assert [status for status in Status if status.value not in text] == []


def test_the_limits_against_a_baseline_are_those_of_the_code() -> None:
    """Each with what it judges."""
    rows = Document(GUIDES / "baselines.md").table("limit")
    assert {row[0] for row in rows} == {"max_drop_increase", "max_slowdown", "max_p50_increase"} & set(LIMITS)
    assert [row[0] for row in rows if len(row[1]) < 20] == []


def test_the_guide_for_authors_names_all_that_one_has_to_write() -> None:
    """Whatever has no default, so that nothing is missing at the first run, and what scheme ``static`` needs."""
    assert _named("you write in") == {
        "Backend": Backend.__abstractmethods__ | _without_default(Backend) | {"calibrate"},
        "Offer": {"precisions", "calibrations"},
        "Engine": Engine.__abstractmethods__ | _without_default(Engine),
    }


def test_the_guide_for_authors_names_all_that_one_may_write() -> None:
    """Every default of a backend and its offer; of an engine those that are there."""
    written, may = _named("you write in"), _named("you may add to")
    public = {name for name in vars(Backend) if not name.startswith("_")} - written["Backend"]
    assert may["Backend"] == public
    assert may["Offer"] - {"option", TF32, TARGET} == {field.name for field in fields(Offer)} - written["Offer"]
    assert [name for name in may["Engine"] if not hasattr(Engine, name)] == []


def _named(head: str) -> dict[str, set[str]]:
    """Return the names in the first two cells of a table of the guide for authors, by their class."""
    named: dict[str, set[str]] = {}
    for kind, names, *_ in Document(GUIDES / "add-a-backend.md").table(head):
        named.setdefault(kind.strip("`"), set()).update(re.findall(r"\w+", names))
    return named


def _without_default(kind: type) -> set[str]:
    return {name for name in kind.__annotations__ if not hasattr(kind, name)}


def test_the_map_of_the_code_has_every_folder_and_file() -> None:
    """In the order of the layers, for those who look for a place."""
    rows = Document(ROOT / ".github" / "CONTRIBUTING.md").table("folder")
    named = {name.split("/")[0] for row in rows for name in re.findall(r"[\w.]+/?", row[0])}
    package = [each for each in (ROOT / "pytest_quant").iterdir() if not each.name.startswith("_")]
    code = {each.name for each in package if each.is_dir() or each.suffix == ".py"}
    assert named == code
