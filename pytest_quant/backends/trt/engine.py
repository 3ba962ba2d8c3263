"""An engine that TensorRT built: what its plan says of its layers, its runs on a GPU, and their times."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from traceback import clear_frames
from typing import TYPE_CHECKING, Any

from pytest_quant.backends.base import Engine, Feeds, Outputs
from pytest_quant.backends.cuda import DeviceMemory
from pytest_quant.backends.cuda.device import open_device
from pytest_quant.backends.onnx_files import read_nodes, read_signature
from pytest_quant.backends.onnx_files.lineage import excluded_among
from pytest_quant.backends.readback import LayerTime, device_times, medians, warm_runs
from pytest_quant.backends.trt.build import PLAN_FILE, build_notes
from pytest_quant.backends.trt.coverage import (
    Layer,
    count_layers,
    layer_times_of,
    layers_in_inspection,
    macs_by_node,
    ops_of,
)
from pytest_quant.backends.trt.network import GRAPH_FILE
from pytest_quant.backends.trt.options import options_of
from pytest_quant.backends.trt.plan import Plan, Runner, held_bytes, slots_of
from pytest_quant.errors import BuildError
from pytest_quant.result import Coverage, DeviceTimes
from pytest_quant.spec import EngineSpec

if TYPE_CHECKING:
    import tensorrt


class PlanEngine(Engine):
    """The plan in `folder`, whose layers say what each product computes in."""

    _excluded_among = excluded_among

    def __init__(self, spec: EngineSpec, folder: Path) -> None:
        self.spec = spec
        self._graph = folder / GRAPH_FILE
        self._ops = ops_of(read_nodes(self._graph).graph)
        self.signature = read_signature(self._graph)
        self.size_bytes = (folder / PLAN_FILE).stat().st_size
        self._options = options_of(spec)

    @abstractmethod
    def _layers(self, feeds: Feeds) -> Sequence[Layer]:
        """Return the layers of the plan, for inputs of these shapes."""

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Count the layers that read their activations in the asked precision."""
        macs = macs_by_node(self._graph, feeds)
        return count_layers(self._layers(feeds), self._ops, self.spec.precision, self.provider, macs)

    def _layer_times(self, feeds: Feeds) -> tuple[LayerTime, ...]:
        return layer_times_of(self._layers(feeds), self._ops, self._spent_ms(feeds))

    def _spent_ms(self, feeds: Feeds) -> Mapping[str, float] | None:  # noqa: ARG002
        """Return the median milliseconds of each layer that ran, by its name; ``None`` if nothing runs the plan."""
        return None


class GpuEngine(PlanEngine):
    """Runs the plan in `folder` on a stream of its own, in the primary context that other libraries share.

    Raises
    ------
    BackendUnavailable : no library for device memory loads.
    BuildError : TensorRT does not take the plan.
    """

    def __init__(self, spec: EngineSpec, folder: Path, device: DeviceMemory | None = None) -> None:
        import tensorrt as trt

        self._trt: Any = trt
        super().__init__(spec, folder)
        self.provider = f"TensorRT {trt.__version__}"
        self._device = device or open_device(library=self._options.memory or "")
        self._device.check()
        with self._device.current():
            self._plan = Plan(trt, folder / PLAN_FILE, self._options.libraries)
            try:
                self.device_bytes = held_bytes(trt, self._plan.engine, self.size_bytes)
                self._slots = slots_of(trt, self._plan.engine)
                self._runner = Runner(self._plan, self._slots, self._device)
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

    def _device_times(self, feeds: Feeds) -> DeviceTimes:
        """Time copies and compute apart, by events on the engine's stream."""
        with self._current():
            self._load(feeds)
            runner, clock = self._runner, self._runner.clock
            return device_times(
                runner.copy_in, runner.execute, runner.copy_out, wait=clock.wait, time_ms=clock.time_ms, pinned=True
            )

    def _spent_ms(self, feeds: Feeds) -> dict[str, float]:
        """Profile a context of its own: a profiler makes TensorRT wait for each layer, and timed runs have none."""
        spent_ms: dict[str, float] = defaultdict(float)
        with self._current(), closing(Runner(self._plan, self._slots, self._device)) as runner:

            def run() -> dict[str, float]:
                spent_ms.clear()
                runner.run()
                if not runner.context.report_to_profiler() or not spent_ms:
                    fix = "pytest-quant cache clear --kind engine, and the next run builds it anew"
                    raise BuildError("TensorRT reports no times of layers", fix=fix)
                return dict(spent_ms)

            profiler = _profiler(self._trt, spent_ms)
            runner.context.profiler = profiler
            # Else each run waits, and tells its times, within the call that starts it.
            runner.context.enqueue_emits_profile = False
            runner.stage(feeds)
            runner.copy_in()
            runner.wait()
            return medians(warm_runs(run))

    def _layers(self, feeds: Feeds) -> list[Layer]:
        """Ask with the shapes of `feeds`, without which TensorRT hides the types of tensors with free axes."""
        with self._current():
            self._staged = None
            self._runner.stage(feeds)
            inspector: tensorrt.EngineInspector = self._plan.engine.create_engine_inspector()
            inspector.execution_context = self._runner.context
            return layers_in_inspection(inspector.get_engine_information(self._trt.LayerInformationFormat.JSON))

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
        """Make the primary context current, and let the messages of TensorRT's log name this plan."""
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


def _profiler(trt: Any, spent_ms: dict[str, float]) -> tensorrt.IProfiler:
    class Profiler(trt.IProfiler):  # type: ignore[misc]
        """Adds up what TensorRT reports: it reports a layer within a loop in each turn."""

        def __init__(self) -> None:
            trt.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            """Take down one layer."""
            spent_ms[layer_name] += ms

    return Profiler()
