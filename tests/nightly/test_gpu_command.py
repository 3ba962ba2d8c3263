"""The tests on a GPU where there is none: each part names what it lacks, and what is broken is no skip."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_quant.backends import Availability
from pytest_quant.environment.gpu import find_gpus
from pytest_quant.testing import NumpyBackend
from tests.gpu import __main__ as command
from tests.gpu import usable
from tests.support.example import ROOT


def test_without_a_gpu_each_part_names_what_is_lacking(tmp_path: Path) -> None:
    """Nothing fails, every result is in the report, and the exit code is its own."""
    if find_gpus():
        pytest.skip("there is a GPU here")
    arguments = [sys.executable, "-m", "tests.gpu", "--out", str(tmp_path)]
    ended = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert ended.returncode == command.NO_GPU, ended.stdout + ended.stderr
    states = {name: state for state, name in re.findall(r"^(ok|FAILED|lacking) +(\S+):", ended.stdout, re.MULTILINE)}
    assert list(states) == list(command.PLANS["cuda"])
    assert "FAILED" not in states.values()
    assert (states["mission"], states["doctor"]) == ("lacking", "ok")
    assert ended.stdout.splitlines()[-1].startswith("there is no GPU here, so these parts could not be tried: mission")
    assert all(f"| {name}: " in (tmp_path / "REPORT.md").read_text("utf-8") for name in states)


@pytest.mark.parametrize(
    ("availability", "outcome"),
    [
        (Availability(False, reason="not installed"), pytest.skip.Exception),
        (Availability(False, reason="does not load", broken=True), pytest.fail.Exception),
    ],
)
def test_what_is_broken_is_no_skip(
    availability: Availability, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that is here and does not load would pass for one that the machine lacks."""
    backend = NumpyBackend()
    monkeypatch.setattr(backend, "availability", lambda _: availability)
    monkeypatch.setattr(usable, "get_backend", lambda _: backend)
    # A skip that is not caught would skip this test.
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception), match=availability.reason) as raised:
        usable.usable("numpy")
    assert raised.type is outcome
