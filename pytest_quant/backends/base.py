"""What every backend gives: the protocols, and the base class that engines share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

from numpy.typing import NDArray

from pytest_quant.backends.fitting import misfit
from pytest_quant.errors import BuildError, DataError, UsageError
from pytest_quant.result import Coverage, DeviceTimes
from pytest_quant.spec import EngineSpec, Model, Signature

Feeds: TypeAlias = dict[str, NDArray[Any]]
"""Inputs of one run by name: arrays with a leading batch axis."""

Outputs: TypeAlias = dict[str, NDArray[Any]]
"""Outputs of one run by name: arrays that belong to the caller."""

Reads: TypeAlias = Literal["onnx", "module"]
"""What a backend takes: ONNX files, or torch modules."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a backend can run here, and if not why and what to do about it.

    `version` and `device` are known only when it can. `fix` is a command line where there is one.
    `broken` : the runtime is installed and does not load, which is an error and never a skip.
    """

    available: bool
    version: str = ""
    device: str = ""
    reason: str = ""
    fix: str = ""
    broken: bool = False


class Engine(Protocol):
    """One open engine. It owns native memory: close it, or use it in a ``with`` block.

    `notes` : what the backend chose for the user and the reader should know, one sentence each.
    """

    spec: EngineSpec
    signature: Signature
    provider: str
    simulated: bool
    size_bytes: int
    device_bytes: int | None
    """Device memory that the runtime says this engine holds; ``None`` on the CPU."""
    notes: tuple[str, ...]

    def run(self, feeds: Feeds) -> Outputs:
        """Run one batch; the arrays returned are never overwritten by a later run."""

    def prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return the bare call that is timed: one run over `feeds`, synchronized before it returns."""

    def coverage(self, feeds: Feeds) -> Coverage:
        """Read back from the runtime what ran, where and in which precision, on one run over `feeds`."""

    def device_times(self, feeds: Feeds) -> DeviceTimes | None:
        """Time copies and compute apart, by the device's own clock; ``None`` where there is no device."""

    def close(self) -> None:
        """Release the native memory; closing twice is harmless."""


