"""An engine on a GPU provider of ONNX Runtime.

The time of its layers is taken in a process of its own, which waits for each kernel: without that, the time of a node
is the time to hand its kernels over, not to run them.

Whole runs are timed by events on a stream of our own. ONNX Runtime shows no events of the streams that it makes, and
takes one that it is given. Its Python binding has no page-locked memory of the CUDA provider either (version 1.31), so
copies are timed with memory of the stream's library.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.backends.base import Feeds
from pytest_quant.backends.child_process import ChildError, call_in_child
from pytest_quant.backends.cuda import DeviceClock, make_clock
from pytest_quant.backends.cuda.device import open_device
from pytest_quant.backends.ort.engine import OrtEngine, time_layers
from pytest_quant.backends.ort.libraries import CUDA, TENSORRT, find_provider
from pytest_quant.backends.ort.session import Provider, new_run_options
from pytest_quant.backends.readback import LayerTime, device_times
from pytest_quant.backends.runtime import wrap_error
from pytest_quant.errors import BackendUnavailable, BuildError, QuantError
from pytest_quant.result import DeviceTimes
from pytest_quant.spec import EngineSpec


def set_stream(clock: DeviceClock, providers: Sequence[Provider]) -> tuple[Provider, ...]:
    """Return `providers`; the providers of a GPU get the option to run on the stream of `clock`."""
    ours = {"has_user_compute_stream": "1", "user_compute_stream": str(clock.stream)}
    return tuple(
        replace(provider, options={**provider.options, **ours}) if provider.name in (CUDA, TENSORRT) else provider
        for provider in providers
    )


@cache
def device_clock() -> tuple[DeviceClock | None, str]:
    """Return the clock of the GPU, which all sessions of a process share; or ``None`` and why there is none.

    ONNX Runtime runs without one: the library is not installed, or is made for a newer driver than ONNX Runtime is.
    """
    try:
        memory = open_device()
    except (BackendUnavailable, BuildError) as error:
        return None, "; ".join(part for part in (error.what, error.value, error.fix) if part)
    return make_clock(memory), ""


class OrtGpuEngine(OrtEngine):
    """A session whose inputs and outputs stay on the device while it is timed.

    It runs on a stream of ours where a library for device memory is here, so that the device's clock can be read.

    Parameters
    ----------
    spec, path, providers, notes : see `OrtEngine`.
    """

    def __init__(
        self, spec: EngineSpec, path: Path, providers: Sequence[Provider], *, notes: tuple[str, ...] = ()
    ) -> None:
        self._clock, why = device_clock()
        if self._clock is None:
            notes = (*notes, f"timed by the host's clock: {why}")
        ours = providers if self._clock is None else set_stream(self._clock, providers)
        with self._current():
            super().__init__(spec, path, ours, notes=notes)
        # Sessions that are opened apart run once, in other processes too, and have streams of their own.
        self._providers = providers

    def _current(self) -> AbstractContextManager[None]:
        """ONNX Runtime makes the primary context current and leaves it so: what was current before is to come back."""
        return nullcontext() if self._clock is None else self._clock.memory.current()

    @contextmanager
    def _bounded(self, doing: str) -> Iterator[None]:
        with self._current(), super()._bounded(doing):
            yield

    def _close(self) -> None:
        with self._current():
            super()._close()

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one run over inputs that are on the device already, synchronized before it returns."""
        binding = self._bound(feeds)
        run = partial(self._session.run_with_iobinding, binding)
        # For all streams of the session's own, or for ours.
        wait = binding.synchronize_outputs if self._clock is None else self._clock.wait

        def run_to_the_end() -> None:
            with self._current():
                run()
                wait()

        return run_to_the_end

    def _prepare_events(self, feeds: Feeds) -> Callable[[], float] | None:
        """Return the same run twice, the second one between two events; ``None`` without a stream of our own."""
        if self._clock is None:
            return None
        return partial(self._clock.time_ms, self._start(self._bound(feeds)))

    def _device_times(self, feeds: Feeds) -> DeviceTimes | None:
        """Time copies and compute apart by events; ``None`` without a stream of our own."""
        clock = self._clock
        if clock is None:
            return None
        binding, memory = self._bound(feeds), clock.memory
        start = self._start(binding)

        def outputs() -> list[tuple[int, int]]:
            return [(value.data_ptr(), value.tensor_size_in_bytes()) for value in binding.get_outputs()]

        def copy_in() -> None:
            for host, address in into:
                memory.copy_in(address, host, clock.stream)

        def copy_out() -> None:
            for host, (address, _) in zip(out, outputs(), strict=True):
                memory.copy_out(host, address, clock.stream)

        with memory.current(), ExitStack() as stack:

            def locked(size: int) -> Any:
                host = memory.lock(max(1, size))
                stack.callback(memory.unlock, host)
                return host[:size]

            def room(size: int) -> int:
                address = memory.allocate(max(1, size))
                stack.callback(memory.free, address)
                return address

            start()
            clock.wait()
            into = [(locked(size), room(size)) for size in (np.asarray(array).nbytes for array in feeds.values())]
            # Outputs of every run have the sizes of those of the first, and may lie elsewhere.
            out = [locked(size) for _, size in outputs()]
            return device_times(copy_in, start, copy_out, wait=clock.wait, time_ms=clock.time_ms, pinned=True)

    def _start(self, binding: Any) -> Callable[[], object]:
        """Return a run that does not wait for the device."""
        options = new_run_options()
        options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        return partial(self._session.run_with_iobinding, binding, options)

    def _layer_times(self, feeds: Feeds) -> tuple[LayerTime, ...]:
        return time_layers_on_gpu(self.path, self._known_model(), self._providers, feeds)

    def _bound(self, feeds: Feeds) -> Any:
        from onnxruntime import OrtValue

        binding = self._session.io_binding()
        with self._current():
            for name, array in feeds.items():
                value = OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), "cuda", 0)
                binding.bind_ortvalue_input(name, value)
            for name in self._names:
                binding.bind_output(name, "cuda")
            binding.synchronize_inputs()
        return binding


def time_layers_on_gpu(engine: Path, model: Path, providers: Sequence[Provider], feeds: Feeds) -> tuple[LayerTime, ...]:
    """Return what `time_layers` does.

    Parameters
    ----------
    engine, model, providers, feeds : see `time_layers`.

    Raises
    ------
    BuildError : a provider does not load there, ONNX Runtime refuses the model or a run, or the process ended.
    """
    try:
        # CUDA's driver is told to wait before it is first used, which in the process of the tests was long ago.
        waits = {**os.environ, "CUDA_LAUNCH_BLOCKING": "1"}
        layers, _ = call_in_child(time_here, engine, model, list(providers), feeds, environment=waits)
    except ChildError as ended:
        if isinstance(ended.error, QuantError):
            raise ended.error from None
        what = f"the process that profiles {engine.name} {ended.how or 'failed'}"
        raise wrap_error(what, ended.said, value=str(ended.error or ended.how), fix="run it once more") from ended
    return layers


def time_here(engine: Path, model: Path, providers: Sequence[Provider], feeds: Feeds) -> tuple[LayerTime, ...]:
    """Load the libraries of the GPU providers into this process, which is a new one, and profile there."""
    for provider in providers:
        if provider.name in (CUDA, TENSORRT):
            # Where one does not load, a session says that it does not run there.
            find_provider(provider.name)
    return time_layers(engine, model, providers, feeds)
