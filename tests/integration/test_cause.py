"""The cause of a broken limit on real engines: the stage, the products, and the figure without it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.projects import output, run_marks
from tests.integration.test_advice import CONFTEST, ORT, calibrated_on, one_large_channel, recurrent, two_layers

MARKS = {name: ORT[name] for name in ("large_channel", "outlier", "few_samples", "given", "recurrent")} | {
    "two_limits": f"{ORT['outlier']}, min_agreement=99",
    "too_hard": "model='plain.onnx', data='flat', min_sqnr_db=60",
    "dynamic": "model='plain.onnx', data='flat', min_sqnr_db=60, scheme='dynamic'",
    "four_bits": "model='plain.onnx', data='flat', min_sqnr_db=60, precision='int4', scheme='weight-only'",
}
STAGES = {
    "large_channel": {"layer"},
    "outlier": {"calibration"},
    "two_limits": {"calibration"},
    "few_samples": {"calibration"},
    "given": {"calibration"},
    "too_hard": {"none"},
    "dynamic": {"none"},
    "four_bits": {"none"},
}
RTX = ", backend='trt-rtx', options={'compute_capability': 'SM89'}"
RTX_STAGES = {"large_channel": "layer", "outlier": "calibration", "too_hard": "none"}
LONG_ENOUGH = "--quant-diagnose-time=60"


def write(pytester: pytest.Pytester) -> None:
    """Write the models and the fixtures."""
    pytester.makeconftest(CONFTEST)
    one_large_channel(Path("large.onnx"))
    two_layers(Path("plain.onnx"))
    recurrent(Path("lstm.onnx"))
    calibrated_on(0.05, Path("plain.onnx"), Path("narrow.onnx"))


def test_each_planted_cause_is_named(pytester: pytest.Pytester) -> None:
    """With products of the model, what comes back without it, and what was asked; no sound layer is blamed."""
    write(pytester)
    result, checks = run_marks(pytester, MARKS, LONG_ENOUGH)
    assert {check["status"] for check in checks.values()} == {"FAIL"}, output(result)
    # Coverage alone is broken there, which is no matter of what is rounded.
    assert checks.pop("recurrent")["cause"] is None
    causes = {name: check["cause"] for name, check in checks.items()}
    assert {name: {cause["stage"]} for name, cause in causes.items()} == STAGES
    assert causes["large_channel"]["nodes"] == ["fc2", "fc3"]
    assert "calibrated on 200 samples; calibration inputs 'x' lie in [" in causes["outlier"]["text"]
    assert "60]" in causes["outlier"]["text"]
    assert "; calibrated on 1 sample;" in causes["few_samples"]["text"]
    for name in ("large_channel", "outlier", "few_samples", "given"):
        cause = causes[name]
        assert cause["regains"] > 1.0, name
        assert " -> " in cause["without"], name
        assert {"fc1", "fc2", "fc3", "fc4"} >= {*cause["nodes"]} != set(), name
    # Of each broken limit, on all samples where a run takes no time: 64 of 200 may not show a loss.
    assert all(word in causes["two_limits"]["without"] for word in ("agreement ", "SQNR ", " on all 200 samples"))
    for name in ("too_hard", "dynamic", "four_bits"):
        assert (causes[name]["nodes"], causes[name]["regains"], causes[name]["without"]) == ([], None, ""), name
    text = output(result)
    places = [
        text.index(words) for words in ("min_agreement: ", "  cause: layer, the values ", "  without it: agreement ")
    ]
    assert places == sorted(places)
    assert "  cause: calibration, " in text
    assert [step["asked"] for step in causes["too_hard"]["steps"][:2]] == ["the engine", "nothing rounded"]
    assert causes["dynamic"]["unseen"] == ["rounding of activations, whose ranges each run finds"]


def test_each_planted_cause_is_named_of_a_graph_for_tensorrt(pytester: pytest.Pytester) -> None:
    """The graph that its builder read has the same switches; outputs are those of a simulation, as it says."""
    write(pytester)
    result, checks = run_marks(pytester, {name: MARKS[name] + RTX for name in RTX_STAGES}, LONG_ENOUGH)
    causes = {name: check["cause"] for name, check in checks.items()}
    assert {name: cause and cause["stage"] for name, cause in causes.items()} == RTX_STAGES, output(result)
    assert causes["large_channel"]["nodes"] == ["fc2", "fc3"]
    assert causes["outlier"]["regains"] > 1.0


def test_what_changed_is_the_cause_if_it_explains_the_stage(pytester: pytest.Pytester) -> None:
    """Fewer calibration samples do; a limit that was made stricter and another exclude do not."""
    write(pytester)
    mark = "model='plain.onnx', data='flat', min_sqnr_db=30"
    _, before = run_marks(pytester, {"samples": mark, "limit": mark}, LONG_ENOUGH)
    assert {check["status"] for check in before.values()} == {"PASS"}
    marks = {
        "samples": f"{mark}, calibration={{'samples': 1}}",
        "limit": "model='plain.onnx', data='flat', min_sqnr_db=60",
    }
    result, after = run_marks(pytester, marks, LONG_ENOUGH)
    cause = after["samples"]["cause"]
    assert (cause["stage"], cause["text"].partition(": ")[0]) == (
        "changed",
        "calibration samples 200 -> 1; by way of calibration",
    ), output(result)
    assert cause["regains"] > 1.0
    assert after["limit"]["cause"]["stage"] == "none"


def test_no_cause_is_looked_for_without_time(pytester: pytest.Pytester) -> None:
    """And none in a check that passes."""
    write(pytester)
    marks = {"fails": ORT["outlier"], "passes": "model='plain.onnx', data='flat', min_sqnr_db=20"}
    _, checks = run_marks(pytester, marks, "--quant-diagnose-time=0")
    found: dict[str, Any] = {name: (check["status"], check["cause"]) for name, check in checks.items()}
    assert found == {"fails": ("FAIL", None), "passes": ("PASS", None)}


def test_diagnose_prints_all_that_was_asked(pytester: pytest.Pytester) -> None:
    """The stage, the ladder, ranges side by side, and what repairs it; and the same as JSON."""
    write(pytester)
    run_marks(pytester, {"outlier": ORT["outlier"]}, "--quant-diagnose-time=0")
    words = (sys.executable, "-m", "pytest_quant", "diagnose", "test_marks.py::test_outlier", "--budget", "1m")
    shown = pytester.run(*words).stdout.str()
    for part in ("cause: calibration, ", "without it: SQNR ", "nothing rounded", "What was asked", "off:", "try:"):
        assert part in shown, shown
    document = json.loads(pytester.run(*words, "--json").stdout.str())
    assert (document["stage"], len(document["ranges"])) == ("calibration", 3)