class Backend(Protocol):
    """One runtime. Importing or creating a backend imports no runtime; the methods below do."""

    name: str
    device: str
    """The device it runs on, ``cpu`` or ``cuda:0``; one measurement at a time on each."""

    schemes: Mapping[str, tuple[str | None, ...]]
    """Precisions it offers, each with its schemes; ``(None,)`` for a float precision."""

    reads: Reads
    """What it takes: ONNX files, to which a torch module is exported first, or torch modules as they are."""

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether the runtime is installed and its device present, cheaply. Raises nothing.

        With `spec`, tell whether that engine can be had here: an option may name a target that needs no device.
        """

    def check(self, spec: EngineSpec) -> None:
        """Raise `UsageError` for options, calibration or precision it does not know; loads no runtime."""

    def refuses_speed(self, spec: EngineSpec) -> UsageError | None:
        """Return why a limit on the speed of `spec` can only mislead here, and what to do; ``None`` when it can be met.

        For a runtime that is known to have no kernels of that precision. Loads no runtime.
        """

    def signature(self, model: Model) -> Signature:
        """Read the model's inputs and outputs. Raises `ModelError` when the file is missing or broken."""

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Everything but the data that decides what `build` writes: name -> digest or value.

        Model bytes with external data, every option with its resolved value, library versions, the
        instruction set or device, the recipe's own version.
        """

    def calibration_ingredients(self, spec: EngineSpec) -> dict[str, str] | None:
        """Everything but the data that decides what `calibrate` writes; ``None`` when the scheme needs none."""

    def calibrate(self, spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
        """Write the ranges of activations, for a scheme that has `calibration_ingredients`.

        Parameters
        ----------
        spec : the engine that the ranges are for; `spec.calibration` names the method.
        batches : starts a new pass over the calibration batches with each call.
        folder : an empty folder to write into, in a format of the backend's own.

        Raises
        ------
        DataError : there is no batch, or a batch does not fit the model.
        UsageError : `spec` excludes a node that the model does not have, where that is looked up in this step.
        ModelError : the model is missing or broken.
        BuildError : the runtime cannot run or quantize the model.
        """

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write the engine.

        Parameters
        ----------
        spec : the engine to build, which `check` let pass.
        calibration : a folder that `calibrate` filled for equal `calibration_ingredients`; ``None`` without those.
        folder : an empty folder to write into, from which `open` reads.

        Raises
        ------
        UsageError : `spec` excludes a node that the model does not have.
        ModelError : the model is missing or broken.
        BuildError : the runtime cannot quantize or build the model.
        """

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the engine that `build` wrote. Raises `BuildError` when the runtime refuses it."""


@runtime_checkable
class ShapedBackend(Backend, Protocol):
    """A backend whose engines run only shapes that they were built for; `spec.shapes` names those of the data."""

    def largest_batch(self, spec: EngineSpec, batch_axes: Mapping[str, int | None]) -> int | None:
        """Return the largest batch that the options of `spec` let an engine run; ``None`` when they set no bound.

        `batch_axes` gives for each input of the engine the axis that counts samples, ``None`` for no axis.
        """


@runtime_checkable
class TargetedBackend(Backend, Protocol):
    """A backend that builds for a GPU that is not here, and runs what it built as a simulation."""

    def for_target(self, spec: EngineSpec, target: str) -> EngineSpec:
        """Return `spec` built for the compute capability `target`, ``SM89`` for one, unless it names one already."""


@runtime_checkable
class EarlyBackend(Backend, Protocol):
    """A backend whose runtime reads something of the whole process, the environment for one, when it is first used."""

    def before_loading(self, spec: EngineSpec) -> None:
        """Set what engines like `spec` need, before any runtime is loaded; done twice it is as done once."""


@runtime_checkable
class Tf32Backend(Backend, Protocol):
    """A backend for a device that may round the inputs of FP32 products to the ten bits of TF32."""

    def with_tf32(self, spec: EngineSpec, *, allowed: bool) -> EngineSpec:
        """Return `spec`, an engine at FP32, with TF32 allowed, or off whatever its options say.

        Raises `UsageError` where TF32 cannot be allowed. Loads no runtime.
        """


@runtime_checkable
class PackagedBackend(Backend, Protocol):
    """A backend whose runtime comes with extras of this package, ``pip install "pytest-quant[ort]"``."""

    extras: tuple[str, ...]


@runtime_checkable
class TuningBackend(Backend, Protocol):
    """A backend whose builds run kernels on its device and keep the fastest: beside other work they keep another."""

    def tunes(self, spec: EngineSpec) -> bool:
        """Whether the build of `spec` does so here; not where it only writes a file, or is simulated."""


EXPORTED_FILE = "model.onnx"


@runtime_checkable
class ExportingBackend(Backend, Protocol):
    """A backend that reads torch modules, and writes them as ONNX for those that read files."""

    def quantizing_parts(self, model: Model) -> tuple[str, ...]:
        """Return the parts of the module that only a quantized one has, each by its kind and name."""

    def export_ingredients(self, model: Model) -> dict[str, str]:
        """Return everything that decides what `export` writes: name -> digest or value."""

    def export(self, model: Model, folder: Path) -> Path:
        """Write the module as `EXPORTED_FILE` into the empty `folder`. Raises `BuildError` or `ModelError`."""


@runtime_checkable
class _Threaded(Protocol):
    threads: int | None


@runtime_checkable
class _StandIn(Protocol):
    plan_of: str


@runtime_checkable
class _Clocked(Protocol):
    def prepare_events(self, feeds: Feeds) -> Callable[[], float] | None: ...


def threads_of(engine: Engine) -> int | None:
    """Return the processor threads of one run of `engine`; ``None`` where it has no attribute `threads`."""
    return engine.threads if isinstance(engine, _Threaded) else None


def prepare_events(engine: Engine, feeds: Feeds) -> Callable[[], float] | None:
    """Return the timed call that gives milliseconds by the device's clock, see `EngineBase.prepare_events`.

    ``None`` where the device has none, or `engine` has no method `prepare_events`.
    """
    return engine.prepare_events(feeds) if isinstance(engine, _Clocked) else None


def plan_of(engine: Engine) -> str:
    """Return the product that built `engine` in place of its own; empty where its own did, or it has no `plan_of`."""
    return engine.plan_of if isinstance(engine, _StandIn) else ""


class EngineBase(ABC):
    """Base of engines: it knows whether it is open, and checks what it is fed before the runtime sees it.

    A subclass sets `spec`, `signature`, `provider` and `size_bytes`, and writes `_run`, `_coverage` and `_close`, which
    are called while it is open and with inputs that fit; `_prepare`, `_prepare_events`, `_device_times` and `_misfit`
    where the runtime has more to offer. What satisfies `Engine` without this class is an engine too.
    """

    spec: EngineSpec
    signature: Signature
    provider: str
    size_bytes: int
    simulated: bool = False
    device_bytes: int | None = None
    notes: tuple[str, ...] = ()
    threads: int | None = None
    """Processor threads of one run; latencies with other numbers of them are not compared."""
    plan_of: str = ""
    """The product that built the engine in the place of its own; empty where it is its own."""
    watch: Callable[[str, Callable[[], bool]], AbstractContextManager[None]] | None = None
    """Bounds the time of a run: is given its name, and a function that asks the runtime to end it."""
    _is_open = True

    def run(self, feeds: Feeds) -> Outputs:
        """Run one batch. Raises `DataError` when the inputs do not fit, `BuildError` when the engine is closed."""
        self._check(feeds)
        if self.watch is None:
            return self._run(feeds)
        with self.watch(f"a run of {self.spec.id} of {self.spec.model.name}", self._stop):
            return self._run(feeds)

    def prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return the bare call over `feeds` that is timed. Raises as `run` does."""
        self._check(feeds)
        return self._prepare(feeds)

    def prepare_events(self, feeds: Feeds) -> Callable[[], float] | None:
        """Return a call of two runs like those of `prepare`, which gives the milliseconds of the second.

        They lie between two events on the engine's stream, before and after the compute of that run. It is queued
        behind the first, so that neither copies nor the host's way to its first kernel are among them; where kernels
        end sooner than the host launches the next, the device's wait for it is. The call is synchronized before it
        returns, and what it took beyond them is the host's time of one run. ``None`` where the device has no clock of
        its own. Raises as `run` does.
        """
        self._check(feeds)
        return self._prepare_events(feeds)

    def coverage(self, feeds: Feeds) -> Coverage:
        """Read back what ran, where and in which precision, on one run over `feeds`.

        Raises as `run` does, and `BuildError` where a node that `spec` excludes ran quantized.
        """
        self._check(feeds)
        if self.watch is None:
            return self._with_floats(self._coverage(feeds))
        with self.watch(f"a profiled run of {self.spec.id} of {self.spec.model.name}", self._stop):
            return self._with_floats(self._coverage(feeds))

    def device_times(self, feeds: Feeds) -> DeviceTimes | None:
        """Time copies and compute apart; ``None`` where the clock of the process is the only one."""
        self._check(feeds)
        return self._device_times(feeds)

    def close(self) -> None:
        """Release the native memory; closing twice is harmless, and a later run raises `BuildError`."""
        if self._is_open:
            self._is_open = False
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _with_floats(self, found: Coverage) -> Coverage:
        """Return `found` where no excluded node is among those that ran quantized; one that is not seen is neither."""
        lost = self._excluded_among(found.asked_nodes) if self.spec.exclude and self.spec.scheme else ()
        if lost:
            raise BuildError(
                f"{self.spec.id} of {self.spec.model.name} quantizes what exclude names",
                value=f"read back in {self.spec.precision}: {', '.join(lost)}",
                allowed="float in each of them",
                fix="drop these names from exclude=[...], or add the nodes that give their inputs",
            )
        return found

    def _check(self, feeds: Feeds) -> None:
        if not self._is_open:
            raise BuildError(f"engine {self.spec.id} is closed", fix="run it before close(), or inside its with block")
        wrong = self._misfit(feeds)
        if wrong is not None:
            raise wrong

    def _misfit(self, feeds: Feeds) -> DataError | None:
        """Return what is wrong with `feeds`; ``None`` when the engine takes them."""
        return misfit(feeds, self.signature)

    @abstractmethod
    def _run(self, feeds: Feeds) -> Outputs:
        """Run one batch and return arrays that no later run overwrites."""

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one run over `feeds`; better the runtime's own call, without what `_run` does around it."""
        return partial(self._run, feeds)

    def _prepare_events(self, feeds: Feeds) -> Callable[[], float] | None:  # noqa: ARG002
        """Return ``None``: there is no device with a clock of its own."""
        return None

    def _stop(self) -> bool:
        """Ask the runtime, from another thread, to end the run under way, and return whether it can; by default not."""
        return False

    @abstractmethod
    def _coverage(self, feeds: Feeds) -> Coverage:
        """Run once over `feeds` and return the precision and place of every node, as the runtime reports them."""

    def _excluded_among(self, names: Collection[str]) -> Sequence[str]:
        """Return the nodes that `spec` excludes, as it names them, for which `names` of a coverage stand."""
        return [name for name in self.spec.exclude if name in names]

    def _device_times(self, feeds: Feeds) -> DeviceTimes | None:  # noqa: ARG002
        """Return ``None``: there is no device with a clock of its own."""
        return None

    @abstractmethod
    def _close(self) -> None:
        """Let go of everything native."""
