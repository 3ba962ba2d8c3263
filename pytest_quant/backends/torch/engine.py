"""The engines that compile a program and run it: on the CPU, and on a GPU, timed by events on its stream."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export.passes import move_to_device_pass

from pytest_quant.backends.base import Engine, Feeds, Outputs
from pytest_quant.backends.offer import seven_bits_note
from pytest_quant.backends.readback import device_times
from pytest_quant.backends.runtime import name_errors
from pytest_quant.backends.torch import CUDA, parse_options, torch_quiet
from pytest_quant.backends.torch.module import cast, copy_of, input_names, name_outputs, signature_of
from pytest_quant.backends.torch.program import PROGRAM_FILE, SCRIPT_FILE, load_module, load_program
from pytest_quant.backends.torch.quantize import find_quantized_layers
from pytest_quant.environment.machine import onednn_tier
from pytest_quant.files import is_own, own_folder
from pytest_quant.result import Coverage, DeviceTimes
from pytest_quant.spec import ARRIVING, EngineSpec

Shapes = tuple[tuple[int, ...], ...]

_SIMULATION = "not compiled: Q/DQ pairs around float operations, so no INT8 kernel runs and nothing can be timed"


class TorchEngine(Engine):
    """A traced program.

    Inductor compiles a copy of it for each shape of inputs: with sizes left free its int8 convolutions give wrong
    numbers (torch 2.13). A batch smaller than one that is compiled is filled up and cut again. The number of threads
    is PyTorch's own, so it holds for the whole process from the last call on.
    """

    provider = "cpu"

    def __init__(self, spec: EngineSpec, folder: Path) -> None:
        options = parse_options(spec.options)
        self.spec = spec
        self.signature = signature_of(spec.quantized or spec.model)
        is_script = (folder / SCRIPT_FILE).exists()
        self._file = folder / (SCRIPT_FILE if is_script else PROGRAM_FILE)
        self.size_bytes = self._file.stat().st_size
        self._compiles = options.compiled and not is_script
        self.simulated = spec.scheme in ("static", "dynamic", *ARRIVING) and not (options.compiled or is_script)
        self.notes = (_SIMULATION,) * self.simulated
        if spec.scheme in ("static", "dynamic") and options.reduce_range is None and options.seven_bits(spec.cpus):
            self.notes += (seven_bits_note(spec, "activations", onednn_tier(), "'reduce_range': False"),)
        self.threads: int = options.threads
        self._names = input_names(spec.quantized or spec.model)
        tensors = (*self.signature.inputs, *self.signature.outputs)
        self.fills = self._compiles and all(0 in tensor.free_axes for tensor in tensors)
        self._ready: dict[Shapes, Any] = {}
        self._in_integers: dict[Shapes, Counter[tuple[int, int, int]]] = {}
        self._held: set[str] = set()
        self._module: Any = None

    def _run(self, feeds: Feeds) -> Outputs:
        filled, size = self._fill_batch(feeds)
        call = self._call(filled)
        with torch_quiet(), name_errors(f"a run of {self.spec.id} failed"):
            outputs = {name: each if size is None else each[:size] for name, each in name_outputs(call()).items()}
        return {
            name: np.array((output.float() if output.is_floating_point() else output).detach().cpu().numpy())
            for name, output in outputs.items()
        }

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return the compiled program's own call over `feeds`."""
        call = self._call(feeds)
        with torch_quiet(), name_errors(f"a run of {self.spec.id} failed"):
            call()
        return call

    def _coverage(self, feeds: Feeds) -> Coverage:
        """Count the products of the program in one run of it, and look up what Inductor was given in integers."""
        feeds, _ = self._fill_batch(feeds)
        self._call(feeds)
        # On the CPU, whatever the engine runs on: its kernels do not name what they compute.
        tensors = TorchEngine._tensors(self, feeds)
        with torch_quiet(), name_errors(f"counting the products of {self.spec.id} failed"):
            from pytest_quant.backends.torch.coverage import measure_coverage, products_of

            products = products_of(self._module or load_module(self._file), tensors)
        self._held = {product.name for product in products if product.is_held}
        if self.spec.quantized is not None and self._file.name == SCRIPT_FILE:
            # The calls of a script have no submodules.
            self._held = {name for _, name in find_quantized_layers(copy_of(self.spec.quantized))}
        return measure_coverage(products, self._in_integers.get(self._shapes(feeds), {}), self.spec, self.provider)

    def _excluded_among(self, names: Collection[str]) -> list[str]:  # noqa: ARG002
        """Ask the program that was counted: a simulation multiplies in float what is in integers there."""
        return [name for name in self.spec.exclude if any(f"{each}.".startswith(f"{name}.") for each in self._held)]

    def _close(self) -> None:
        self._ready.clear()
        self._module = None

    def _fill_batch(self, feeds: Feeds) -> tuple[Feeds, int | None]:
        """Repeat the last sample up to the smallest compiled batch that holds `feeds`; return how many are real."""
        shapes = self._shapes(feeds)
        if not self.fills or shapes in self._ready:
            return feeds, None
        size = shapes[0][0]
        rest = [shape[1:] for shape in shapes]
        larger = [key[0][0] for key in self._ready if key[0][0] > size and [each[1:] for each in key] == rest]
        if not larger or size == 0:
            return feeds, None
        missing = min(larger) - size
        return {
            name: np.concatenate([feed, np.repeat(feed[-1:], missing, axis=0)]) for name, feed in feeds.items()
        }, size

    def _call(self, feeds: Feeds) -> Callable[[], Any]:
        torch.set_num_threads(self.threads)
        tensors = self._tensors(feeds)
        program = self._program(self._shapes(feeds), tensors)

        def call() -> Any:
            with torch.no_grad():
                return program(*tensors)

        return call

    def _tensors(self, feeds: Feeds) -> tuple[Any, ...]:
        """Return the inputs in order, as the program takes them."""
        return cast((torch.from_numpy(np.array(feeds[name], order="C")) for name in self._names), self.spec)

    def _load(self) -> Any:
        """Return the program as a module, on the device where it runs."""
        self._module = load_module(self._file)
        return self._module

    def _program(self, shapes: Shapes, tensors: tuple[Any, ...]) -> Any:
        """Return the program for these shapes, compiled and run once when it is new."""
        # One that is not compiled takes every shape.
        key = shapes if self._compiles else ()
        if self._compiles and key in self._ready and _is_forgotten(self._ready[key]):
            del self._ready[key]
        if key not in self._ready:
            self._in_integers[key] = Counter()
            self._ready[key] = self._new(tensors, self._in_integers[key]) if self._compiles else self._load()
        return self._ready[key]

    def _new(self, tensors: tuple[Any, ...], in_integers: Counter[tuple[int, int, int]]) -> Any:
        import torch._dynamo.config
        import torch._inductor.config
        import torch.compiler.config

        module = self._load()
        freezes = self.spec.scheme != "weight-only"
        with torch_quiet():
            from pytest_quant.backends.torch.coverage import products_of, watch_backend

            if self.spec.scheme in ARRIVING:
                freezes = not any(product.is_widened for product in products_of(module, tensors))
        keys: Any = torch.compiler.config
        fix = "options={'compiled': False} runs it without Inductor; an int8 model is then a simulation"
        # Without freezing, Q/DQ pairs stay and every product runs in float; with it, weights that are kept in int8
        # would be widened once and kept in float.
        with (
            name_errors(f"Inductor cannot compile {self.spec.id} of {self.spec.model.name}", fix),
            torch_quiet(),
            torch.no_grad(),
            torch._inductor.config.patch(_isolate_caches() | {"freezing": freezes}),  # noqa: SLF001 - its home
            torch._dynamo.config.patch(fail_on_recompile_limit_hit=True),  # noqa: SLF001 - its only home
            # Frozen weights are packed for the instruction set, and loops are written for so many threads, which
            # PyTorch's own cache of graphs does not ask for: graphs of other levels there corrupted the heap.
            keys.patch(cache_key_tag=f"pytest-quant {onednn_tier()} {self.threads}"),
        ):
            # Not the module itself: the hooks of an exported one would run outside what is compiled, some 0.1 ms a
            # call that no user's module has. Nor a function around it, whose code all engines would share: after
            # eight of them Dynamo compiles no more.
            compiled: Any = torch.compile(
                module.forward, dynamic=False, fullgraph=True, backend=watch_backend(in_integers)
            )
            compiled(*tensors)
        return compiled

    def _shapes(self, feeds: Feeds) -> Shapes:
        return tuple(np.shape(feeds[name]) for name in self._names)


