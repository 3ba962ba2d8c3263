"""An engine that has the base is run only while it is open, and only over inputs that fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pytest_quant.backends import Feeds, Outputs
from pytest_quant.backends.base import EngineBase, plan_of, prepare_events, threads_of
from pytest_quant.errors import BuildError, DataError
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec, Model, Signature, TensorInfo


class Doubling(EngineBase):
    """The least that a subclass writes; it keeps what reached it."""

    provider = "test"
    size_bytes = 1

    def __init__(self) -> None:
        self.spec = EngineSpec("test", "fp32", None, Model("net"))
        self.signature = Signature((TensorInfo("x", "float32", (None,)),), (TensorInfo("y", "float32", (None,)),))
        self.reached: list[str] = []

    def _run(self, feeds: Feeds) -> Outputs:
        self.reached.append("run")
        return {"y": 2 * feeds["x"]}

    def _coverage(self, feeds: Feeds) -> Coverage:
        self.reached.append("coverage")
        return Coverage(100.0 * len(feeds), "nodes", (), self.provider)

    def _close(self) -> None:
        self.reached.append("close")


class Clocked(Doubling):
    """It runs on a device whose clock says the same of every run."""

    def _prepare_events(self, feeds: Feeds) -> Callable[[], float]:
        self.reached.append("prepare_events")
        return lambda: float(len(feeds["x"]))


def calls_of(engine: EngineBase) -> list[Callable[[Feeds], object]]:
    """Return everything that takes inputs."""
    return [engine.run, engine.prepare, engine.prepare_events, engine.coverage, engine.device_times]


GOOD = {"x": np.ones(3, np.float32)}


def test_an_open_engine_does_what_its_subclass_writes() -> None:
    """The call that is timed is a run unless there is a better one, and there is no device with a clock."""
    with Doubling() as engine:
        assert engine.run(GOOD)["y"].tolist() == [2.0, 2.0, 2.0]
        call = engine.prepare(GOOD)
        assert engine.reached == ["run"]
        call()
        assert engine.coverage(GOOD).pct == 100.0
        assert engine.device_times(GOOD) is None
        assert engine.prepare_events(GOOD) is None
    assert engine.reached == ["run", "run", "coverage", "close"]
    assert (engine.simulated, engine.device_bytes, engine.notes, engine.threads) == (False, None, (), None)


@pytest.mark.parametrize("place", range(5), ids=["run", "prepare", "events", "coverage", "device_times"])
def test_what_does_not_fit_never_reaches_the_runtime(place: int) -> None:
    """One message from each of the calls, and nothing ran."""
    engine = Doubling()
    with pytest.raises(DataError, match="input 'x' has the wrong dtype"):
        calls_of(engine)[place]({"x": np.ones(3, np.float64)})
    assert engine.reached == []


@pytest.mark.parametrize("place", range(5), ids=["run", "prepare", "events", "coverage", "device_times"])
def test_a_closed_engine_says_so(place: int) -> None:
    """One message from each of the calls; it was released once, however often it was closed."""
    engine = Doubling()
    engine.close()
    engine.close()
    with pytest.raises(BuildError, match="engine test-fp32 is closed") as caught:
        calls_of(engine)[place](GOOD)
    assert caught.value.fix == "run it before close(), or inside its with block"
    assert engine.reached == ["close"]


def test_the_clock_of_a_device_is_there_for_engines_that_have_one() -> None:
    """Its call is what the subclass wrote, over inputs that were looked at; without the base there is none."""
    with Clocked() as engine:
        call = prepare_events(engine, GOOD)
        assert call is not None
        assert (call(), engine.reached) == (3.0, ["prepare_events"])
        with pytest.raises(DataError, match="no input 'z'"):
            prepare_events(engine, {"z": GOOD["x"]})
    assert prepare_events(Doubling(), GOOD) is None
    assert prepare_events(Plain(), GOOD) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("scheme", "exclude"), [("static", ("a", "c", "d")), ("static", ()), (None, ("a",))])
def test_an_excluded_node_that_ran_quantized_is_an_error(scheme: str | None, exclude: tuple[str, ...]) -> None:
    """It is named; one in float and one that was not seen are not. A float engine excludes nothing."""

    class Quantizing(Doubling):
        def _coverage(self, feeds: Feeds) -> Coverage:
            return replace(super()._coverage(feeds), float_nodes=("c",), asked_nodes=("a", "b"))

    engine = Quantizing()
    engine.spec = EngineSpec("test", "int8" if scheme else "fp32", scheme, Model("net"), exclude=exclude)
    feeds = {"x": np.ones(2, np.float32)}
    if scheme and exclude:
        with pytest.raises(BuildError, match="test-int8-static of net quantizes what exclude names") as caught:
            engine.coverage(feeds)
        assert caught.value.value == "read back in int8: a"
    else:
        assert engine.coverage(feeds).asked_nodes == ("a", "b")


class Plain:
    """An engine of a third party that has not even heard of the base."""

    def __init__(self, **told: object) -> None:
        self.__dict__.update(told)


def test_what_an_engine_need_not_tell() -> None:
    """Threads and the product that stood in are told by those who know them, with the base or without."""
    plain, telling = Plain(), Plain(threads=3, plan_of="Another")
    assert (threads_of(plain), plan_of(plain)) == (None, "")  # type: ignore[arg-type]
    assert (threads_of(telling), plan_of(telling)) == (3, "Another")  # type: ignore[arg-type]
    assert (threads_of(Doubling()), plan_of(Doubling())) == (None, "")
