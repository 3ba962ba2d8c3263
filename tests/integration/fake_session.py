"""A plugin that puts a fake session in the place of the real one: it measures nothing.

The mark's key ``output`` says what becomes of a check: the word of a status, or one of the words below.
"""

from __future__ import annotations

import os
import sys
import threading
from itertools import chain, repeat
from pathlib import Path
from typing import cast

import pytest

from pytest_quant.check_runner import CheckRunner
from pytest_quant.errors import BackendUnavailable, BuildError, UsageError
from pytest_quant.measure.steps import LINES_AT_S
from pytest_quant.plugin.console import open_steps
from pytest_quant.plugin.item_check import SESSION
from pytest_quant.record import EncodedRecord, build_record
from pytest_quant.result import AccuracyResult, Cost, Coverage, Measured, Resources, Status, Verdict
from pytest_quant.spec import Check, Dataset, EngineSpec
from tests.support.example import ROOT
from tests.support.in_process import run_here

PLUGIN = "tests.integration.fake_session"


class FakeEngine:
    """An engine that only knows its spec and whether it is closed."""

    def __init__(self, spec: EngineSpec, dataset: Dataset | None = None) -> None:
        self.spec = spec
        self.dataset = dataset
        self.closed = False

    def close(self) -> None:
        """Remember it."""
        self.closed = True


class FakeMeasurement:
    """What the fixture `quant` gives, without figures."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self.engine = FakeEngine(check.candidate)
        self.reference = FakeEngine(check.reference)
        self.accuracy = AccuracyResult(n=10)
        self.latency = None

    def close(self) -> None:
        """Close both engines and leave a trace in the working directory."""
        self.engine.close()
        self.reference.close()
        Path("closed").touch()


class FakeSession:
    """Does what the mark's ``output`` says."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def _last_until_shown(self) -> None:
        """Be a step that is shown at once and lasts until it was."""
        shown, steps = threading.Event(), open_steps(self._config)
        clock, tell = chain([0.0], repeat(LINES_AT_S[0])), vars(steps)["_tell"]

        def tell_and_go_on(line: str) -> None:
            tell(line)
            shown.set()

        steps.clock = lambda: next(clock)
        vars(steps).update(_tell=tell_and_go_on)
        with steps.show("building slowly"):
            shown.wait()

    def measure(self, check: Check) -> FakeMeasurement:
        """Raise what ``output`` asks for, else measure nothing."""
        if check.output == ("unavailable",):
            raise BackendUnavailable("backend 'ort' cannot run here: fake", fix="pip install fake")
        if check.output == ("broken",):
            raise BuildError("the engine is broken", value="this", fix="repair it")
        if check.output == ("bug",):
            raise ZeroDivisionError("a bug")
        if check.output == ("slow",):
            self._last_until_shown()
        return FakeMeasurement(check)

    def judge(self, measurement: FakeMeasurement) -> EncodedRecord:
        """Return a record with the status that ``output`` names."""
        check = measurement.check
        if check.output == ("unkept",):
            raise UsageError("a figure cannot be kept", fix="let it be a float")
        status = Status.__members__.get("".join(check.output), Status.PASS)
        measured = Measured(
            check=check,
            accuracy=measurement.accuracy,
            latency=None,
            coverage=Coverage(60.0, "MACs", (), "Fake"),
            resources=Resources(),
            cache={"engine": "built", "reference": "built"},
            digests={},
            cost=Cost(1.0, 2.0, 3.0),
        )
        verdict = Verdict("max_drop", 1.0, 2.0, status, f"the reason of {status.value}")
        return build_record(measured, status=status, verdicts=[verdict])

    def failed(self, check: Check, error: Exception) -> EncodedRecord:
        """Return what the real session returns."""
        return CheckRunner.failed(cast(CheckRunner, self), check, error)

    def open_engine(self, spec: EngineSpec, dataset: Dataset | None = None) -> FakeEngine:
        """Open nothing."""
        return FakeEngine(spec, dataset)


def pytest_configure(config: pytest.Config) -> None:
    """Put the fake session where the real one would be made."""
    config.stash[SESSION] = cast(CheckRunner, FakeSession(config))


CONFTEST = """
import pytest

@pytest.fixture
def quant_model():
    return "model.onnx"

@pytest.fixture
def quant_data():
    return ([1.0], [0])
"""


def run_fake(pytester: pytest.Pytester, source: str, *args: str, conftest: str = CONFTEST) -> pytest.RunResult:
    """Run `source` as ``test_it.py`` with the fake session, in this process."""
    write_fake(pytester.path, source, conftest)
    return run_here(pytester, "-p", "no:cacheprovider", *args, plugins=[sys.modules[__name__]])


def run_fake_apart(pytester: pytest.Pytester, source: str, *args: str, conftest: str = CONFTEST) -> pytest.RunResult:
    """Do the same in processes of their own: for workers, for Ctrl-C, and for what is written past pytest."""
    write_fake(pytester.path, source, conftest)
    return run_apart(pytester, *args)


def run_apart(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Run what is there with the fake session, in processes of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        return pytester.runpytest_subprocess("-p", PLUGIN, "-p", "no:cacheprovider", *args)


def write_fake(folder: Path, source: str, conftest: str = CONFTEST) -> None:
    """Write `source` as ``test_it.py``, for a process that has this module as a plugin."""
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_it.py").write_text("import pytest\nfrom pytest import mark\n" + source)