def _isolate_caches() -> dict[str, bool]:
    """Have Inductor keep what it compiles, and loads again, where nobody else can put it; return settings for that.

    Raises `OSError` where there is no such folder.
    """
    from torch._inductor.runtime.cache_dir_utils import cache_dir, default_cache_dir

    usual = Path(default_cache_dir())
    usual.mkdir(mode=0o700, exist_ok=True)
    if not is_own(Path(cache_dir())):
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(own_folder("inductor"))
    # These are kept in the usual folder whatever the variable says.
    return {} if is_own(usual) else {"cpp_cache_precompile_headers": False}


def _is_forgotten(compiled: Any) -> bool:
    """Tell whether Dynamo has dropped what it compiled, and would compile it anew with its own settings, in float.

    Quantizing another module exports patterns, and ``torch.export`` resets Dynamo for the whole process.
    """
    from torch._dynamo.convert_frame import input_codes

    return compiled._torchdynamo_orig_callable.__code__ not in input_codes  # noqa: SLF001 - its only home


_BACKENDS: Any = torch.backends
_SWITCHES = (_BACKENDS.cuda.matmul, _BACKENDS.cudnn.conv, _BACKENDS.cudnn.rnn)
"""What holds the switches of TF32."""


class TorchCudaEngine(TorchEngine):
    """A traced program whose inputs lie on the GPU while it is timed."""

    provider = "cuda"

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return one run over inputs that are on the device already, synchronized before it returns."""
        call = super()._prepare(feeds)

        def synchronized() -> None:
            call()
            torch.cuda.synchronize()

        return synchronized

    def _prepare_events(self, feeds: Feeds) -> Callable[[], float]:
        """Return two runs, the second one between two events on their stream, synchronized before it returns."""
        return partial(_time_ms, super()._prepare(feeds))

    def _device_times(self, feeds: Feeds) -> DeviceTimes | None:
        """Time copies, from and to memory that is not page-locked, and compute by events on the stream."""
        call = super()._prepare(feeds)
        outputs = name_outputs(call()).values()
        return device_times(
            partial(self._tensors, feeds),
            call,
            lambda: [output.cpu() for output in outputs],
            wait=torch.cuda.synchronize,
            time_ms=_time_ms,
            pinned=False,
        )

    def _call(self, feeds: Feeds) -> Callable[[], Any]:
        """Return a call in which the process's switches of TF32 are the engine's; compiling looks at them too."""
        allowed = parse_options(self.spec.options).tf32
        with _tf32(allowed):
            program = super()._call(feeds)

        def call() -> Any:
            with _tf32(allowed):
                return program()

        return call

    def _tensors(self, feeds: Feeds) -> tuple[Any, ...]:
        return tuple(tensor.to(CUDA) for tensor in super()._tensors(feeds))

    def _load(self) -> Any:
        before = torch.cuda.memory_allocated()
        module = load_on_device(self._file).module()
        self.device_bytes = (self.device_bytes or 0) + torch.cuda.memory_allocated() - before
        return module


def load_on_device(file: Path) -> Any:
    """Return the ``torch.export.ExportedProgram`` in `file`, with its tensors on the GPU. Raises as `load_program`."""
    # With the number of the device: a program asserts the device of its tensors, and theirs has one.
    return move_to_device_pass(load_program(file), CUDA)


def _time_ms(start: Callable[[], object]) -> float:
    """Do twice what `start` does, and return the milliseconds between two events around the second time."""
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    # In an idle stream the host's way to the first kernel would count.
    start()
    first.record()
    start()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last))


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Switch TF32 on or off for the process, and afterwards back to what the user's code set.

    Only by the names of torch 2.9 and later: a switch set by them cannot be read by its old name, ``allow_tf32``.
    """
    wanted = "tf32" if allowed else "ieee"
    changed = [(switch, was) for switch in _SWITCHES if (was := switch.fp32_precision) != wanted]
    try:
        for switch, _ in changed:
            switch.fp32_precision = wanted
        yield
    finally:
        for switch, was in changed:
            switch.fp32_precision = was
