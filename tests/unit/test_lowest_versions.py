"""What is pinned for the run of the lowest versions is what ``pyproject.toml`` declares."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.lowest_versions import floors
from tests.other_pythons import offered, python_of
from tests.support.fresh_environment import EXTRAS, PROJECT, ROOT, TESTS, TOOLS


def test_every_dependency_is_pinned_to_its_floor() -> None:
    """Those of the core, of each extra and of those inside, one version each that the declaration takes."""
    pins = {one.name: one for one in map(Requirement, floors())}
    declared = [Requirement(line) for line in PROJECT["dependencies"]]
    inside = [*EXTRAS, "onnx"]
    declared += [Requirement(line) for extra in inside for line in PROJECT["optional-dependencies"][extra]]
    assert {one.name for one in declared} - {"pytest-quant"} == pins.keys()
    for one in declared:
        if one.name in pins:
            (pin,) = pins[one.name].specifier
            assert pin.operator == "=="
            assert one.specifier.contains(pin.version)
            assert pins[one.name].extras == one.extras


def test_a_dependency_without_a_floor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be tested in its newest version, and called the lowest."""
    monkeypatch.setitem(PROJECT, "dependencies", ["rich<99"])
    with pytest.raises(ValueError, match="rich<99 declares no lowest version"):
        floors()


def test_what_it_runs_is_here() -> None:
    """Each path exists, and each tool is one that the developers' extra brings."""
    assert [path for path in TESTS if not (ROOT / path).exists()] == []
    extras = ("dev", "example", "hypothesis")
    brought = {Requirement(line).name for extra in extras for line in PROJECT["optional-dependencies"][extra]}
    assert set(TOOLS) <= brought


def test_the_oldest_python_is_the_lowest_that_the_project_takes() -> None:
    """The classifiers and ``requires-python`` say the same."""
    takes = SpecifierSet(PROJECT["requires-python"])
    versions = offered()
    assert all(takes.contains(version) for version in versions)
    assert [version for version in ("3.9", "3.10", "3.11") if takes.contains(version)] == [versions[0]]


@pytest.mark.parametrize("version", offered())
def test_an_interpreter_is_of_the_version_asked_for(version: str) -> None:
    """One that is found starts and says so; nobody has to have it."""
    python = python_of(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed")
    shown = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(rf"Python {re.escape(version)}\.\S+\n", shown)


def test_a_python_that_is_nowhere_is_none() -> None:
    """A version that nobody has made."""
    assert python_of("3.999") is None
    assert python_of(f"{sys.version_info[0]}.{sys.version_info[1]}") == sys.executable
