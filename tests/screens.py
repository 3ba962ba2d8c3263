"""What users see of a few known records: ``python -m tests.screens --write`` renews the files that are compared.

Each file in ``tests/unit/report/screens`` is read by somebody before it is committed: the figures in it are those of
the records below, rounded.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_quant.backends.readback import LayerTime, Role
from pytest_quant.diagnose.layers import align
from pytest_quant.history.compare import compare
from pytest_quant.history.compare.comparison import Comparison
from pytest_quant.history.rows import StoredCheck
from pytest_quant.measure.engine_trio import LayerProfile, SideLayers
from pytest_quant.record import Record
from pytest_quant.report.columns import COLUMNS
from pytest_quant.report.comparison_text import comparison_text
from pytest_quant.report.failure import failure, headline
from pytest_quant.report.layer_table import layers_text
from pytest_quant.report.page import page_html
from pytest_quant.report.pull_request import run_comment
from pytest_quant.report.selftest_page import describe_held, selftest_page
from pytest_quant.report.summary import summary, table
from pytest_quant.result import (
    AccuracyResult,
    Hint,
    Resources,
    Status,
    Verdict,
)
from tests.support.failed_checks import failed_checks, named, run_of_all_kinds, with_launches
from tests.support.pages import lines_of, sources
from tests.unit.history.compare.launched import answered, answers, launch, launches, record_of, timed
from tests.unit.history.noisy import a_kind, a_selftest
from tests.unit.record.examples import (
    RUN,
    a_pass,
    a_record,
    unavailable,
)

FOLDER = Path(__file__).parent / "unit" / "report" / "screens"


def _failures() -> str:
    changed = "since the last PASS (c0ffee123456, 2026-01-02): calibration samples 100 -> 3"
    checks = {**failed_checks(), "several launches": with_launches(a_record())}
    checks["what changed"] = replace(checks["advice"], changed=changed)
    screens = [f"{failure(record)}\n-> {headline(record)}" for record in checks.values()]
    narrow = failure(a_record(), 60)
    return _chapters(dict(zip([*checks, "a narrow terminal"], [*screens, narrow], strict=True)))


def _tables() -> str:
    records = run_of_all_kinds()
    expected = [replace(records[0], expected=True), *records[1:]]
    screens = {f"{width} characters": table(records, width, picks="--quant-columns") for width in (40, 80, 120, 250)}
    screens["every column"] = table(records, 500, [column.name for column in COLUMNS])
    screens["columns that were picked"] = table(records, 60, ["test", "metric", "drop", "sqnr", "p50", "status"])
    screens["an expected failure"] = table(expected[:2], 100)
    screens["a test that failed itself"] = table(records[:2], 100, broken={records[1].nodeid})
    screens["nothing was measured"] = table(records[2:4], 100)
    screens["little was measured"] = table(
        named(a_record(accuracy=AccuracyResult(n=1), latency=None, resources=Resources()), records[3]), 80
    )
    screens["colours"] = table(expected[:4], 120, color=True).replace("\x1b", "ESC")
    screens["below the table"] = summary(records)
    screens["below the table, with an expected failure"] = summary(expected[:1])
    screens["below a long table"] = summary(named(*[records[6]] * 12))
    return _chapters(screens)


_A, _B, _C, _D = (f"tests/test_{name}.py::test_{name}" for name in "abcd")


def _compared(nodeid: str, wrong: int = 0, model: str = "digits", ms: float = 0.5) -> Record:
    record = answered(record_of(nodeid, latency=True), answers(range(wrong)))
    return timed(replace(record, model=model), ms)


def two_sides(hostile: str = "") -> tuple[list[StoredCheck], list[StoredCheck]]:
    """Return five runs of two commits: a regression, a test that stayed, one gone, one new, one renamed, other data."""
    base, head = [], []
    for index, noise in enumerate((1.0, 1.001, 0.999, 1.002, 0.998)):
        same = _compared(_A + hostile, ms=0.5 * noise)
        others = [_compared(nodeid, model=model) for nodeid, model in ((_B, "b"), (_C, "c"), (_D, "d"))]
        base += launch(same, *others, run=str(index), commit="ba5e")
        slower = replace(_compared(_A + hostile, 20, ms=0.6 * noise), calibration="entropy" + hostile)
        renamed, new = _compared("tests/test_new_name.py::test_b", model="b"), _compared("tests/x.py::new", model="x")
        other_data = replace(others[2], digests={"data": "new"})
        head += launch(slower, renamed, other_data, new, run=str(index), commit="4ead")
    return base, head


def regression(hostile: str = "") -> Comparison:
    """Return the comparison of `two_sides`."""
    return _between(*two_sides(hostile))


def _between(base: list[StoredCheck], head: list[StoredCheck]) -> Comparison:
    return compare(base, head, full_suite=True, about=("base ba5e: merge base with main",))


def _comparisons() -> Mapping[str, Comparison]:
    before = replace(_compared(_A), resources=Resources(size_mb=1.0), digests={"model": "a" * 64, "data": "1"})
    after = replace(before, resources=Resources(size_mb=2.0), digests={"model": "b" * 64, "data": "1", "engine": "c"})
    many = [_compared(f"tests/test_x.py::test_{index}") for index in range(12)]
    return {
        "a regression": regression(),
        "too few launches": _between(launches([_compared(_A)]), launches([_compared(_A, ms=0.8)], commit="h")),
        "many tests with one launch": _between(launch(*many), launch(*many, commit="head")),
        "what differs": _between(launch(before), launch(after, commit="head")),
        "no base": _between([], two_sides()[1]),
        "nothing": _between([], []),
    }


def _comparison_texts() -> str:
    result = _comparisons()
    texts = {name: comparison_text(each, 120) for name, each in result.items()}
    texts["a narrow terminal"] = comparison_text(result["a regression"], 50)
    texts["colours"] = comparison_text(result["a regression"], 120, color=True).replace("\x1b", "ESC")
    return _chapters(texts)


def _comments() -> str:
    broken, fine, absent = named(a_record(), a_pass(), unavailable())
    failed: dict[str, Any] = {"failed": True, "broken": [broken.nodeid]}
    slow = Verdict("max_slowdown", 3, 7.5, Status.FAIL, "slowdown 7.50 % lies above 3 %")
    error = replace(absent, status=Status.ERROR)
    hint = Hint("drop 4.23 -> 0.50 pp on all 1797 samples", "exclude=['/conv1']", "max_drop", 4.23, 0.5)
    changed = "since the last PASS (ba5e, 2026-01-01): calibration samples 100 -> 3"
    advised = replace(broken, hints=(hint,), changed=changed)
    links = ("https://ci/runs/7", "https://ci/runs/7#artifacts")
    in_body = [fine.nodeid, error.nodeid]
    result = _comparisons()
    return _chapters(
        {
            "a failure": run_comment(RUN, [broken, fine, absent], **failed, faults=["--quant-json: /x is full"]),
            "a limit without a sentence": run_comment(RUN, [replace(broken, verdicts=(slow,))], **failed),
            "an error, and a test that fails itself": run_comment(RUN, [error, fine], failed=True, broken=in_body),
            "a failure and a regression": run_comment(
                None, [advised, fine], **failed, compared=[result["a regression"]], links=links
            ),
            "a regression alone": run_comment(RUN, [fine], failed=True, compared=[result["a regression"]]),
            "an expected failure": run_comment(RUN, [replace(broken, expected=True)]),
            "no checks": run_comment(None, []),
            "no base": run_comment(None, [fine], compared=[result["no base"]]),
            "nothing to compare": run_comment(None, [], compared=[result["nothing"]]),
        }
    )


_OPENED = (
    "not fast enough, by the device's clock",
    "noise",
    "latency off",
    "what the scheme cannot quantize",
    "an output that cannot be compared",
    "several outputs",
    "advice",
)
"""Checks that a page shows with all that they open to."""


def _pages() -> str:
    failed = failed_checks()
    records = named(with_launches(a_record()), *(failed[name] for name in _OPENED), replace(a_pass(), verdicts=()))
    # The instruction set is that of the machine that builds the records.
    checks = tuple(StoredCheck(RUN, replace(record, isa="avx2")) for record in records)
    arguments = sources()
    some = [replace(check, record=replace(check.record, isa="avx2")) for check in arguments["checks"][:4]]
    screens = {
        "everything": page_html(**arguments | {"checks": some}),
        "checks of all kinds": page_html(checks),
        "nothing": page_html(
            [],
            runs=(RUN,),
            why_not_compared="not compared",
            why_no_history="The history is turned off.",
            next_step="pytest-quant compare",
        ),
    }
    return _chapters({name: "\n".join(lines_of(screen.decode())) for name, screen in screens.items()})


def _layer(name: str, op: str, precision: str, ms: float | None, *nodes: str, role: Role = "compute") -> LayerTime:
    return LayerTime(name, op, precision, ms, nodes, role)


REFERENCE = SideLayers(
    "ort-fp32",
    "CPUExecutionProvider",
    7.5,
    (
        _layer("conv1_nchwc", "Conv", "fp32", 4.0, "backbone/conv1", "backbone/relu1"),
        _layer("reorder", "ReorderOutput", "fp32", 1.0, role="reformat"),
        _layer("fc", "Gemm", "fp32", 2.0, "fc"),
    ),
)
CANDIDATE = SideLayers(
    "ort-int8-dynamic",
    "CPUExecutionProvider",
    16.0,
    (
        _layer("x_quant", "DynamicQuantizeLinear", "fp32", 0.5, role="reformat"),
        _layer("conv1_quant", "ConvInteger", "int8", 12.0, "backbone/conv1"),
        _layer("conv1_scale", "Mul", "fp32", 0.5, "backbone/conv1", "backbone/relu1"),
        _layer("fc_quant", "DynamicQuantizeMatMul", "int8", 1.0, "fc"),
        _layer("riddle", "Mystery", "", 0.25, role="other"),
    ),
)
PROFILE = LayerProfile("test_a.py::test_a", "net", 4, REFERENCE, CANDIDATE)


def layers_of(profile: LayerProfile = PROFILE, *, width: int = 120, top: int = 20) -> str:
    """Return what ``pytest-quant profile`` prints."""
    return layers_text(profile, align(profile.reference.layers, profile.candidate.layers), width, top)


def _layers() -> str:
    swapped = replace(PROFILE, reference=CANDIDATE, candidate=REFERENCE)
    quick = replace(PROFILE, reference=replace(REFERENCE, run_ms=2.0), candidate=replace(CANDIDATE, run_ms=1.0))
    built = [
        replace(side, run_ms=None, layers=tuple(replace(layer, ms=None) for layer in side.layers))
        for side in (REFERENCE, CANDIDATE)
    ]
    untimed = LayerProfile("n", "net", 1, built[0], built[1], untimed="ort is a float simulation")
    return _chapters(
        {
            "slower": layers_of(),
            "a narrow terminal": layers_of(width=80),
            "the first row only": layers_of(top=1),
            "faster": layers_of(swapped),
            "layers and whole runs disagree": layers_of(quick),
            "layers of a build": layers_of(untimed),
            "a side that tells none": layers_of(replace(PROFILE, reference=replace(REFERENCE, layers=()))),
        }
    )


def _selftests() -> str:
    loud = replace(a_selftest(a_kind("tiny", 2.0), a_kind("memory-bound", 140.0)), notes=("busy in 3 of 20 launches",))
    return _chapters(
        {
            name: f"{selftest_page(each)}\n-> {describe_held(each)}"
            for name, each in (("quiet", a_selftest()), ("loud", loud))
        }
    )


def _chapters(screens: Mapping[str, str]) -> str:
    """Return all screens below their names, without blanks at the ends of lines."""
    text = "\n\n".join(f"======== {name}\n{screen}" for name, screen in screens.items())
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE) + "\n"


SCREENS: Mapping[str, Callable[[], str]] = {
    "comments.md": _comments,
    "comparisons.txt": _comparison_texts,
    "failures.txt": _failures,
    "layers.txt": _layers,
    "pages.txt": _pages,
    "selftests.txt": _selftests,
    "tables.txt": _tables,
}
"""The screens by the names of their files."""


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", required=True, help="write what is shown now to the files")
    parser.parse_args()
    for name, screen in SCREENS.items():
        FOLDER.joinpath(name).write_text(screen(), encoding="utf-8")


if __name__ == "__main__":
    main()
