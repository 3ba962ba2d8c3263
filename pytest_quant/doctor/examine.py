"""Examination of the machine: GPUs and backends, and problems that would otherwise show silently later."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import metadata, requires, version
from itertools import chain
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from pytest_quant.backends import backend_names, get_backend
from pytest_quant.backends.runtime import installed_version, memory_libraries
from pytest_quant.doctor.probe import BROKEN, OK, BackendState, probe_all
from pytest_quant.environment.gpu import cuda_gpus, find_gpus
from pytest_quant.environment.machine import fingerprint
from pytest_quant.errors import HistoryError
from pytest_quant.history.selftests import newest_selftest
from pytest_quant.printable import clean
from pytest_quant.report.selftest_page import describe_held
from pytest_quant.report.text import align

DISTRIBUTION = "pytest-quant"

ORT_WHEELS = ("onnxruntime", "onnxruntime-directml", "onnxruntime-gpu", "onnxruntime-openvino")
"""Distributions that write the same folder ``onnxruntime``."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that would otherwise show silently later, and its remedy."""

    what: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """The result of an examination; `machine` has the properties that identify it, as text by name.

    `cards` are the fields of each `Gpu`, and as ``cuda`` CUDA's name of it in this process, empty where it has none.
    `runner` says which limits on speed it holds, or how to find out; empty where no history was asked.
    """

    machine: Mapping[str, str]
    backends: tuple[BackendState, ...]
    problems: tuple[Problem, ...]
    cards: tuple[Mapping[str, object], ...] = ()
    runner: str = ""


def examine(history: str | None = None) -> Examination:
    """Probe every backend in a process of its own, and examine the machine. Never raises.

    `history` is the place of a history that may have a self-test of this machine; ``None`` asks none.
    """
    cards, card_problems = find_cards()
    machine = {
        DISTRIBUTION: version(DISTRIBUTION),
        **fingerprint().identity,
        "python": fingerprint().context["python"],
        "gpus": ", ".join(f"{card['name']} (driver {card['driver']})" for card in cards) or "none",
    }
    extras = set(metadata(DISTRIBUTION).get_all("Provides-Extra") or ()) - {"dev", "example"}
    misfits = find_misfits(requires(DISTRIBUTION) or [], extras, installed_version)
    problems = (*card_problems, *find_problems(has_gpu=bool(cards)), *misfits)
    runner = "" if history is None else runner_line(history)
    return Examination(machine, tuple(probe_all(backend_names())), problems, cards, runner)


def find_cards() -> tuple[tuple[Mapping[str, object], ...], tuple[Problem, ...]]:
    """Return the GPUs of this machine, CUDA's devices first, and why CUDA has no device."""
    cards = find_gpus()
    gpus, reason = cuda_gpus()
    if not cards and not gpus:
        return (), ()
    # Those that CUDA has neither as a whole nor in parts come last.
    whole_or_part = {gpu.card or gpu.uuid for gpu in gpus}
    listed = [(f"cuda:{place}", gpu) for place, gpu in enumerate(gpus)]
    listed += [("", gpu) for gpu in cards if gpu.uuid not in whole_or_part]
    problem = Problem(reason, "set CUDA_VISIBLE_DEVICES to the UUID of one")
    return tuple({"cuda": name, **asdict(gpu)} for name, gpu in listed), (problem,) if reason else ()


def runner_line(history: str) -> str:
    """Return when this machine last tested itself and what it holds, or how to find out; `history` is its place."""
    try:
        selftest = newest_selftest(history, fingerprint().identity, "cpu")
    except HistoryError as error:
        return f"the self-test of this machine cannot be read: {error.what}"
    return describe_held(selftest) if selftest else "no self-test of this machine yet: pytest-quant selftest --quick"


def find_misfits(
    requirements: Iterable[str], extras: Collection[str], version_of: Callable[[str], str]
) -> Iterator[Problem]:
    """Yield a problem for each installed package whose version no requirement takes.

    Parameters
    ----------
    requirements : lines of package metadata.
    extras : names of the extras that count.
    version_of : returns the installed version of a package, empty when it is not installed.
    """
    wanted: dict[str, list[SpecifierSet]] = {}
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": name}) for name in ("", *extras)):
            wanted.setdefault(requirement.name, []).append(requirement.specifier)
    for name, versions in wanted.items():
        installed, needed = version_of(name), f"{name}{versions[0]}"
        if installed and not any(each.contains(installed, prereleases=True) for each in versions):
            yield Problem(f"{name} {installed} is installed, and {needed} is needed", f'pip install "{needed}"')


