"""Examination of the machine, and of problems that would otherwise show silently later; the answers as text."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pytest_quant.backends import backend_names
from pytest_quant.backends.runtime import installed_version, memory_libraries
from pytest_quant.doctor.cards import Cards, CardState, find_cards
from pytest_quant.doctor.probe import (
    DISTRIBUTION,
    OK,
    BackendState,
    Examination,
    Library,
    Problem,
    find_libraries,
    probe,
)
from pytest_quant.doctor.runner import runner_line
from pytest_quant.environment import fingerprint, has_vnni, isa_tier
from pytest_quant.printable import clean
from pytest_quant.report.text import aligned

ORT_WHEELS = ("onnxruntime", "onnxruntime-directml", "onnxruntime-gpu", "onnxruntime-openvino")
"""Distributions that write the same folder ``onnxruntime``."""

_CUDA_ROOTS = ("CUDA_ROOT", "CUDA_HOME", "CUDA_PATH")


_AT_ONCE = 4
"""Number of concurrent probes, which mostly wait for the disk; more would overload a small machine."""

_MARKS = {"ok": "ok", "missing": "missing", "broken": "BROKEN"}

_MACHINE = ("cpu", "isa", "cores", "gpus", "python", "os", "arch")


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts from which problems are derived.

    Attributes
    ----------
    ort_wheels : installed distributions that contain the module onnxruntime.
    isa, saturates : the instruction set, and whether its int8 kernels accumulate in 16 bits.
    gpus : number of NVIDIA devices.
    tensorrt : its installed version, empty when it is not installed.
    cuda_memory : ``cuda-bindings`` or ``pycuda`` where one is installed, else empty.
    nvcc, cuda_header : the compiler, and its ``cuda.h``; ``None`` where there is none.
    """

    ort_wheels: tuple[str, ...]
    isa: str
    saturates: bool
    gpus: int
    tensorrt: str
    cuda_memory: str
    nvcc: Path | None
    cuda_header: Path | None


def gather_facts(gpus: int, environ: Mapping[str, str] | None = None) -> Facts:
    """Return the facts of this machine; `gpus` is the number of NVIDIA devices that NVML lists."""
    compiler = shutil.which("nvcc")
    nvcc = None if compiler is None else Path(compiler)
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return Facts(
        ort_wheels=tuple(name for name in ORT_WHEELS if installed_version(name)),
        isa=isa_tier(),
        saturates=x86 and not has_vnni(),
        gpus=gpus,
        tensorrt=installed_version("tensorrt"),
        cuda_memory=next(iter(memory_libraries()), ""),
        nvcc=nvcc,
        cuda_header=find_cuda_header(nvcc, os.environ if environ is None else environ),
    )


