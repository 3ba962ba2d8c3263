"""A plan of TensorRT on a GPU: deserialized, and run by one execution context on a stream of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.base import Feeds, Outputs
from pytest_quant.backends.cuda import Blocks, DeviceMemory, OutOfMemoryError, block_of, free_blocks, make_clock
from pytest_quant.backends.cuda.device import complaints, make_logger
from pytest_quant.backends.trt.build import NO_ROOM, register_plugins
from pytest_quant.backends.trt.options import sizes_of
from pytest_quant.errors import BuildError, DataError

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
                raise _memory_error("this engine", self.lines)
            what = f"TensorRT {trt.__version__} does not take the plan it was given"
            fix = "pytest-quant cache clear --kind engine, and the next run builds it for this GPU and version"
            raise BuildError(what, value=complaints(self.lines), fix=fix)

    def listen(self) -> None:
        """Take what TensorRT logs from now on, until another plan does."""
        self._logger.lines = self.lines

    def new_context(self) -> tensorrt.IExecutionContext:
        """Return an execution context. Raises `BuildError` when there is no memory for one.

        It tells NVTX nothing: markers in the detail that the inspector wants of the plan would lengthen every run.
        """
        context: tensorrt.IExecutionContext | None = self.engine.create_execution_context()
        if context is None:
            raise _memory_error("an execution context", self.lines)
        context.nvtx_verbosity = self._quiet
        return context

    def close(self) -> None:
        """Drop engine and runtime in this order, after the contexts; closing twice is harmless."""
        self.engine = None
        self._runtime = None


def _memory_error(what: str, lines: list[str]) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"TensorRT has no memory for {what}",
        value=complaints(lines),
        fix="nvidia-smi shows which processes hold the GPU's memory; smaller batches, fewer workers (-n) and closed "
        "engines need less",
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


@dataclass(frozen=True, slots=True)
class Slot:
    """One input or output.

    Attributes
    ----------
    dtype : the engine's own; INT64 stays INT64 since TensorRT 9 and was INT32 before.
    on_host : TensorRT reads or writes it in host memory, as it does most tensors whose values decide shapes.
    """

    name: str
    is_input: bool
    dtype: np.dtype[Any]
    on_host: bool


def slots_of(trt: Any, engine: tensorrt.ICudaEngine) -> tuple[Slot, ...]:
    """Return the inputs and outputs of `engine`, in its order. Raises `BuildError` for a type numpy does not have."""
    # Not a generator, which would hold the engine after an error: it must end in its CUDA context.
    slots = []
    for name in map(engine.get_tensor_name, range(engine.num_io_tensors)):
        kind = engine.get_tensor_dtype(name)
        try:
            dtype = np.dtype(trt.nptype(kind))
        except TypeError:
            fix = "keep inputs and outputs of the model in float32"
            raise BuildError(f"'{name}' of the engine is {kind}, which numpy does not have", fix=fix) from None
        is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        slots.append(Slot(name, is_input, dtype, engine.get_tensor_location(name) == trt.TensorLocation.HOST))
    return tuple(slots)


@dataclass(eq=False)
class Runner:
    """Runs `plan` in a `context` of its own. Every method needs the primary context current, and so does making it.

    `context` has the shapes that were staged last; `slots` are the inputs and outputs of the engine.

    Inputs and outputs lie in page-locked memory of the host between their copies, so that a copy is one of the
    device's own; for a tensor that TensorRT wants on the host that is its address.
    """

    plan: Plan
    slots: tuple[Slot, ...]
    device: DeviceMemory

    def __post_init__(self) -> None:
        self.context = self.plan.new_context()
        self._on_device: Blocks = {}
        self._locked: dict[str, NDArray[np.uint8]] = {}
        self._host: dict[str, NDArray[Any]] = {}
        self.clock = make_clock(self.device)
        self.stream = self.clock.stream

    def stage(self, feeds: Feeds) -> None:
        """Set shapes, make room for every tensor, and keep a copy of the inputs for `copy_in`.

        Raises
        ------
        DataError : a size lies outside the profile that the engine was built for, or the inputs do not go together.
        BuildError : the size of an output depends on the values of the inputs, or there is no memory.
        """
        try:
            self._stage(feeds)
        except OutOfMemoryError:
            # A smaller batch may fit once the blocks of this one are gone.
            self._free_all()
            raise

    def copy_in(self) -> None:
        """Start the copies of all inputs to the device."""
        for slot in self.slots:
            if slot.is_input and not slot.on_host:
                self.device.copy_in(self._on_device[slot.name][0], self._host[slot.name], self.stream)

    def execute(self) -> None:
        """Start one run. Raises `BuildError` when TensorRT does not take it."""
        if not self.context.execute_async_v3(self.stream):
            raise BuildError("TensorRT did not start the run", value=complaints(self.plan.lines))

    def run(self) -> None:
        """Do one run, and wait until it is done."""
        self.execute()
        self.wait()

    def copy_out(self) -> None:
        """Start the copies of all outputs from the device."""
        for slot in self.slots:
            if not slot.is_input and not slot.on_host:
                self.device.copy_out(self._host[slot.name], self._on_device[slot.name][0], self.stream)

    def wait(self) -> None:
        """Wait until everything that was started is done."""
        self.device.wait(self.stream)

    def take(self) -> Outputs:
        """Return a copy of the outputs, which no later run writes to."""
        return {slot.name: self._host[slot.name].copy() for slot in self.slots if not slot.is_input}

    def close(self) -> None:
        """Let the context go, and give back memory, events and the stream."""
        del self.context
        self._free_all()
        self.clock.close()

    def _free_all(self) -> None:
        self._host.clear()
        free_blocks(self._on_device, self.device)
        while self._locked:
            self.device.unlock(self._locked.popitem()[1])

    def _stage(self, feeds: Feeds) -> None:
        for slot in self.slots:
            if slot.is_input:
                self._stage_input(slot, np.asarray(feeds[slot.name], slot.dtype, order="C"))
        try:
            missing = self.context.infer_shapes()
        except RuntimeError as error:
            raise DataError(
                "the shapes of the inputs do not go together",
                value=str({slot.name: self._host[slot.name].shape for slot in self.slots if slot.is_input}),
                allowed=complaints(self.plan.lines),
                fix="give every input the sizes of one batch",
            ) from error
        if missing:
            unknown = f"TensorRT cannot infer shapes without {', '.join(missing)}"
            raise BuildError(unknown, value=complaints(self.plan.lines))
        for slot in self.slots:
            if not slot.is_input:
                self._stage_output(slot)

    def _stage_input(self, slot: Slot, array: NDArray[Any]) -> None:
        if not self.context.set_input_shape(slot.name, array.shape):
            # No local name, which an error would keep: the engine must end in its CUDA context.
            low, _, high = cast("tensorrt.ICudaEngine", self.plan.engine).get_tensor_profile_shape(slot.name, 0)
            what = f"input '{slot.name}' does not fit the engine"
            fix = f"build for it: options={{'shapes': {{'{slot.name}': [smallest, usual, largest]}}}}, or max_batch"
            raise DataError(what, value=str(array.shape), allowed=f"from {sizes_of(low)} to {sizes_of(high)}", fix=fix)
        self._make_room(slot, array.shape)
        self._host[slot.name][...] = array

    def _stage_output(self, slot: Slot) -> None:
        shape = sizes_of(self.context.get_tensor_shape(slot.name))
        if any(size < 0 for size in shape):
            what = f"the size of output '{slot.name}' depends on the values of the inputs"
            fix = "cut the model before NonZero, NonMaxSuppression or the like, and do that step in the metric"
            raise BuildError(what, value=str(shape), fix=fix)
        self._make_room(slot, shape)

    def _make_room(self, slot: Slot, shape: tuple[int, ...]) -> None:
        """Give a tensor its place on the host and its address. TensorRT takes no null address for an empty tensor."""
        size_bytes = int(np.prod(shape)) * slot.dtype.itemsize
        room = max(1, size_bytes)
        self._host.pop(slot.name, None)
        if slot.name not in self._locked or self._locked[slot.name].nbytes < room:
            if slot.name in self._locked:
                self.device.unlock(self._locked.pop(slot.name))
            self._locked[slot.name] = self.device.lock(room)
        self._host[slot.name] = self._locked[slot.name][:size_bytes].view(slot.dtype).reshape(shape)
        address = self._locked[slot.name].ctypes.data
        if not slot.on_host:
            address = block_of(slot.name, room, self._on_device, self.device)
        if not self.context.set_tensor_address(slot.name, address):
            raise BuildError(f"TensorRT did not take the address of '{slot.name}'", value=complaints(self.plan.lines))
