"""The time of each layer on a GPU, by TensorRT's profiler, in an execution context of its own."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.layers import medians, warm_runs
from pytest_quant.backends.trt.gpu.runner import Runner
from pytest_quant.errors import BuildError

if TYPE_CHECKING:
    import tensorrt


class LayerClock:
    """Runs a context with a profiler, which makes TensorRT wait for each layer; the primary context must be current.

    Parameters
    ----------
    trt : the module ``tensorrt``.
    context : one that is timed in no other way.
    runner : runs it.
    """

    def __init__(self, trt: Any, context: tensorrt.IExecutionContext, runner: Runner) -> None:
        self._context = context
        self._runner = runner
        self._spent_ms: dict[str, float] = defaultdict(float)
        self._profiler = _profiler(trt, self._spent_ms)
        context.profiler = self._profiler
        # Else each run waits, and tells its times, within the call that starts it.
        context.enqueue_emits_profile = False

    def times_ms(self, feeds: Feeds) -> dict[str, float]:
        """Return the median milliseconds of each layer by its name, in the order they run.

        Raises
        ------
        DataError : the inputs do not fit the profile.
        BuildError : TensorRT does not run, or tells no times.
        """
        self._runner.stage(feeds)
        self._runner.copy_in()
        self._runner.wait()
        return medians(warm_runs(self._run))

    def close(self) -> None:
        """Let the context go, which must end while the primary context is current, then the runner."""
        del self._context
        self._runner.close()

    def _run(self) -> dict[str, float]:
        self._spent_ms.clear()
        self._runner.execute()
        self._runner.wait()
        if not self._context.report_to_profiler() or not self._spent_ms:
            raise BuildError(
                "TensorRT tells no times of layers",
                fix="pytest-quant cache clear --kind engine, and the next run builds it anew",
            )
        return dict(self._spent_ms)


def _profiler(trt: Any, spent_ms: dict[str, float]) -> tensorrt.IProfiler:
    class Profiler(trt.IProfiler):  # type: ignore[misc]
        """Adds up what TensorRT tells: a layer within a loop is told in each turn."""

        def __init__(self) -> None:
            trt.IProfiler.__init__(self)

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            """Take down one layer."""
            spent_ms[layer_name] += ms

    return Profiler()
