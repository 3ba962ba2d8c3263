"""Verdicts that hold on every processor: proven, simulated, measured by real kernels of an older one, and repaired."""

from __future__ import annotations

import re
import shutil
from typing import Any

import numpy as np
import pytest

from pytest_quant.backends.ort import OrtBackend
from pytest_quant.backends.saturation import OlderCpu
from pytest_quant.environment.machine import has_vnni
from pytest_quant.errors import BuildError
from tests.integration.projects import run_marks
from tests.support import models

pytestmark = pytest.mark.skipif(not has_vnni(), reason="on a CPU without VNNI all runs are those of an older one")
emulated = pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-user is not installed")

CONFTEST = """
import numpy as np
import pytest
from pytest_quant import Dataset, Metric

W = np.load("w.npy")


@pytest.fixture
def classes():
    x = np.random.default_rng(1).normal(size=(240, 64)).astype(np.float32)
    return Dataset.from_arrays(x[:200], (x[:200] @ W).argmax(1), calibration=x[200:])


@pytest.fixture
def few():
    x = np.random.default_rng(1).normal(size=(240, 64)).astype(np.float32)
    return Dataset.from_arrays(x[:16], (x[:16] @ W).argmax(1), calibration=x[200:])


@pytest.fixture
def pictures():
    x = np.random.default_rng(2).uniform(size=(72, 3, 16, 16)).astype(np.float32)
    return Dataset.from_arrays(x[:48], np.zeros(48), calibration=x[48:])
"""
DENSE = "(float[n, 64] x) => (float[n, 10] y) { [fc] y = MatMul(x, w) }"
FULL = "model='dense.onnx', data='classes', options={'reduce_range': False}"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with a classifier of one matrix, whose labels are its own answers."""
    # Weights of one sign and size make every sum of two large.
    weights = np.abs(np.random.default_rng(0).normal(1.0, 0.3, (64, 10))).astype(np.float32)
    np.save(pytester.path / "w.npy", weights)
    pytester.makeconftest(CONFTEST)
    models.parsed(pytester.path / "dense.onnx", DENSE, w=weights)
    return pytester


def _verdict(check: dict[str, Any]) -> tuple[str, str]:
    return next((each["status"], each["reason"]) for each in check["verdicts"] if each["limit"] == "cpus")


def test_seven_bits_are_proven_and_built_wherever_they_are_asked_for(project: pytest.Pytester) -> None:
    """`cpus` builds for processors without VNNI on any, says so, and the verdict is a PASS without a run."""
    marks = {"any": "model='dense.onnx', data='classes', cpus='any'", "plain": "model='dense.onnx', data='classes'"}
    _, checks = run_marks(project, marks)
    found = checks["any"]["portability"]
    assert (found["holds"], found["how"], found["drop"]) == ("any", "proven", None)
    assert _verdict(checks["any"])[0] == "PASS"
    assert any("cpus='any' names CPUs without VNNI" in note for note in checks["any"]["notes"])
    assert checks["plain"]["digests"]["engine"] != checks["any"]["digests"]["engine"]
    assert not [each for each in checks["plain"]["verdicts"] if each["limit"] == "cpus"]


def test_a_simulation_shows_what_holds_only_with_vnni(project: pytest.Pytester) -> None:
    """Eight bits in a matrix: nobody asks, and the record says that the limits do not hold elsewhere."""
    result, checks = run_marks(project, {"full": f"{FULL}, max_drop=5.0"})
    found = checks["full"]["portability"]
    assert (found["holds"], found["how"], found["worst_layer"]) == ("vnni", "simulated", "fc")
    assert found["agreement_pct"] < 90 < checks["full"]["accuracy"]["agreement_pct"]
    assert checks["full"]["status"] == "PASS"
    result.stdout.fnmatch_lines(["test *CPUs *", "*full * VNNI * PASS"])


def test_a_simulation_of_all_samples_is_one_of_them(project: pytest.Pytester) -> None:
    """Sixteen samples, which were probed in one run, are simulated one by one, and the record says so."""
    _, checks = run_marks(project, {"few": f"{FULL.replace('classes', 'few')}, min_sqnr_db=25.2"})
    found = checks["few"]["portability"]
    assert (found["how"], found["n"]) == ("simulated", 16)
    assert found["agreement_pct"] < 95 < checks["few"]["accuracy"]["agreement_pct"]


def test_a_simulation_that_fails_costs_no_verdict(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked for it: the check passes, and where it holds is not known."""

    def refuse(*_: object) -> None:
        raise BuildError("ONNX Runtime refused the graph")

    monkeypatch.setattr(OrtBackend, "saturate", refuse)
    _, checks = run_marks(project, {"full": f"{FULL}, max_drop=5.0"})
    assert (checks["full"]["status"], checks["full"]["portability"]["holds"]) == ("PASS", None)


