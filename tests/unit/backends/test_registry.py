"""Which classes are taken for backends."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from pytest_quant.backends import Availability, Backend, Offer, get_backend, registry
from pytest_quant.errors import UsageError
from pytest_quant.spec import EngineSpec


class Alike:
    """It has what a backend has, and is none."""

    name = "alike"
    offer = Offer({"fp32": (None,)})


class Half(Backend):
    """The first half of a backend."""

    name = "half"

    def availability(self, _spec: EngineSpec | None = None) -> Availability:
        """Be here."""
        return Availability(True)


def load(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """Register classes of this module, each by its own name in small letters."""
    points = [EntryPoint(kind.lower(), f"{__name__}:{kind}", registry.GROUP) for kind in kinds]
    monkeypatch.setattr(registry, "entry_points", lambda **_: points)


def test_a_class_that_does_not_inherit_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever methods it has: defaults would be missing in the middle of a run."""
    load(monkeypatch, "Alike")
    with pytest.raises(UsageError, match="backend 'alike' does not inherit from") as caught:
        get_backend("alike")
    assert caught.value.value == f"{__name__}:Alike"


def test_what_a_class_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods and data alike, before anything is asked of it."""
    load(monkeypatch, "Half")
    with pytest.raises(UsageError, match="backend 'half' is not complete") as caught:
        get_backend("half")
    assert caught.value.value == f"{__name__}:Half has no build, ingredients, offer, open"


def test_two_packages_with_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is chosen in silence."""
    points = [EntryPoint("same", place, registry.GROUP) for place in ("one:Backend", "other:Backend")]
    monkeypatch.setattr(registry, "entry_points", lambda **_: points)
    with pytest.raises(UsageError, match="two packages register a backend named 'same'"):
        get_backend("same")
