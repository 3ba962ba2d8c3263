"""Sums of u8 x s8 products that 16 bits do not hold, and processes with the kernels of a processor that adds so.

The instruction ``vpmaddubsw`` of AVX2 multiplies bytes and adds two neighbouring products in 16 bits, where the sum
saturates. Kernels for VNNI, AMX and ARM, and those for two unsigned operands, add in 32 bits.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_quant.backends.feeds import Feeds, Outputs
from pytest_quant.environment.machine import ONEDNN_LIMIT, has_vnni, is_x86, isa_tier, onednn_tier
from pytest_quant.spec import EngineSpec

MOST = 2**15 - 1
"""The largest sum that 16 bits hold."""

_LARGEST_U8 = 255


class Exposed(NamedTuple):
    """A product whose sums of two may pass `MOST`.

    Attributes
    ----------
    name : of the node.
    largest : magnitude of the largest sum of two products, infinity if its weights are not known.
    """

    name: str
    largest: float


def largest_pair(weights: NDArray[Any]) -> int:
    """Return the largest magnitude of a sum of two products of u8 values with weights of one output.

    Which two are neighbours is a matter of the kernel's packing, so any two of one sign count.

    Parameters
    ----------
    weights : integers (k, n), the k that are added up for each of n outputs.
    """
    if not weights.size:
        return 0
    most = 2 * _LARGEST_U8 * max(int(weights.max()), -int(weights.min()))
    if most <= MOST:
        return most
    # Two passes of a maximum are much faster than sorting.
    sums = []
    for signed in (weights.astype(np.int16), -weights.astype(np.int16)):
        first = signed.argmax(0)[None]
        largest = np.take_along_axis(signed, first, 0)
        np.put_along_axis(signed, first, 0, 0)
        sums.append(int((largest.clip(0) + signed.max(0).clip(0)).max()))
    return _LARGEST_U8 * max(sums)


@dataclass(frozen=True, slots=True)
class OlderCpu:
    """How a process runs the kernels that a backend has for x86 processors with AVX2 and without VNNI.

    Attributes
    ----------
    name : of that processor, for the reader.
    is_here : this process runs them already.
    launcher : command before that of the interpreter.
    environment : variables that such a process needs beside those of this one.
    missing : why there is no such process here, and what brings it; empty if there is.
    """

    name: str
    is_here: bool
    launcher: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""

    def run(self, spec: EngineSpec, folder: Path, batches: Sequence[Feeds], limit_s: float) -> list[Outputs]:
        """Return the outputs of an engine in `folder` over `batches`, under the engine's names.

        Raises
        ------
        ChildError : the process cannot run it, or not in `limit_s` seconds.
        """
        # Here, because few checks run elsewhere.
        from pytest_quant.backends.child_process import call_in_child

        environment = {**os.environ, **self.environment}
        call = partial(call_in_child, limit_s=limit_s, environment=environment, launcher=self.launcher)
        return call(_run_engine, spec, folder, batches)[0]


def _run_engine(spec: EngineSpec, folder: Path, batches: Sequence[Feeds]) -> list[Outputs]:
    # Here, because this module belongs to the package that it imports.
    from pytest_quant.backends import get_backend

    features: Mapping[str, bool] = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined] # noqa: SLF001 - its only home
    if not features["AVX2"]:
        raise RuntimeError("this processor has no AVX2: an emulator before QEMU 7.2 lacks it")
    with get_backend(spec.backend).open(spec, folder) as engine:
        return [engine.run(feeds) for feeds in batches]


def limited_onednn() -> OlderCpu:
    """Return the kernels that oneDNN has for AVX2, which a variable chooses at full speed."""
    missing = "" if is_x86() else "oneDNN has no kernels of x86 on this processor"
    is_here = not missing and not has_vnni(onednn_tier())
    return OlderCpu("oneDNN limited to AVX2", is_here, environment={ONEDNN_LIMIT: "AVX2"}, missing=missing)


def emulated_haswell() -> OlderCpu:
    """Return a Haswell emulated by QEMU in user mode: real kernels of a library that asks the processor itself."""
    found = shutil.which("qemu-x86_64")
    absent = "" if found else "qemu-x86_64 is not installed: apt-get install qemu-user"
    missing = absent if is_x86() else "this processor is no x86, whose packages an emulator needs"
    is_here = not has_vnni(isa_tier())
    return OlderCpu("Haswell, emulated by QEMU", is_here, (found or "", "-cpu", "Haswell"), missing=missing)
