"""What a backend and an engine have without writing it, inputs that do not fit, and which classes are backends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from pytest_quant import readers
from pytest_quant.backends import GROUP, Availability, Backend, Engine, Feeds, Offer, Outputs, get_backend
from pytest_quant.backends.feeds import check_batches, explain_misfit
from pytest_quant.errors import BuildError, DataError, UsageError
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


def calls_of(engine: Engine) -> list[Callable[[Feeds], object]]:
    """Return everything that takes inputs."""
    return [
        engine.run,
        engine.prepare,
        engine.prepare_events,
        engine.prepare_tokens,
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
        assert engine.prepare_tokens(GOOD) is None
        assert engine.layer_times(GOOD) == ()
    assert engine.reached == ["run", "run", "coverage", "close"]
    assert (engine.simulated, engine.device_bytes, engine.notes, engine.threads) == (False, None, (), None)
    assert engine.plan_of == ""


def test_neither_bad_inputs_nor_a_closed_engine_reach_the_runtime() -> None:
    """One message from each of the calls; it was released once, however often it was closed."""
    engine = Doubling()
    for call in calls_of(engine):
        with pytest.raises(DataError, match="input 'x' has the wrong dtype"):
            call({"x": np.ones(3, np.float64)})
    engine.close()
    engine.close()
    for call in calls_of(engine):
        with pytest.raises(BuildError, match="engine test-fp32 is closed"):
            call(GOOD)
    assert engine.reached == ["close"]


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
        assert caught.value.fix == "drop these names from exclude=[...], or add the nodes that give their inputs"
        # Nothing of a file that arrives quantized can be left in float.
        engine.spec = replace(engine.spec, quantized=Model("net8"))
        with pytest.raises(BuildError) as caught:
            engine.coverage(feeds)
        assert caught.value.fix == "drop these names from exclude=[...]"
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


SIGNATURE = Signature(
    inputs=(TensorInfo("image", "float32", (None, 3)), TensorInfo("text", "object", None)),
    outputs=(TensorInfo("y", "float32", (None,)),),
)
IMAGE, TEXT = np.zeros((2, 3), np.float32), np.array(["a", "b"])


def test_fitting_inputs() -> None:
    """Inputs that fit give nothing to tell; strings of any numpy kind are text."""
    assert explain_misfit({"image": IMAGE, "text": TEXT}, SIGNATURE) is None
    assert explain_misfit({"image": IMAGE[:0], "text": TEXT.astype(object)}, SIGNATURE) is None


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({"imag": IMAGE, "text": TEXT}, ("no input 'imag'", "did you mean 'image'")),
        ({"text": TEXT}, ("input 'image' is missing", "text")),
        ({"image": IMAGE.astype(np.float64), "text": TEXT}, ("wrong dtype", "float64", "astype('float32')")),
        ({"image": IMAGE[0], "text": TEXT}, ("wrong rank", "(3,)", "(any, 3)")),
        ({"image": IMAGE[:, :2], "text": TEXT}, ("wrong shape", "(2, 2)", "(any, 3)")),
        ({"image": IMAGE, "text": np.arange(2)}, ("input 'text'", "int64", "object")),
    ],
)
def test_misfits(feeds: Feeds, words: tuple[str, ...]) -> None:
    """The error names the input, what it got and what is allowed."""
    result = str(explain_misfit(feeds, SIGNATURE))
    assert all(word in result for word in words), result


def test_calibration_batches_fit() -> None:
    """They pass one by one; the first that does not fit ends them, and none at all is an error too."""
    signature = Signature((TensorInfo("x", "float32", (None, 3)),), ())
    good, bad = {"x": np.zeros((2, 3), np.float32)}, {"x": np.zeros((2, 4), np.float32)}
    assert list(check_batches([good, good], signature, "net")) == [good, good]
    batches = check_batches([good, bad], signature, "net")
    assert next(batches) is good
    with pytest.raises(DataError, match="'x'"):
        next(batches)
    with pytest.raises(DataError, match="calibration of net got no batch"):
        list(check_batches([], signature, "net"))


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
    points = [EntryPoint(kind.lower(), f"{__name__}:{kind}", GROUP) for kind in kinds]
    monkeypatch.setattr(readers, "entry_points", lambda **_: points)


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
    points = [EntryPoint("same", place, GROUP) for place in ("one:Backend", "other:Backend")]
    monkeypatch.setattr(readers, "entry_points", lambda **_: points)
    with pytest.raises(UsageError, match="two packages register a backend named 'same'"):
        get_backend("same")


def test_an_engine_that_was_set_aside_opens_again_when_it_runs() -> None:
    """Once; what it was opened as stays, and closed for good it does not come back."""
    engine, opened = Doubling(), []

    def again() -> Engine:
        opened.append(Doubling())
        return opened[-1]

    engine.set_aside(again)
    assert (engine.reached, opened) == (["close"], [])
    for _ in range(2):
        np.testing.assert_array_equal(engine.run({"x": np.ones(2, np.float32)})["y"], [2, 2])
    assert (len(opened), opened[0].reached) == (1, ["run", "run"])
    engine.set_aside(again)
    engine.close()
    with pytest.raises(BuildError, match="is closed"):
        engine.run({"x": np.ones(2, np.float32)})
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("given", "followed"),
    [
        ({"wrong": np.ones(2, np.float32)}, lambda array: {"x": array}),
        ({"X": np.ones(2, np.float32)}, lambda array: {"x": array}),
    ],
)
def test_the_names_that_a_model_takes_are_told(given: Feeds, followed: Callable[[np.ndarray], Feeds]) -> None:
    """With the key that the text writes the engine runs."""
    engine = Doubling()
    with pytest.raises(DataError) as raised:
        engine.run(given)
    assert "x" in (raised.value.allowed or "")
    assert raised.value.fix == "give {'x': ...}"
    (array,) = given.values()
    engine.run(followed(array))
