"""Checks as the options of a run want them, and TensorRT checks on machines without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.backends import Availability, get_backend
from pytest_quant.marks.expansion import checks_of
from pytest_quant.marks.keys import read
from pytest_quant.plugin.collect import apply_settings, simulate_check
from pytest_quant.plugin.settings import read_settings
from pytest_quant.spec import Check, Dataset, EngineSpec, LatencyPlan, Model


def _check(pytester: pytest.Pytester, *args: str) -> Check:
    (check,) = checks_of(read({"batch_size": 4}), "ort")
    return apply_settings(check, read_settings(pytester.parseconfig(*args)))


def test_the_options_say_how_latency_is_measured(pytester: pytest.Pytester) -> None:
    """The batch size stays that of the mark."""
    plan = LatencyPlan(batch_size=4, max_s=3.0, pages="small")
    assert _check(pytester, "--quant-max-time=3", "--quant-pages=small").latency == plan


def test_latency_that_is_off_says_why(pytester: pytest.Pytester) -> None:
    """No plan, and the reason in words."""
    check = _check(pytester, "--quant-no-latency")
    assert (check.latency, check.latency_off) == (None, "--quant-no-latency is set")


def test_accuracy_that_is_off_says_why(pytester: pytest.Pytester) -> None:
    """Latency is measured as ever."""
    check = _check(pytester, "--quant-only-latency")
    assert (check.latency, check.accuracy_off) == (LatencyPlan(batch_size=4), "--quant-only-latency is set")


def test_proof_is_asked_for_a_whole_run(pytester: pytest.Pytester) -> None:
    """Not for one mark."""
    assert (_check(pytester).confidence, _check(pytester, "--quant-confidence=0.9").confidence) == (None, 0.9)


MODEL = Model("net", Path("net.onnx"))


def check_of(backend: str, options: tuple[tuple[str, object], ...] = ()) -> Check:
    """A check whose two sides run in `backend`."""
    reference = EngineSpec(backend, "fp32", None, MODEL, options=options)
    candidate = EngineSpec(backend, "int8", "static", MODEL, options=options)
    return Check("t.py::test", "t.py::test", candidate, reference, Dataset("arrays", None))


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no TensorRT backend find a device, whatever this machine has."""
    for name in ("trt", "ort-trt", "trt-rtx"):
        monkeypatch.setattr(type(get_backend(name)), "availability", lambda *_: Availability(False, reason="no GPU"))


@pytest.mark.parametrize("backend", ["trt", "ort-trt", "trt-rtx"])
def test_the_target_is_named_to_tensorrt_without_a_gpu(backend: str) -> None:
    """Both sides get the option, in its place among the others."""
    result = simulate_check(check_of(backend, (("workspace_mb", 64),)), "SM89")
    wanted = (("compute_capability", "SM89"), ("workspace_mb", 64))
    assert (result.candidate.options, result.reference.options) == (wanted, wanted)


@pytest.mark.parametrize(
    ("check", "target"),
    [
        (check_of("trt"), None),
        (check_of("trt", (("compute_capability", "SM75"),)), "SM89"),
        (check_of("ort"), "SM89"),
        (check_of("openvino"), "SM89"),
    ],
    ids=["not asked", "target in the mark", "ort", "openvino"],
)
def test_every_other_check_stays_as_it_is(check: Check, target: str | None) -> None:
    """Nothing is simulated unless asked, the mark's own target wins, and the option is TensorRT's."""
    assert simulate_check(check, target) == check


def test_a_device_that_is_here_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a GPU nothing is simulated."""
    monkeypatch.setattr(type(get_backend("trt")), "availability", lambda *_: Availability(True, "10.13", "cuda:0"))
    check = check_of("trt")
    assert simulate_check(check, "SM89") == check
