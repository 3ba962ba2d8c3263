"""What a backend and an engine have without writing it: defaults, and checks before the runtime sees anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_quant.backends import Availability, Backend, Engine, Feeds, Offer, Outputs
from pytest_quant.errors import BuildError, DataError
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec, Model, Signature, TensorInfo


class Doubling(Engine):
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


def calls_of(engine: Engine) -> list[Callable[[Feeds], object]]:
    """Return everything that takes inputs."""
    return [
        engine.run,
        engine.prepare,
        engine.prepare_events,
        engine.coverage,
        engine.device_times,
        engine.layer_times,
    ]


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
        assert engine.layer_times(GOOD) == ()
    assert engine.reached == ["run", "run", "coverage", "close"]
    assert (engine.simulated, engine.device_bytes, engine.notes, engine.threads) == (False, None, (), None)
    assert engine.plan_of == ""


@pytest.mark.parametrize("place", range(6), ids=["run", "prepare", "events", "coverage", "device_times", "layers"])
def test_what_does_not_fit_never_reaches_the_runtime(place: int) -> None:
    """One message from each of the calls, and nothing ran."""
    engine = Doubling()
    with pytest.raises(DataError, match="input 'x' has the wrong dtype"):
        calls_of(engine)[place]({"x": np.ones(3, np.float64)})
    assert engine.reached == []


@pytest.mark.parametrize("place", range(6), ids=["run", "prepare", "events", "coverage", "device_times", "layers"])
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
    """Its call is what the subclass wrote, over inputs that were looked at."""
    with Clocked() as engine:
        call = engine.prepare_events(GOOD)
        assert call is not None
        assert (call(), engine.reached) == (3.0, ["prepare_events"])
        with pytest.raises(DataError, match="no input 'z'"):
            engine.prepare_events({"z": GOOD["x"]})


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


class Least(Backend):
    """The least that an author writes."""

    name = "least"
    offer = Offer({"fp32": (None,), "int8": ("static", "weight-only")}, calibrations=("minmax",))

    def availability(self, _spec: EngineSpec | None = None) -> Availability:
        """Be here."""
        return Availability(True, "1")

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Name one thing."""
        return {"precision": spec.precision}

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write nothing."""

    def open(self, _spec: EngineSpec, _folder: Path) -> Engine:
        """Open what needs no file."""
        return Doubling()


FLOAT = EngineSpec("least", "fp32", None, Model("net"))
STATIC = EngineSpec("least", "int8", "static", Model("net"))


def test_what_a_backend_need_not_write() -> None:
    """It runs on the CPU, any shape, beside other work; it refuses no limit and knows no remedy."""
    backend = Least()
    assert backend.device == "cpu"
    assert (backend.refuses_speed(STATIC), backend.tunes(STATIC), backend.largest_batch(STATIC, {})) == (
        None,
        False,
        None,
    )
    assert (backend.remedies(STATIC), backend.quantized_nodes(STATIC)) == ((), ())


def test_ranges_are_made_from_what_the_engine_is_made_from() -> None:
    """And from how they are found, for the scheme that needs them; what the backend does not write is an error."""
    backend = Least()
    assert backend.calibration_ingredients(FLOAT) is None
    assert backend.calibration_ingredients(replace(STATIC, scheme="weight-only")) is None
    assert backend.calibration_ingredients(STATIC) == {
        "precision": "int8",
        "method": "minmax",
        "percentile": "not used",
        "samples": "None",
        "batch_size": "1",
    }
    with pytest.raises(NotImplementedError, match="backend 'least' has no calibrate"):
        backend.calibrate(STATIC, lambda: iter(()), Path())
