"""A run as a CUDA graph: launched at once, where TensorRT would launch its kernels one by one."""

from __future__ import annotations

from typing import Any

from pytest_quant.backends.trt.gpu.memory import DeviceMemory
from pytest_quant.backends.trt.gpu.runner import Runner
from pytest_quant.errors import BuildError

NOTE = "timed runs replay a CUDA graph"


class GraphedRun:
    """Replays the run that `runner` is staged for. Every method needs the primary context current."""

    def __init__(self, runner: Runner, device: DeviceMemory) -> None:
        self._runner = runner
        self._device = device
        self._graph: Any = None
        self._captured: object = None

    def ready(self) -> None:
        """Capture the run, unless the graph is one of what is staged.

        Raises
        ------
        BuildError : TensorRT does in a run what cannot be captured, or the library has no graphs.
        """
        if self._graph is not None and self._captured == self._runner.staged:
            return
        self.close()
        # What depends on the shapes TensorRT settles in the first run after they changed, which cannot be captured.
        self._runner.execute()
        self._runner.wait()
        try:
            self._graph = self._device.capture(self._runner.stream, self._runner.execute)
        except BuildError as error:
            self._device.check()
            raise BuildError(
                "a run of this engine cannot be captured as a CUDA graph",
                value=str(error),
                fix="drop options={'cuda_graph': True}: models with loops, conditions or sizes that depend on values "
                "wait for the device in between, and pycuda has no graphs",
            ) from error
        self._captured = self._runner.staged

    def execute(self) -> None:
        """Start one run; `ready` came before, and nothing was staged since."""
        self._device.launch(self._graph, self._runner.stream)

    def close(self) -> None:
        """Give the graph back; closing twice is harmless."""
        if self._graph is not None:
            graph, self._graph = self._graph, None
            self._device.end_graph(graph)
