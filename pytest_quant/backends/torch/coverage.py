"""The kernels that really ran, as PyTorch's profiler saw them, and their precision."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_quant.backends.coverage import Kind, Tallied, tally
from pytest_quant.backends.torch.export import quiet
from pytest_quant.result import Coverage

_INT8_PREFIXES = ("onednn::qconv", "onednn::qlinear", "quantized::conv", "quantized::linear")
_INT8 = frozenset({"aten::_int_mm", "onednn::qbatch_matmul"})
_FLOAT = frozenset(
    {
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::addbmm",
        "aten::addmm",
        "aten::baddbmm",
        "aten::bmm",
        "aten::conv1d",
        "aten::conv2d",
        "aten::conv3d",
        "aten::conv_transpose2d",
        "aten::convolution",
        "aten::gru",
        "aten::linear",
        "aten::lstm",
        "aten::matmul",
        "aten::mkldnn_rnn_layer",
        "aten::mm",
        "aten::scaled_dot_product_attention",
        "mkl::_mkl_linear",
        "mkldnn::_convolution_pointwise",
        "mkldnn::_convolution_pointwise_",
        "mkldnn::_convolution_transpose_pointwise",
        "mkldnn::_linear_pointwise",
    }
)
_CONVERSIONS = ("quantized_decomposed::",)
_DTYPES = {"fp32": ("float",), "bf16": ("c10::BFloat16", "bfloat16"), "fp16": ("c10::Half", "half")}
"""The profiler's words for the type of a product's first operand."""


_LINEAR = frozenset({"aten::addmm", "aten::linear", "aten::mm", "mkl::_mkl_linear", "mkldnn::_linear_pointwise"})
"""Products with weights of a linear layer, the only ones that dynamic quantization takes."""


def measure_coverage(
    call: Callable[[], object], precision: str, provider: str, *, takes_linear_only: bool = False
) -> Coverage:
    """Profile one run of `call` and return the share of products that ran in `precision`, by count.

    Parameters
    ----------
    call : one run of the engine.
    precision : the one asked for, ``fp32``, ``bf16``, ``fp16`` or ``int8``.
    provider : where it runs, for the report.
    takes_linear_only : whether the scheme quantizes no products but those of linear layers.
    """
    from torch.profiler import ProfilerActivity, profile

    with _native_stderr_closed(), quiet(), profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        call()
    events: list[Any] = list(found.events() or [])
    outermost = (event for event in events if not _is_inside(event))
    return tally([_tallied(one, precision, takes_linear_only=takes_linear_only) for one in outermost], provider)


def beyond_linear(name: str) -> str:
    """Return the kernel's name if it is no product of a linear layer, else an empty text."""
    return "" if name in _LINEAR or name in _INT8 or name.startswith(_INT8_PREFIXES) else name


def kind_of(name: str, dtype: str, precision: str) -> Kind:
    """Return how a kernel counts in the coverage of an engine.

    Parameters
    ----------
    name : of the kernel, as the profiler spells it, ``aten::addmm`` for example.
    dtype : type of its first operand as the profiler spells it, ``float`` or ``c10::BFloat16``; empty without one.
    precision : the one asked for, ``fp32``, ``bf16``, ``fp16`` or ``int8``.
    """
    if name in _INT8 or name.startswith(_INT8_PREFIXES):
        return Kind.ASKED if precision == "int8" else Kind.OTHER
    if name in _FLOAT:
        return Kind.ASKED if dtype in _DTYPES.get(precision, ()) else Kind.OTHER
    return Kind.CONVERSION if name.startswith(_CONVERSIONS) else Kind.BESIDE


def is_compute(name: str) -> bool:
    """Tell whether a kernel multiplies and accumulates."""
    return name in _FLOAT or name in _INT8 or name.startswith(_INT8_PREFIXES)


def _is_inside(event: Any) -> bool:
    """One product shows up once for each layer of functions that it passes through; the outermost counts."""
    parent = event.cpu_parent
    while parent is not None:
        if is_compute(parent.name):
            return True
        parent = parent.cpu_parent
    return False


def _tallied(event: Any, precision: str, *, takes_linear_only: bool) -> Tallied:
    dtypes = list(event.input_dtypes or [])
    kind = kind_of(event.name, str(dtypes[0]) if dtypes else "", precision)
    shapes = [str(shape) for shape in (event.input_shapes or [])[:2]]
    beyond = beyond_linear(event.name) if takes_linear_only else ""
    return Tallied(f"{event.name}({', '.join(shapes)})", event.name, kind, beyond=beyond)


@contextmanager
def _native_stderr_closed() -> Iterator[None]:
    """The profiler writes two lines to the process's own standard error, past everything in Python."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, not a path of ours
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
