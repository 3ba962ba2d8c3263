"""The interface of a backend: what it says of itself, the steps that it does, and the engines that it opens.

An engine refuses inputs that do not fit its model before its runtime sees them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Self

from pytest_quant.backends.feeds import Feeds as Feeds
from pytest_quant.backends.feeds import Outputs as Outputs
from pytest_quant.backends.feeds import explain_misfit
from pytest_quant.backends.offer import Availability, Offer, Remedy, calibration_ingredients, check_offer
from pytest_quant.backends.readback import LayerTime
from pytest_quant.backends.saturation import Exposed, OlderCpu
from pytest_quant.backends.switchable import SwitchableGraph
from pytest_quant.errors import BuildError, DataError, UsageError
from pytest_quant.result import Coverage, DeviceTimes
from pytest_quant.spec import EngineSpec, Model, Shape, Signature

EXPORTED_FILE = "model.onnx"
"""What a torch module is exported to, in a folder of its own."""


class Backend(ABC):
    """Base of backends: one runtime. Importing or creating one imports no runtime; the methods below do.

    A subclass sets `name` and `offer`, and writes `availability`, `ingredients`, `build` and `open`, and `calibrate`
    where it offers the scheme ``static``. The rest has a default.
    """

    name: str
    """As marks write it, and as the entry point is called."""

    offer: Offer
    device: str = "cpu"
    """The device it runs on, ``cpu`` or ``cuda:0``; one measurement at a time on each."""

    @abstractmethod
    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Return whether the runtime is installed and its device present, cheaply. Raises nothing.

        With `spec`, whether that engine can be had here: an option may name a target that needs no device.
        """

    @abstractmethod
    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Return everything but the data that decides what `build` writes: name -> digest or value.

        Model bytes with external data, every option with its resolved value, library versions, the instruction set or
        device, the recipe's own version. Raises `ModelError` when the model is missing or broken.
        """

    @abstractmethod
    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write the engine.

        Parameters
        ----------
        spec : the engine to build, which `check` let pass.
        calibration : a folder that `calibrate` filled for equal `calibration_ingredients`; ``None`` without those.
        folder : an empty folder to write into, from which `open` reads, in another process too.

        Raises
        ------
        UsageError : `spec` excludes a node that the model does not have.
        ModelError : the model is missing or broken.
        BuildError : the runtime cannot quantize or build the model.
        """

    @abstractmethod
    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the engine that `build` wrote. Raises `BuildError` when the runtime refuses it."""

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
        raise NotImplementedError(f"backend '{self.name}' has no calibrate(), which scheme '{spec.scheme}' needs")

    def calibration_ingredients(self, spec: EngineSpec) -> dict[str, str] | None:
        """Return everything but the data that decides what `calibrate` writes; ``None`` when the scheme needs none.

        By default that is scheme ``static``, and all that decides the engine. Ranges are shared by more engines where
        fewer ingredients are named.
        """
        return {**self.ingredients(spec), **calibration_ingredients(spec)} if spec.scheme == "static" else None

    def check(self, spec: EngineSpec) -> None:
        """Raise `UsageError` for what is not in `offer`, or options that exclude each other; loads no runtime."""
        check_offer(spec, self.offer)

    def signature(self, model: Model) -> Signature:
        """Return the model's inputs and outputs, by default of an ONNX file. Raises `ModelError` or `UsageError`."""
        from pytest_quant.backends.onnx_files import model_file, read_signature

        return read_signature(model_file(model))

    def largest_tensor(self, model: Model, shapes: Mapping[str, Shape]) -> int:
        """Return the bytes of the largest tensor of one run over inputs of `shapes`, 0 if unknown.

        By default as ONNX infers it; no runtime is loaded, so that it is the same on every machine. Raises nothing.
        """
        if model.path is None:
            return 0
        from pytest_quant.backends.onnx_files.shapes import largest_tensor

        return largest_tensor(model.path, shapes)

    def refuses_speed(self, spec: EngineSpec) -> UsageError | None:  # noqa: ARG002
        """Return why a limit on the speed of `spec` can only mislead here, and what to do; ``None`` when it can be met.

        For a runtime that is known to have no kernels of that precision. Loads no runtime.
        """
        return None

    def before_loading(self, spec: EngineSpec) -> None:  # noqa: B027 - nothing to do is the usual case
        """Set what the runtime reads of the process when it is first used; done twice it is as done once."""

    def tunes(self, spec: EngineSpec) -> bool:  # noqa: ARG002
        """Return whether the build of `spec` times kernels on the device here, and so needs it alone."""
        return False

    def shares(self, spec: EngineSpec) -> bool:  # noqa: ARG002
        """Return whether an engine of `spec` from a machine of the same kind is opened faster than it is built here."""
        return True

    def largest_batch(self, spec: EngineSpec, batch_axes: Mapping[str, int | None]) -> int | None:  # noqa: ARG002
        """Return the largest batch that the options of `spec` let an engine run; ``None`` when they set no bound.

        `batch_axes` gives for each input of the engine the axis that counts samples, ``None`` for no axis. Asked of
        backends whose shapes are fixed only.
        """
        return None

    def remedies(self, spec: EngineSpec) -> Sequence[Remedy]:  # noqa: ARG002
        """Return what else this backend offers for `spec`, the likeliest help first; nothing that `spec` says already.

        Each is built and measured before it is advised, so a remedy need not be sure to help.
        """
        return ()

    def exposed_sums(self, spec: EngineSpec, folder: Path) -> tuple[Exposed, ...] | None:  # noqa: ARG002
        """Return the products of the engine in `folder` that kernels without VNNI may get wrong, see `Exposed`.

        Empty where no sum can saturate, whatever the data are; ``None`` if that is not known.
        """
        return None

    def older_cpu(self) -> OlderCpu | None:
        """Return how this backend's kernels for processors without VNNI run here; ``None`` if that is not known."""
        return None

    def saturate(self, spec: EngineSpec, folder: Path, work: Path) -> Engine | None:  # noqa: ARG002
        """Return an engine that computes exposed products as kernels without VNNI do; ``None`` if it has none.

        `work` is an empty folder that outlives it. It has matrices only, so that it may show that sums saturate, and
        never that they do not.
        """
        return None

    def switches(self, spec: EngineSpec, folder: Path, work: Path) -> SwitchableGraph | None:  # noqa: ARG002
        """Return the float graph of an engine with a switch at each rounding; ``None`` if there is none.

        `work` is an empty folder that outlives it. Raises `QuantError` if the graph cannot be made or opened.
        """
        return None

    def keep_part(self, spec: EngineSpec, engine: Path, feeds: Feeds, folder: Path) -> str:  # noqa: ARG002
        """Write the first part of an engine whose kernels differ from float, and what runs it again, into `folder`.

        Parameters
        ----------
        engine : its folder.
        feeds : one batch of it.

        Returns
        -------
        The tensor that the part ends with; empty where none alone differs, or parts cannot be run.
        """
        return ""

    def quantized_nodes(self, spec: EngineSpec) -> tuple[str, ...]:  # noqa: ARG002
        """Return the nodes that `spec` quantizes, in the graph's order, by names that ``exclude`` takes."""
        return ()