@emulated
def test_real_kernels_decide_and_the_remedy_is_true(project: pytest.Pytester) -> None:
    """A mark that asks FAILs with figures of a Haswell; what is pasted from the failure passes."""
    mark = f"{FULL}, max_drop=5.0, cpus='any'"
    result, checks = run_marks(project, {"full": mark})
    found = checks["full"]["portability"]
    assert (checks["full"]["status"], found["holds"], found["how"]) == ("FAIL", "vnni", "measured")
    assert found["drop"] > 5.0
    result.stdout.fnmatch_lines(["*cpus: holds only with VNNI, AMX or on ARM, measured: 64 samples on*"])
    repairs = [hint["paste"] for hint in checks["full"]["hints"] if "which repairs it" in hint["text"]]
    assert "options={'reduce_range': True}" in repairs
    check_remedies(project, checks["full"], "model='dense.onnx', data='classes', max_drop=5.0")


@emulated
def test_what_was_measured_is_kept(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run starts no emulator, and has the same figures."""
    marks = {"full": f"{FULL}, max_drop=5.0, cpus='any'"}
    options = ("--quant-diagnose-time=0",)
    _, first = run_marks(project, marks, *options)
    monkeypatch.setattr(OlderCpu, "run", lambda *_: pytest.fail("an emulator was started"))
    _, second = run_marks(project, marks, *options)
    assert first["full"]["portability"] == second["full"]["portability"]


def test_without_an_emulator_it_is_not_decided(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """INCONCLUSIVE, with the line that installs it; never a PASS."""
    monkeypatch.setenv("PATH", str(project.path))
    _, checks = run_marks(project, {"full": f"{FULL}, cpus='avx2'"})
    status, reason = _verdict(checks["full"])
    assert (status, reason.endswith("apt-get install qemu-user")) == ("INCONCLUSIVE", True)
    assert checks["full"]["portability"]["holds"] is None


def test_options_of_a_run(project: pytest.Pytester) -> None:
    """--quant-cpus asks for every INT8 check on a CPU whose mark does not; --quant-no-portability looks at nothing."""
    marks = {
        "int8": "model='dense.onnx', data='classes'",
        "fp32": "model='dense.onnx', data='classes', precision='fp32'",
    }
    _, checks = run_marks(project, marks, "--quant-cpus=any")
    assert _verdict(checks["int8"])[0] == "PASS"
    assert checks["fp32"]["portability"] is None
    assert not [each for each in checks["fp32"]["verdicts"] if each["limit"] == "cpus"]
    _, off = run_marks(project, {"off": "model='dense.onnx', data='classes', cpus='any'"}, "--quant-no-portability")
    assert off["off"]["portability"] is None
    assert _verdict(off["off"]) == ("INCONCLUSIVE", "not measured: --quant-no-portability is set")


def check_remedies(project: pytest.Pytester, check: dict[str, Any], mark: str) -> None:
    """Paste each remedy that is said to repair the check, and see it pass."""
    repairs = [hint["paste"] for hint in check["hints"] if "which repairs it" in hint["text"]]
    assert repairs, check["hints"]
    without = re.sub("quantized='[^']*', ", "", mark)
    plain = [without if "quantized=None" in paste else mark for paste in repairs]
    pasted = zip(plain, repairs, strict=True)
    marks = {f"repair{place}": f"{own}, cpus='any', {paste}" for place, (own, paste) in enumerate(pasted)}
    _, after = run_marks(project, marks)
    assert {check["status"] for check in after.values()} == {"PASS"}, [each["verdicts"] for each in after.values()]


def test_onednn_is_limited_by_its_switch(project: pytest.Pytester) -> None:
    """Without an emulator; full range there breaks the limit, and seven bits do not."""
    check_onednn(project, "openvino", "dense.onnx", "options={'overflow_fix': 'disable'}")


def check_onednn(project: pytest.Pytester, backend: str, model: str, full: str) -> None:
    """See weights of eight bits fail under `cpus`, measured, and those of seven proven."""
    pytest.importorskip(backend)
    mark = f"backend='{backend}', model='{model}', data='classes', min_agreement=90, cpus='any'"
    _, checks = run_marks(project, {"full": f"{mark}, {full}", "seven": mark}, "--quant-diagnose-time=0")
    seven, wide = checks["seven"], checks["full"]
    assert (seven["portability"]["holds"], seven["portability"]["how"], seven["status"]) == ("any", "proven", "PASS")
    found = wide["portability"]
    assert (found["holds"], found["how"], wide["status"]) == ("vnni", "measured", "FAIL"), found
