"""The backend ``callable``: a function of the user's, or a client of a server, in the place of an engine.

What the function is given, what it may return, and how it is ended when it takes too long.
"""

from __future__ import annotations

import platform
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.base import Backend, Engine, Feeds, Outputs
from pytest_quant.backends.feeds import explain_misfit
from pytest_quant.backends.offer import Availability, Offer
from pytest_quant.backends.runtime import wrap_error
from pytest_quant.clocks import REAL
from pytest_quant.data.batch import convert_torch, wrap_objects
from pytest_quant.data.source import UNNAMED
from pytest_quant.errors import DataError, ModelError, UsageError
from pytest_quant.host import INTERRUPT, interrupt_main
from pytest_quant.result import Coverage
from pytest_quant.spec import ARRIVING, QUANTIZED_PRECISIONS, EngineSpec, Model, Signature, TensorInfo


class CallableBackend(Backend):
    """Nothing is built and nothing is read back; the precision is what the mark says of the function."""

    name = "callable"
    offer = Offer(
        {**dict.fromkeys(("", "fp32", "fp16", "bf16"), (None,)), **dict.fromkeys(QUANTIZED_PRECISIONS, ARRIVING)},
        reads="callable",
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:  # noqa: ARG002
        """Tell that it is there: it is Python's own."""
        return Availability(True, version=platform.python_version(), device=self.device)

    def signature(self, model: Model) -> Signature:
        """Return the inputs that the data has; outputs are known when it has run. Raises `UsageError`."""
        return require_callable(model).signature or Signature((), ())

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Return the function's name and version; nothing of one without a version, of which nothing is kept."""
        model = require_callable(spec.quantized or spec.model)
        of_model = "model" if spec.quantized is None else "quantized model"
        where = f"{getattr(model.call, '__module__', '')}.{getattr(model.call, '__qualname__', '')}"
        return {of_model: f"{where} as {model.name}, version {model.version}"} if model.version else {}

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Do nothing."""

    def open(self, spec: EngineSpec, folder: Path) -> Engine:  # noqa: ARG002
        """Take the function as it is."""
        return CallableEngine(spec, require_callable(spec.quantized or spec.model))


def require_callable(model: Model) -> Model:
    """Return `model`. Raises `UsageError` if it is no function."""
    if model.call is None:
        raise UsageError(
            f"backend 'callable' runs functions, and model '{model.name}' is none",
            value=str(model.path) if model.path else type(model.module).__name__,
            fix="write Model.from_callable(fn, version='...'), or name the backend that reads this model",
        )
    return model


class _StoppedError(BaseException):
    """Raised where the function is; one that catches every `Exception` of its own does not catch it."""


class CallableEngine(Engine):
    """A function that runs a batch; its outputs are known when it has run once."""

    provider = "callable"
    size_bytes = 0
    notes = ("where a callable runs, and in which precision, cannot be read back",)

    def __init__(self, spec: EngineSpec, model: Model) -> None:
        self.spec = spec
        self.signature = model.signature or Signature((), ())
        self._model = model
        self._function: Any = model.call
        self._lock = threading.Lock()
        self._is_running = False

    def _misfit(self, feeds: Feeds) -> DataError | None:
        return None if self._model.signature is None else explain_misfit(feeds, self.signature)

    def _run(self, feeds: Feeds) -> Outputs:
        # Signals reach the main thread only.
        takes_signals = threading.current_thread() is threading.main_thread()
        before = signal.signal(INTERRUPT, self._raise_stopped) if takes_signals else None
        try:
            try:
                self._is_running = takes_signals
                returned = self._call(_batch(feeds))
            finally:
                if takes_signals:
                    self._take_no_signals(before or signal.SIG_DFL)
        except _StoppedError as error:
            raise TimeoutError from error
        n = len(next(iter(feeds.values())))
        named = returned if isinstance(returned, Mapping) else {"output": returned}
        outputs = {str(name): self._array(str(name), value, n) for name, value in named.items()}
        known = [tensor.name for tensor in self.signature.outputs]
        if known and sorted(known) != sorted(outputs):
            raise ModelError(
                f"callable {self._model.name} returns other outputs than before",
                value=", ".join(outputs) or "none",
                allowed=", ".join(known),
            )
        of_outputs = tuple(TensorInfo(name, array.dtype.name, None) for name, array in outputs.items())
        self.signature = Signature(self.signature.inputs, of_outputs)
        return outputs

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        return partial(self._call, _batch(feeds))

    def _prepare_tokens(self, feeds: Feeds) -> Callable[[], tuple[int, ...]] | None:
        batch = _batch(feeds)

        def run() -> tuple[int, ...]:
            came_ns: list[int] = []
            began_ns = REAL.perf_counter_ns()
            self._call(batch, lambda _: came_ns.append(REAL.perf_counter_ns() - began_ns))
            return tuple(came_ns)

        return run if self._model.streams else None

    def _call(self, batch: object, each: Callable[[str], object] = str) -> object:
        """Run the function and return its outputs; of a stream, `each` is called with every token when it comes."""
        # No context manager: it would be part of every timed run.
        try:
            returned = self._function(batch)
            return [_join_tokens(returned, each)] if self._model.streams else returned
        except Exception as error:
            what = f"callable {self._model.name} failed"
            raise wrap_error(what, error, fix="call it by itself with these samples") from error

    def _array(self, name: str, value: Any, n: int) -> NDArray[Any]:
        """Return one output as a new array (n, ...): the function may write the next one into the same memory."""
        is_texts = isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value)
        try:
            array = wrap_objects(value) if is_texts else np.array(convert_torch(value))
        except (TypeError, ValueError) as error:
            raise self._output_error(name, f"{type(value).__name__}: {error}", n) from error
        if array.dtype.kind == "U":
            array = array.astype(object)
        holds_texts = array.dtype.kind == "O" and all(isinstance(text, str) for text in array.ravel())
        if array.dtype.kind not in "biuf" and not holds_texts:
            raise self._output_error(name, f"{type(value).__name__} of {array.dtype}", n)
        if not array.ndim or len(array) != n:
            raise self._output_error(name, f"shape {array.shape}", n)
        return array

    def _output_error(self, name: str, value: str, n: int) -> ModelError:
        return ModelError(
            f"callable {self._model.name} returns no output '{name}' for each sample",
            value=value,
            allowed=f"for a batch of {n} an array ({n}, ...) of numbers, a list of {n} texts, or a dict of these",
        )

    def _raise_stopped(self, _number: int, _frame: object) -> None:
        raise _StoppedError

    def _take_no_signals(self, before: Any) -> None:
        """Put the handler `before` back when no signal is on its way: by default one would end the process.

        Whoever sends one holds the lock, and Python hands on what has come before it changes a handler.
        """
        stopped = None
        while self._is_running:
            try:
                with self._lock:
                    signal.signal(INTERRUPT, before)
                    self._is_running = False
            except _StoppedError as error:
                stopped = error
        if stopped is not None:
            raise stopped

    def _stop(self) -> bool:
        """Interrupt the function by a signal, which also ends a wait for an answer of a server."""
        with self._lock:
            if is_running := self._is_running:
                interrupt_main()
            return is_running

    def _coverage(self, feeds: Feeds) -> Coverage:  # noqa: ARG002
        return Coverage(None, "nodes", (), self.provider, notes=("what a callable runs cannot be read back",))

    def _close(self) -> None:
        """Leave the function alone: it is the user's."""


def _batch(feeds: Feeds) -> object:
    """Return what the function is given: texts as a list, and inputs that the data names as a dict."""
    inputs = {name: array.tolist() if array.dtype.kind == "O" else array for name, array in feeds.items()}
    return inputs[UNNAMED] if list(inputs) == [UNNAMED] else inputs


def _join_tokens(stream: object, each: Callable[[str], object]) -> str:
    """Return what the tokens of a stream are together; `each` is called with every one when it comes."""
    if isinstance(stream, str) or not isinstance(stream, Iterable):
        raise TypeError(f"{type(stream).__name__} in place of an iterator of texts")
    tokens = []
    for token in stream:
        each(token)
        tokens.append(token)
    return "".join(tokens)