class Engine(ABC):
    """Base of engines. It knows whether it is open, and checks what it is fed before the runtime sees it.

    A subclass sets `spec`, `signature`, `provider` and `size_bytes`, and writes `_run`, `_coverage` and `_close`, which
    are called while it is open and with inputs that fit. The rest has a default. It owns native memory: close it, or
    use it in a ``with`` block.
    """

    spec: EngineSpec
    signature: Signature
    provider: str
    """Where it runs, in the runtime's words."""
    size_bytes: int
    simulated: bool = False
    """Its outputs are computed in float in place of the device: accuracy is judged, latency is not."""
    device_bytes: int | None = None
    """Device memory that the runtime says this engine holds; ``None`` on the CPU."""
    notes: tuple[str, ...] = ()
    """Choices that the backend made by itself, one sentence each."""
    threads: int | None = None
    """Processor threads of one run; latencies with other numbers of them are not compared."""
    plan_of: str = ""
    """Name of another product that built this engine in place of its own, or empty."""
    branches: bool = False
    """Data decide which nodes run, or how often: `coverage` reads back several runs, by `_coverage_over`."""
    fills: bool = False
    """Axis 0 counts samples, and a smaller batch is filled up to one that was compiled: one sample takes as long."""
    watch: Callable[[str, Callable[[], bool]], AbstractContextManager[None]] | None = None
    """Bounds the time of a run: is given its name, and a function that asks the runtime to end it."""
    _is_open = True
    _again: Callable[[], Engine] | None = None

    def run(self, feeds: Feeds) -> Outputs:
        """Run one batch. Raises `DataError` when the inputs do not fit, `BuildError` when the engine is closed."""
        self._check(feeds)
        with self._bounded("a run"):
            return self._run(feeds)

    def prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return the bare call over `feeds` that is timed. Raises as `run` does."""
        self._check(feeds)
        return self._prepare(feeds)

    def prepare_events(self, feeds: Feeds) -> Callable[[], float] | None:
        """Return a call that runs twice, as `prepare` does, and gives the milliseconds of the second run.

        They lie between two events on the engine's stream, before and after the compute of that run. It is queued
        behind the first, so that neither copies nor the host's way to its first kernel are among them; where kernels
        end sooner than the host launches the next, the device's wait for it is. The call is synchronized before it
        returns, and what it took beyond them is the host's time of one run. ``None`` where the device has no clock of
        its own. Raises as `run` does.
        """
        self._check(feeds)
        return self._prepare_events(feeds)

    def prepare_tokens(self, feeds: Feeds) -> Callable[[], tuple[int, ...]] | None:
        """Return a call of one run that gives its nanoseconds to each token; ``None`` if all tokens come together."""
        self._check(feeds)
        return self._prepare_tokens(feeds)

    def coverage(self, feeds: Feeds, *more: Feeds) -> Coverage:
        """Read back what ran, where and in which precision, on one run over `feeds`.

        An engine that `branches` runs over each of `more` too; the share is that of all runs together. Raises as `run`
        does, and `BuildError` where a node that `spec` excludes ran quantized.
        """
        batches = (feeds, *more)
        for each in batches:
            self._check(each)
        with self._bounded("a profiled run"):
            coverage = self._coverage_over(batches) if self.branches else self._coverage(feeds)
        excluded = self._excluded_among(coverage.asked_nodes) if self.spec.exclude and self.spec.scheme else ()
        if excluded:
            raise BuildError(
                f"{self.spec.id} of {self.spec.model.name} quantizes what exclude names",
                value=f"read back in {self.spec.precision}: {', '.join(excluded)}",
                allowed="float in each of them",
                fix="drop these names from exclude=[...]"
                + ("" if self.spec.quantized else ", or add the nodes that give their inputs"),
            )
        return coverage

    def device_times(self, feeds: Feeds) -> DeviceTimes | None:
        """Time copies and compute apart; ``None`` if only the clock of the process is known."""
        self._check(feeds)
        return self._device_times(feeds)

    def layer_times(self, feeds: Feeds) -> tuple[LayerTime, ...]:
        """Return the layers of one run in the order they run, timed as they are timed: same kernels, same layouts.

        Empty where the runtime does not list its layers. Raises as `run` does.
        """
        self._check(feeds)
        return self._layer_times(feeds)

    def float_bytes(self) -> Mapping[str, int] | None:
        """Return the bytes of float weights in the file, by their readers; ``None`` if the file is opaque."""
        return None

    def close(self) -> None:
        """Release the native memory; closing twice is harmless, and a later run raises `BuildError`."""
        self._again = None
        if self._is_open:
            self._is_open = False
            self._close()

    def set_aside(self, again: Callable[[], Engine]) -> None:
        """Release the native memory until the next run, for which `again` opens the engine anew."""
        self.close()
        self._again = again

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _bounded(self, doing: str) -> AbstractContextManager[None]:
        """Return a block that may take as long as `watch` allows."""
        if self.watch is None:
            return nullcontext()
        model = self.spec.quantized or self.spec.model
        return self.watch(f"{doing} of {self.spec.id} of {model.name}", self._stop)

    def _check(self, feeds: Feeds) -> None:
        if self._again is not None:
            vars(self).update(vars(self._again()), _is_open=True, _again=None)
        if not self._is_open:
            raise BuildError(f"engine {self.spec.id} is closed", fix="run it before close(), or inside its with block")
        if wrong := self._misfit(feeds):
            wrong.what += f", for {self.spec.id} of {(self.spec.quantized or self.spec.model).name}"
            raise wrong

    def _misfit(self, feeds: Feeds) -> DataError | None:
        """Return what is wrong with `feeds`; ``None`` when the engine takes them."""
        return explain_misfit(feeds, self.signature)

    @abstractmethod
    def _run(self, feeds: Feeds) -> Outputs:
        """Run one batch and return arrays that no later run overwrites."""

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one run over `feeds`; better the runtime's own call, without what `_run` does around it."""
        return partial(self._run, feeds)

    def _prepare_events(self, feeds: Feeds) -> Callable[[], float] | None:  # noqa: ARG002
        """Return ``None``: there is no device with a clock of its own."""
        return None

    def _prepare_tokens(self, feeds: Feeds) -> Callable[[], tuple[int, ...]] | None:  # noqa: ARG002
        """Return ``None``: all outputs of a run come together."""
        return None

    def _stop(self) -> bool:
        """Ask the runtime, from another thread, to end the run under way, and return whether it can; by default not."""
        return False

    @abstractmethod
    def _coverage(self, feeds: Feeds) -> Coverage:
        """Run once over `feeds` and return the precision and place of every node, as the runtime reports them."""

    def _coverage_over(self, batches: Sequence[Feeds]) -> Coverage:
        """Return the coverage of a run over each batch, of an engine that `branches`."""
        return self._coverage(batches[0])

    def _excluded_among(self, names: Collection[str]) -> Sequence[str]:
        """Return the nodes that `spec` excludes, as it names them, for which `names` of a coverage stand."""
        return [name for name in self.spec.exclude if name in names]

    def _device_times(self, feeds: Feeds) -> DeviceTimes | None:  # noqa: ARG002
        """Return ``None``: there is no device with a clock of its own."""
        return None

    def _layer_times(self, feeds: Feeds) -> tuple[LayerTime, ...]:  # noqa: ARG002
        """Return nothing: the runtime does not list its layers."""
        return ()

    @abstractmethod
    def _close(self) -> None:
        """Let go of everything native."""
