"""A TensorRT engine on a GPU: its plan deserialized, its runs, and what it says of its layers and its memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from traceback import clear_frames
from typing import TYPE_CHECKING, Any

from pytest_quant.backends.base import Engine, Feeds, Outputs
from pytest_quant.backends.cuda import DeviceMemory, OutOfMemoryError
from pytest_quant.backends.cuda.device import complaints, make_logger, open_device
from pytest_quant.backends.onnx_files import read_graph, read_signature
from pytest_quant.backends.onnx_files.lineage import excluded_among
from pytest_quant.backends.readback import LayerTime, device_times, medians, warm_runs
from pytest_quant.backends.trt.build import NO_ROOM, build_notes
from pytest_quant.backends.trt.builder import PLAN_FILE, register_plugins
from pytest_quant.backends.trt.coverage import count_layers, layer_times_of, layers_in_inspection, macs_by_node, ops_of
from pytest_quant.backends.trt.graph import GRAPH_FILE
from pytest_quant.backends.trt.options import parse_options
from pytest_quant.backends.trt.runner import Runner, slots_of
from pytest_quant.errors import BuildError
from pytest_quant.result import Coverage, DeviceTimes
from pytest_quant.spec import EngineSpec

if TYPE_CHECKING:
    import tensorrt


_LOGGERS: dict[type, Any] = {}
"""The one logger of this process, by its base class: plugins of every plan use the one that was registered last."""


class Plan:
    """The engine in the file `path`, with plugins in `libraries`; the primary context must be current.

    Attributes
    ----------
    engine : TensorRT's own object.
    lines : what TensorRT logged of it, severity in front.

    Raises
    ------
    BuildError : TensorRT does not take the plan, with what it logged: another version or another GPU made it.
    """

    def __init__(self, trt: Any, path: Path, libraries: Sequence[str] = ()) -> None:
        self.lines: list[str] = []
        # TensorRT holds no reference to its logger and its runtime; without ours they are freed under it.
        self._logger = _LOGGERS.setdefault(trt.ILogger, make_logger(trt, []))
        self.listen()
        register_plugins(trt, self._logger, libraries)
        self._quiet = trt.ProfilingVerbosity.NONE
        self._runtime: tensorrt.Runtime | None = trt.Runtime(self._logger)
        self.engine: Any = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if self.engine is None:
            self.close()
            # Some versions say the size that they asked for in a warning alone.
            if NO_ROOM.search("\n".join(self.lines)):
                raise _no_memory("this engine", self.lines)
            raise BuildError(
                f"TensorRT {trt.__version__} does not take the plan it was given",
                value=complaints(self.lines),
                fix="pytest-quant cache clear --kind engine, and the next run builds it for this GPU and version",
            )

    def listen(self) -> None:
        """Take what TensorRT logs from now on, until another plan does."""
        self._logger.lines = self.lines

    def new_context(self) -> tensorrt.IExecutionContext:
        """Return an execution context. Raises `BuildError` when there is no memory for one.

        It tells NVTX nothing: markers in the detail that the inspector wants of the plan would lengthen every run.
        """
        context: tensorrt.IExecutionContext | None = self.engine.create_execution_context()
        if context is None:
            raise _no_memory("an execution context", self.lines)
        context.nvtx_verbosity = self._quiet
        return context

    def close(self) -> None:
        """Drop engine and runtime in this order, after the contexts; closing twice is harmless."""
        self.engine = None
        self._runtime = None


def _no_memory(what: str, lines: list[str]) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"TensorRT has no memory for {what}",
        value=complaints(lines),
        fix="nvidia-smi tells who holds the GPU's memory; smaller batches, fewer workers (-n) and closed engines need "
        "less",
    )


def held_bytes(trt: Any, engine: Any, plan_bytes: int) -> int:
    """Return the bytes of device memory that `engine` reports for its activations and weights.

    The figure for activations had another name in early versions 10.

    Parameters
    ----------
    trt : the module ``tensorrt``.
    engine : a ``tensorrt.ICudaEngine``.
    plan_bytes : size of the plan's file in bytes, taken for the weights where this version does not report them.
    """
    activations = getattr(engine, "device_memory_size_v2", None)
    if activations is None:
        activations = engine.device_memory_size
    statistic = getattr(getattr(trt, "EngineStat", None), "TOTAL_WEIGHTS_SIZE", None)
    weights = plan_bytes if statistic is None else engine.get_engine_stat(statistic)
    return int(activations) + int(weights)


class GpuEngine(Engine):
    """Runs the plan in `folder` on a stream of its own, in the primary context that other libraries share.

    Raises
    ------
    BackendUnavailable : no library for device memory loads.
    BuildError : TensorRT does not take the plan.
    """

    _excluded_among = excluded_among

    def __init__(self, spec: EngineSpec, folder: Path, device: DeviceMemory | None = None) -> None:
        import tensorrt as trt

        self._trt: Any = trt
        self.spec = spec
        self._graph = folder / GRAPH_FILE
        self.signature = read_signature(self._graph)
        self.size_bytes = (folder / PLAN_FILE).stat().st_size
        self.provider = f"TensorRT {trt.__version__}"
        options = parse_options(spec.backend, spec.options)
        self._device = device or open_device(library=options.memory or "")
        self._device.check()
        with self._device.current():
            self._plan = Plan(trt, folder / PLAN_FILE, options.libraries)
            try:
                self.device_bytes = held_bytes(trt, self._plan.engine, self.size_bytes)
                self._slots = slots_of(trt, self._plan.engine)
                self._runner = self._new_runner(self._plan.new_context())
            except BaseException as error:
                # What TensorRT holds must go while the context is current, and the traceback would keep it.
                clear_frames(error.__traceback__)
                self._plan.close()
                raise
        self._staged: Feeds | None = None
        self.notes = (f"device memory by {self._device.name}", *build_notes(folder))

    def _run(self, feeds: Feeds) -> Outputs:
        """Run one batch. Raises `DataError` when the inputs do not fit the profile."""
        with self._current():
            self._load(feeds)
            self._runner.execute()
            self._runner.copy_out()
            self._runner.wait()
            outputs = self._runner.take()
            self._staged = None
        return {tensor.name: outputs[tensor.name] for tensor in self.signature.outputs}

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one synchronized run over inputs that are on the device already; `device_times` has the copies."""
        return self._over(feeds, self._runner.run)

    def _prepare_events(self, feeds: Feeds) -> Callable[[], float]:
        """Return the same run twice, with an event on either side of the second one's compute."""
        return self._over(feeds, partial(self._runner.clock.time_ms, self._runner.execute))

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Ask the engine's inspector for its layers and count the products in the asked precision."""
        ops = ops_of(read_graph(self._graph).graph)
        macs = macs_by_node(self._graph, feeds)
        return count_layers(layers_in_inspection(self._inspected(feeds)), ops, self.spec.precision, self.provider, macs)

    def _layer_times(self, feeds: Feeds) -> tuple[LayerTime, ...]:
        """Return the median time of each layer, in a context of its own: timed runs have no profiler."""
        ops = ops_of(read_graph(self._graph).graph)
        layers = layers_in_inspection(self._inspected(feeds))
        with self._current():
            spent_ms = self._profiled(feeds)
        return layer_times_of(layers, ops, spent_ms)

    def _device_times(self, feeds: Feeds) -> DeviceTimes:
        """Time copies and compute apart, by events on the engine's stream."""
        with self._current():
            self._load(feeds)
            runner, clock = self._runner, self._runner.clock
            return device_times(
                runner.copy_in, runner.execute, runner.copy_out, wait=clock.wait, time_ms=clock.time_ms, pinned=True
            )

    def _profiled(self, feeds: Feeds) -> dict[str, float]:
        """Return the median milliseconds of each layer by its name, in the order they run.

        A profiler makes TensorRT wait for each layer.
        """
        runner = self._new_runner(self._plan.new_context())
        spent_ms: dict[str, float] = defaultdict(float)
        profiler = _profiler(self._trt, spent_ms)

        def run() -> dict[str, float]:
            spent_ms.clear()
            runner.run()
            if not runner.context.report_to_profiler() or not spent_ms:
                raise BuildError(
                    "TensorRT tells no times of layers",
                    fix="pytest-quant cache clear --kind engine, and the next run builds it anew",
                )
            return dict(spent_ms)

        try:
            runner.context.profiler = profiler
            # Else each run waits, and tells its times, within the call that starts it.
            runner.context.enqueue_emits_profile = False
            runner.stage(feeds)
            runner.copy_in()
            runner.wait()
            return medians(warm_runs(run))
        finally:
            runner.close()

    def _inspected(self, feeds: Feeds) -> str:
        """Ask with the shapes of `feeds`, without which TensorRT hides the types of tensors with free axes."""
        with self._current():
            self._staged = None
            self._runner.stage(feeds)
            inspector: tensorrt.EngineInspector = self._plan.engine.create_engine_inspector()
            inspector.execution_context = self._runner.context
            return str(inspector.get_engine_information(self._trt.LayerInformationFormat.JSON))

    def _close(self) -> None:
        """Free buffers, context, engine and runtime in this order."""
        with self._current():
            self._runner.close()
            self._plan.close()

    def _over(self, feeds: Feeds, run: Callable[[], Any]) -> Callable[[], Any]:
        """Return `run` over `feeds`, which are on the device from now on."""

        def timed() -> Any:
            with self._current():
                # A run over other inputs in between costs one copy, and never the right inputs.
                if self._staged is not feeds:
                    self._load(feeds)
                return run()

        with self._current():
            self._load(feeds)
        return timed

    def _current(self) -> AbstractContextManager[None]:
        """Make the primary context current, and let what TensorRT logs be told of this plan."""
        self._plan.listen()
        return self._device.current()

    def _load(self, feeds: Feeds) -> None:
        """Bring the inputs to the device."""
        # Inputs that are refused leave some of them staged.
        self._staged = None
        self._runner.stage(feeds)
        self._runner.copy_in()
        self._runner.wait()
        self._staged = feeds

    def _new_runner(self, context: tensorrt.IExecutionContext) -> Runner:
        return Runner(self._plan.engine, context, self._plan.lines, self._slots, self._device)


def _profiler(trt: Any, spent_ms: dict[str, float]) -> tensorrt.IProfiler:
    class Profiler(trt.IProfiler):  # type: ignore[misc]
        """Adds up what TensorRT tells: a layer within a loop is told in each turn."""

        def __init__(self) -> None:
            trt.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            """Take down one layer."""
            spent_ms[layer_name] += ms

    return Profiler()
