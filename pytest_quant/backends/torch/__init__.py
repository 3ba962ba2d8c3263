"""The backends ``torch`` and ``torch-cuda``: what they offer, their options, and where each step is done.

No runtime is loaded before a step needs it.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_quant.backends.base import Backend, Engine, Feeds, Outputs
from pytest_quant.backends.offer import Availability, Offer, Remedy, normalize_options
from pytest_quant.backends.runtime import driver_too_old, import_runtime, quiet
from pytest_quant.backends.saturation import Exposed, OlderCpu, limited_onednn
from pytest_quant.backends.switchable import SwitchableGraph
from pytest_quant.environment.gpu import gpu_kind
from pytest_quant.environment.machine import adds_in_16_bits, is_x86, onednn_tier
from pytest_quant.errors import UsageError
from pytest_quant.readers import FLAG, choice_of, count, keys_of, option
from pytest_quant.spec import ARRIVING, EngineSpec, Model, Shape, Signature

CUDA = "cuda:0"
_INSTALL = "install torch for CUDA, see https://pytorch.org/get-started/locally"

torch_quiet = partial(quiet, "torch", "torch.__trace", "torchao", "onnxscript", "onnx_ir")
"""Keeps the noise of exporters and compilers off the screen, see `quiet`."""


def import_torch() -> Any:
    """Return the module torch, or an `Availability` that gives the reason why it or torchao cannot be used."""
    return import_runtime(
        "torch",
        install='pip install "pytest-quant[torch]"',
        repair="pip install --force-reinstall torch torchao",
        needs=("torchao",),
    )


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """Options as asked; ``None`` leaves the choice to the machine."""

    threads: int = option(1, count(), "threads of PyTorch, for the whole process")
    compiled: bool = option(True, FLAG, "compile with Inductor; with False an int8 model is a float simulation")
    reduce_range: bool | None = option(None, FLAG, "7-bit activations; default True on x86 without VNNI")
    dtype: str = option("fp32", choice_of("fp32", "bf16", "fp16"), "weight-only: what the rest is computed in")
    tf32: bool = option(False, FLAG, "`torch-cuda`: float32 products may round their inputs to ten bits")

    def seven_bits(self, cpus: str) -> bool:
        """Return whether ranges are reduced: if kernels add in 16 bits, unless the user sets it.

        `cpus` is that of `EngineSpec`.
        """
        return adds_in_16_bits(onednn_tier(), cpus) if self.reduce_range is None else self.reduce_range


CUDA_KEYS = keys_of(TorchOptions)


def parse_options(options: Iterable[tuple[str, object]]) -> TorchOptions:
    """Turn the options of a mark into `TorchOptions`. Raises `UsageError`."""
    return TorchOptions(**normalize_options("torch-cuda", options, CUDA_KEYS))


def float_type(spec: EngineSpec) -> str:
    """Return the floating type that an engine computes in: ``fp32``, ``bf16`` or ``fp16``."""
    if spec.precision in ("bf16", "fp16"):
        return spec.precision
    return parse_options(spec.options).dtype if spec.scheme == "weight-only" else "fp32"


class TorchBackend(Backend):
    """PyTorch on the CPU, compiled by Inductor; int8 by torchao's PT2E flow for x86.

    Observing ranges and converting is one step there, so calibration writes the converted program, and building
    takes it over.
    """

    name = "torch"
    offer = Offer(
        {"fp32": (None,), "bf16": (None,), "int8": ("static", "dynamic", "weight-only", *ARRIVING)},
        {name: key for name, key in CUDA_KEYS.items() if name != "tf32"},
        ("minmax",),
        reads="module",
        extras=("torch",),
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Look for torch, torchao and a C++ compiler; with `spec`, whether Inductor has its kernels for this processor.

        torchao takes seconds to import, and is not.
        """
        torch = import_torch()
        if isinstance(torch, Availability):
            return torch
        if spec is not None and spec.precision == "int8" and not is_x86():
            # What is quantized for x86 runs there in float, whatever its nodes say.
            reason = f"Inductor has int8 kernels for x86 processors only, and this one is {platform.machine()}"
            also = ", scheme='dynamic'" if spec.scheme == "weight-only" else ""
            return Availability(False, reason=reason, fix=f"write backend='ort'{also}, to which the module is exported")
        if shutil.which(os.environ.get("CXX", "g++")) is None:
            reason = "Inductor compiles with a C++ compiler, and g++ is not on the PATH"
            return Availability(False, reason=reason, fix="apt-get install g++, or set CXX")
        return Availability(True, version=str(torch.__version__), device="cpu")

    def refuses_speed(self, spec: EngineSpec) -> UsageError | None:
        """Refuse a limit on the speed of a graph of float operations around Q/DQ pairs."""
        if spec.scheme in (None, "weight-only") or parse_options(spec.options).compiled:
            return None
        return UsageError(
            "an int8 graph that is not compiled is a float simulation, several times slower than FP32",
            value="options={'compiled': False} with a limit on speed",
            fix="drop the option, or the limit",
        )

    def signature(self, model: Model) -> Signature:
        """Find inputs and outputs by running the example inputs once. Raises `UsageError` or `ModelError`."""
        from pytest_quant.backends.torch.module import signature_of

        return signature_of(model)

    def largest_tensor(self, model: Model, shapes: Mapping[str, Shape]) -> int:
        """Return the bytes of the largest tensor that an operator of the module gives, by a run of the example inputs.

        It grows with the inputs of `shapes`. Raises `UsageError` or `ModelError`.
        """
        from pytest_quant.backends.torch.module import largest_tensor

        return largest_tensor(model, shapes)

    def keeps_state(self, model: Model) -> bool:
        """Tell whether a run of the module depends on those before it. Raises `UsageError` or `ModelError`."""
        from pytest_quant.backends.torch.module import keeps_state

        return keeps_state(model)

    def quantizing_parts(self, model: Model) -> tuple[str, ...]:
        """Return its quantized layers, tensors and nodes; empty for a float module."""
        from pytest_quant.backends.torch.quantize import quantizing_parts

        return quantizing_parts(model.module)

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Weights and code of the module, every option as resolved here, library versions, instruction set, recipe."""
        from pytest_quant.backends.torch.program import engine_ingredients

        return engine_ingredients(spec)

    def calibration_ingredients(self, spec: EngineSpec) -> dict[str, str] | None:
        """The same ingredients and those of the calibration; ``None`` unless static."""
        from pytest_quant.backends.torch.program import observing_ingredients

        return observing_ingredients(spec) if spec.scheme == "static" else None

    def calibrate(self, spec: EngineSpec, batches: Callable[[], Iterator[Feeds]], folder: Path) -> None:
        """Write the converted program. Raises `DataError` for no batches or batches that do not fit."""
        from pytest_quant.backends.torch.program import write_observed

        write_observed(spec, batches, folder)

    def build(self, spec: EngineSpec, calibration: Path | None, folder: Path) -> None:
        """Write the program that the engine compiles."""
        from pytest_quant.backends.torch.program import write_engine

        write_engine(spec, calibration, folder)

    def export_ingredients(self, model: Model) -> dict[str, str]:
        """Weights and code of the module, its example inputs and axes, and the versions of what exports it."""
        from pytest_quant.backends.torch.export import export_ingredients

        return export_ingredients(model)

    def export(self, model: Model, folder: Path) -> Path:
        """Write the module as ONNX, compared with the module itself. Raises `BuildError` or `ModelError`."""
        from pytest_quant.backends.torch.export import export_onnx

        return export_onnx(model, folder)

    def remedies(self, spec: EngineSpec) -> Sequence[Remedy]:
        """Other schemes and numbers of bits, and the program as it is before Inductor compiles it."""
        from pytest_quant.backends.torch.quantize import remedies

        return tuple(remedies(spec, self.offer.precisions.get(spec.precision, ())))

    def exposed_sums(self, spec: EngineSpec, folder: Path) -> tuple[Exposed, ...] | None:  # noqa: ARG002
        """None where activations have seven bits, which no weights of eight take past 16, or weights are widened."""
        has_seven = spec.scheme in ("static", "dynamic") and parse_options(spec.options).seven_bits(spec.cpus)
        return () if has_seven or spec.scheme == "weight-only" else None

    def older_cpu(self) -> OlderCpu:
        """The kernels of oneDNN, which a variable limits."""
        return limited_onednn()

    def open_module(self, model: Model) -> Callable[[Feeds], Outputs]:
        """Return what runs the module itself, as it is and not traced. Raises `UsageError` or `ModelError`."""
        from pytest_quant.backends.torch.module import open_module

        return open_module(model)

    def switches(self, spec: EngineSpec, folder: Path, work: Path) -> SwitchableGraph | None:  # noqa: ARG002
        """Return the converted program in eager mode with switches; ``None`` without pairs that round."""
        from pytest_quant.backends.torch.switchable_graph import open_switchable

        return open_switchable(spec, folder)

    def quantized_nodes(self, spec: EngineSpec) -> tuple[str, ...]:
        """Return the submodules that the scheme takes."""
        from pytest_quant.backends.torch.quantize import quantized_nodes

        return quantized_nodes(spec)

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the program; it is compiled for a shape when that is first run."""
        from pytest_quant.backends.torch.engine import TorchEngine

        return TorchEngine(spec, folder)