def find_problems(*, has_gpu: bool) -> Iterator[Problem]:
    """Yield the problems of this machine, the gravest first; `has_gpu` says whether NVML lists an NVIDIA device."""
    ort_wheels = [name for name in ORT_WHEELS if installed_version(name)]
    if len(ort_wheels) > 1:
        # The extra installs CUDA and cuDNN too, without which the wheel for GPUs loads no provider.
        keep = '"pytest-quant[gpu]"' if "onnxruntime-gpu" in ort_wheels else ort_wheels[0]
        yield Problem(
            f"{' and '.join(ort_wheels)} are both installed and overwrite each other's files",
            f"pip uninstall -y {' '.join(ort_wheels)} && pip install {keep}",
        )
    if (has_gpu or installed_version("tensorrt")) and not memory_libraries():
        yield Problem(
            "neither cuda-bindings nor pycuda is installed, which the backend trt needs for device memory",
            "pip install cuda-bindings",
        )


def describe(examination: Examination, *, fixes: bool = False) -> str:
    """Return an examination as text: machine, backends that run, a line for each other backend, then problems.

    With `fixes`, the other backends have their remedies, but for those whose device is not in this machine.
    """
    machine, cards = _machine(examination), _cards(examination.cards)
    backends = _describe_working(examination.backends), _describe_others(examination, fixes=fixes)
    return "\n".join(chain(machine, cards, *backends, _ends(examination, fixes=fixes)))


def _machine(examination: Examination) -> Iterator[str]:
    yield f"pytest-quant {examination.machine['pytest-quant']}"
    shown = ("cpu", "isa", "cores", "gpus", "python", "os", "arch")
    rows = [(name, clean(examination.machine[name])) for name in shown]
    if examination.runner:
        rows.append(("runner", clean(examination.runner)))
    yield from (f"  {line}" for line in align(rows))


def _cards(cards: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table of the cards, if there are any."""
    if not cards:
        return []
    rows = [("device", "card", "sm", "memory", "uuid")]
    for card in cards:
        memory = "-" if card["memory_mb"] is None else f"{card['memory_mb'] / 1000:.1f} GB"
        rows.append((card["cuda"] or "hidden", clean(card["name"]), card["sm"] or "-", memory, clean(card["uuid"])))
    return ["", *align(rows)]


def _describe_working(states: Sequence[BackendState]) -> Iterator[str]:
    working = [state for state in states if state.state == OK]
    rows = [(state.name, clean(state.version), clean(state.device)) for state in working]
    head, *lines = align([("backend", "version", "device"), *rows])
    yield from ("", head)
    for state, line in zip(working, lines, strict=True):
        yield from (line, f"    offers {clean(', '.join(state.precisions))}")


def _describe_others(examination: Examination, *, fixes: bool) -> Iterator[str]:
    others = [state for state in examination.backends if state.state != OK]
    rows = [(state.name, clean(f"{'BROKEN: ' if state.state == BROKEN else ''}{state.reason}")) for state in others]
    head, *lines = align([("cannot run", "why"), *rows])
    yield from ("", head) if others else ()
    for state, line in zip(others, lines, strict=True):
        yield line
        if fixes and not examination.cards and get_backend(state.name).device.startswith("cuda"):
            yield "    fix: a machine with an NVIDIA GPU"
        elif fixes and state.fix:
            yield f"    fix: {clean(state.fix)}"


def _ends(examination: Examination, *, fixes: bool) -> Iterator[str]:
    for problem in examination.problems:
        yield ""
        yield f"! {clean(problem.what)}"
        if problem.fix:
            yield f"    fix: {clean(problem.fix)}"
    yield ""
    working = sum(state.state == OK for state in examination.backends)
    hint = "" if fixes or working == len(examination.backends) else "; what mends the others: --verbose"
    yield f"{working} of {len(examination.backends)} backends can run here{hint}"