def find_cuda_header(nvcc: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the ``cuda.h`` that a build of pycuda would use: of a root in `environ`, else of `nvcc`'s installation."""
    roots = [Path(environ[name]) for name in _CUDA_ROOTS if environ.get(name)]
    if nvcc is not None:
        roots.append(nvcc.resolve().parents[1])
    headers = (root / "include" / "cuda.h" for root in roots)
    return next((header for header in headers if header.is_file()), None)


def find_problems(facts: Facts) -> Iterator[Problem]:
    """Yield every problem that `facts` show, the gravest first."""
    if len(facts.ort_wheels) > 1:
        # The extra installs CUDA and cuDNN too, without which the wheel for GPUs loads no provider.
        keep = '"pytest-quant[gpu]"' if "onnxruntime-gpu" in facts.ort_wheels else facts.ort_wheels[0]
        yield Problem(
            f"{' and '.join(facts.ort_wheels)} are both installed and overwrite each other's files",
            f"pip uninstall -y {' '.join(facts.ort_wheels)} && pip install {keep}",
        )
    if (facts.gpus or facts.tensorrt) and not facts.cuda_memory:
        yield from _no_cuda_memory(facts)
    if facts.saturates:
        yield Problem(
            f"this CPU ({facts.isa}) has no VNNI: its int8 kernels saturate with 8-bit weights, so 7 bits are used "
            "here, and accuracy and speed differ from machines that have it",
            "compare records only with those of the same instruction set",
        )


def _no_cuda_memory(facts: Facts) -> Iterator[Problem]:
    """Yield a problem that names what a build of pycuda lacks; cuda-bindings needs no build."""
    missing = "nvcc is not on the PATH" if facts.nvcc is None else f"no cuda.h beside {facts.nvcc}"
    can_build = facts.nvcc is not None and facts.cuda_header is not None
    why = "neither cuda-bindings nor pycuda is installed, which the backend trt needs for device memory"
    yield Problem(why if can_build else f"{why}, and pycuda cannot be built: {missing}", "pip install cuda-bindings")


def examine(history: str | None = None) -> Examination:
    """Probe every backend in a process of its own, and examine libraries and machine. Never raises.

    `history` is the place of a history that may have a self-test of this machine; ``None`` asks none.
    """
    with ThreadPoolExecutor(_AT_ONCE) as probes:
        asked = probes.map(probe, backend_names())
        cards = find_cards()
        problems = (*_card_problems(cards), *find_problems(gather_facts(len(cards.states))))
        machine = {
            DISTRIBUTION: version(DISTRIBUTION),
            **fingerprint().identity,
            "python": fingerprint().context["python"],
            "gpus": ", ".join(f"{card.name} (driver {card.driver})" for card in cards.states) or "none",
        }
        runner = "" if history is None else runner_line(history)
        return Examination(machine, tuple(asked), find_libraries(), problems, cards.states, runner)


def _card_problems(cards: Cards) -> Iterator[Problem]:
    if cards.trouble:
        yield Problem(cards.trouble, cards.fix)


def unmet(examination: Examination, required: Sequence[str]) -> tuple[BackendState, ...]:
    """Return the `required` backends that cannot run here; the names must be registered ones."""
    return tuple(state for state in examination.backends if state.name in required and state.state != "ok")


def describe(examination: Examination) -> str:
    """Return an examination as text: machine, backends with their remedies, libraries, then problems."""
    return "\n".join(
        [
            *_machine(examination),
            *_cards(examination.cards),
            "",
            *_backends(examination.backends),
            "",
            *_libraries(examination.libraries),
            *_ends(examination),
        ]
    )


def _machine(examination: Examination) -> Iterator[str]:
    yield f"pytest-quant {examination.machine['pytest-quant']}"
    rows = [(name, clean(examination.machine[name])) for name in _MACHINE]
    if examination.runner:
        rows.append(("runner", clean(examination.runner)))
    for line in aligned(rows):
        yield f"  {line}"


def _cards(cards: Sequence[CardState]) -> list[str]:
    """Return a table of the cards, where there are any."""
    if not cards:
        return []
    rows = [("device", "card", "sm", "memory", "uuid")]
    rows += [
        (
            card.cuda or "hidden",
            clean(card.name),
            card.sm or "-",
            "-" if card.memory_mb is None else f"{card.memory_mb / 1000:.1f} GB",
            clean(card.uuid),
        )
        for card in cards
    ]
    return ["", *aligned(rows)]


def _backends(states: Sequence[BackendState]) -> Iterator[str]:
    rows = [("backend", "state", "version", "device")]
    rows += [
        (state.name, _MARKS[state.state], clean(state.version or "-"), clean(state.device or "-")) for state in states
    ]
    lines = aligned(rows)
    yield lines[0]
    for state, line in zip(states, lines[1:], strict=True):
        yield line
        if state.state == OK:
            yield f"    offers {clean(', '.join(state.precisions))}"
        if state.reason:
            yield f"    {clean(state.reason)}"
        if state.fix:
            yield f"    fix: {clean(state.fix)}"


def _libraries(libraries: Sequence[Library]) -> list[str]:
    rows = [("library", "wanted", "found", "for")]
    for library in libraries:
        verdict = clean(library.found or "not installed")
        if library.found and not library.fits:
            verdict += " (does not fit)"
        rows.append(
            (library.name, library.wanted or "any", verdict, ", ".join(library.extras) or "pytest-quant itself")
        )
    return aligned(rows)


def _ends(examination: Examination) -> Iterator[str]:
    for problem in examination.problems:
        yield ""
        yield f"! {clean(problem.what)}"
        if problem.fix:
            yield f"    fix: {clean(problem.fix)}"
    yield ""
    working = sum(state.state == OK for state in examination.backends)
    yield f"{working} of {len(examination.backends)} backends can run here"