class TorchCudaBackend(TorchBackend):
    """Half precision, and int8 weights by torchao; int8 activations are the domain of TensorRT there."""

    name = "torch-cuda"
    device = CUDA
    offer = replace(
        TorchBackend.offer,
        precisions={"fp32": (None,), "fp16": (None,), "bf16": (None,), "int8": ("weight-only",)},
        options=CUDA_KEYS,
        calibrations=(),
        extras=("gpu", "torch-cuda"),
    )

    def availability(self, spec: EngineSpec | None = None) -> Availability:
        """Tell whether torch is built for CUDA and finds a GPU; with `spec`, whether that GPU computes its type."""
        torch = import_torch()
        if isinstance(torch, Availability):
            return torch
        release, cuda = torch.__version__, torch.version.cuda
        if cuda is None:
            return Availability(False, reason=f"torch {release} is a build without CUDA", fix=_INSTALL)
        if refused := driver_too_old({f"torch {release}": cuda}, _INSTALL.replace("CUDA", "an older CUDA")):
            return refused
        if not torch.cuda.is_available():
            reason = f"torch {release} is built for CUDA {cuda} and finds no GPU"
            return Availability(False, reason=reason, fix="run it on a machine with an NVIDIA GPU; nvidia-smi shows it")
        name = torch.cuda.get_device_name(0)
        narrow = spec is not None and float_type(spec) == "bf16"
        if narrow and not torch.cuda.is_bf16_supported(including_emulation=False):
            return Availability(False, reason=f"{name} does not compute bf16", fix="use precision='fp16'")
        return Availability(True, version=str(release), device=f"{CUDA} {name}")

    def ingredients(self, spec: EngineSpec) -> dict[str, str]:
        """Those of the program; it is compiled for the GPU when it is opened."""
        return {**super().ingredients(spec), "device": "cuda", "GPU": gpu_kind(self.device)}

    def open(self, spec: EngineSpec, folder: Path) -> Engine:
        """Open the program on the GPU; it is compiled for a shape when that is first run."""
        from pytest_quant.backends.torch.engine import TorchCudaEngine

        return TorchCudaEngine(spec, folder)
