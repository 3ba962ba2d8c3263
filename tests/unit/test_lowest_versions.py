"""What is pinned for the run of the lowest versions is what ``pyproject.toml`` declares."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from tests.lowest_versions import EXTRAS, PROJECT, ROOT, TESTS, TOOLS, floors


def test_every_dependency_is_pinned_to_its_floor() -> None:
    """Those of the core and of each extra, one version each that the declaration takes; ours is not among them."""
    pins = {one.name: one for one in map(Requirement, floors())}
    declared = [Requirement(line) for line in PROJECT["dependencies"]]
    declared += [Requirement(line) for extra in EXTRAS for line in PROJECT["optional-dependencies"][extra]]
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
