"""A TensorRT engine on a GPU, and what a check asks of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pytest_quant.backends.base import Feeds, Outputs
from pytest_quant.backends.misfit import misfit
from pytest_quant.backends.onnx_files import read_graph, read_signature
from pytest_quant.backends.trt.build import GRAPH_FILE
from pytest_quant.backends.trt.coverage import count_layers, macs_by_node, ops_of
from pytest_quant.backends.trt.gpu.device import DeviceMemory, open_device
from pytest_quant.backends.trt.gpu.inspector import layers_in_inspection
from pytest_quant.backends.trt.gpu.plan import Plan, held_bytes
from pytest_quant.backends.trt.gpu.runner import Runner
from pytest_quant.backends.trt.gpu.tensors import slots_of
from pytest_quant.backends.trt.gpu.timing import time_layers, time_parts
from pytest_quant.backends.trt.notes import build_notes
from pytest_quant.backends.trt.request import PLAN_FILE
from pytest_quant.errors import BuildError
from pytest_quant.result import Coverage, DeviceTimes
from pytest_quant.spec import EngineSpec

if TYPE_CHECKING:
    import tensorrt


class GpuEngine:
    """Runs the plan in `folder` on a stream of its own, in the primary context that other libraries share.

    Raises
    ------
    BackendUnavailable : no library for device memory loads.
    BuildError : TensorRT does not take the plan.
    """

    simulated = False

    def __init__(self, spec: EngineSpec, folder: Path, device: DeviceMemory | None = None) -> None:
        import tensorrt as trt

        self._trt: Any = trt
        self.spec = spec
        self._graph = folder / GRAPH_FILE
        self.signature = read_signature(self._graph)
        self.size_bytes = (folder / PLAN_FILE).stat().st_size
        self.provider = f"TensorRT {trt.__version__}"
        self._device = device or open_device()
        with self._device.current():
            self._plan: Plan | None = Plan(trt, folder / PLAN_FILE)
            self.device_bytes: int | None = held_bytes(trt, self._plan.engine, self.size_bytes)
            self._slots = slots_of(trt, self._plan.engine)
            self._runner = self._new_runner(self._plan.new_context())
        self._staged: Feeds | None = None
        self.notes = (f"device memory by {self._device.name}", *build_notes(folder))

    def run(self, feeds: Feeds) -> Outputs:
        """Run one batch. Raises `DataError` when the inputs do not fit the model or the profile."""
        self._check(feeds)
        with self._device.current():
            self._load(feeds)
            self._runner.execute()
            self._runner.copy_out()
            self._runner.wait()
            found = self._runner.take()
            self._staged = None
        return {tensor.name: found[tensor.name] for tensor in self.signature.outputs}

    def prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one synchronized run over inputs that lie on the device already; copies are told by `device_times`."""
        self._check(feeds)
        with self._device.current():
            self._load(feeds)
        return partial(self._timed, feeds)

    def coverage(self, feeds: Feeds) -> Coverage:
        """Ask the engine's inspector for its layers and count the products in the asked precision."""
        self._check(feeds)
        plan = self._opened()
        inspector: tensorrt.EngineInspector = plan.engine.create_engine_inspector()
        text = inspector.get_engine_information(self._trt.LayerInformationFormat.JSON)
        ops = ops_of(read_graph(self._graph).graph)
        macs = macs_by_node(self._graph, feeds)
        return count_layers(layers_in_inspection(text), ops, self.spec.precision, self.provider, macs)

    def device_times(self, feeds: Feeds) -> DeviceTimes:
        """Time copies and compute apart, by events on the engine's stream."""
        self._check(feeds)
        with self._device.current():
            self._load(feeds)
            return time_parts(self._runner, self._device)

    def layer_times(self, feeds: Feeds) -> tuple[tuple[str, float], ...]:
        """Return name and milliseconds of each layer, in a pass of its own: profiling slows the run it looks at."""
        self._check(feeds)
        with self._device.current():
            context = self._opened().new_context()
            runner = self._new_runner(context)
            try:
                runner.stage(feeds)
                return time_layers(self._trt, context, runner)
            finally:
                runner.close()

    def close(self) -> None:
        """Free buffers, context, engine and runtime in this order; closing twice is harmless."""
        if self._plan is None:
            return
        with self._device.current():
            self._runner.close()
            self._plan.close()
        self._plan = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _timed(self, feeds: Feeds) -> None:
        """A run over other inputs in between costs one copy, and never the right inputs."""
        with self._device.current():
            if self._staged is not feeds:
                self._load(feeds)
            self._runner.execute()
            self._runner.wait()

    def _load(self, feeds: Feeds) -> None:
        """Bring the inputs to the device."""
        self._runner.stage(feeds)
        self._runner.copy_in()
        self._runner.wait()
        self._staged = feeds

    def _new_runner(self, context: tensorrt.IExecutionContext) -> Runner:
        plan = self._opened()
        return Runner(plan.engine, context, plan.lines, self._slots, self._device)

    def _check(self, feeds: Feeds) -> None:
        self._opened()
        wrong = misfit(feeds, self.signature)
        if wrong is not None:
            raise wrong

    def _opened(self) -> Plan:
        if self._plan is None:
            raise BuildError(f"engine {self.spec.id} is closed", fix="run it before close(), or inside its with block")
        return self._plan
