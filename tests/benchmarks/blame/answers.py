"""What the search answers to a case, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import numpy as np
import onnxruntime

from pytest_quant.backends import get_backend
from pytest_quant.backends.switchable import SwitchableGraph
from pytest_quant.data.scan import split_indices
from pytest_quant.diagnose.ladder import Ladder
from pytest_quant.files import temporary_folder
from pytest_quant.result.cause import Cause
from tests.benchmarks.blame.cases import Case, batches, run_all
from tests.benchmarks.blame.networks import count, take

MOST_SAMPLES = 64
"""What a question is asked on at most."""


def blame(case: Case) -> tuple[Cause | None, float]:
    """Return the cause that the search names for a case, ``None`` where it has no answer, and its seconds.

    Engine and reference have run by then, as they have in a check.
    """
    halves = split_indices(count(case.evaluation), MOST_SAMPLES)
    compared, others = (batches(take(case.evaluation, np.array(chosen)), case.batch) for chosen in halves)
    session = onnxruntime.InferenceSession(str(case.float_model), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    reference = [dict(zip(names, session.run(names, feeds), strict=True)) for feeds in compared]
    with temporary_folder() as work, case.open() as engine:
        ran = [engine.run(feeds) for feeds in compared]
        began = time.perf_counter()
        graph = get_backend(case.backend).switches(case.spec, case.folder, work)
        if graph is None:
            return None, time.perf_counter() - began
        with graph:
            given = batches(case.calibration, case.batch)
            ladder = Ladder(graph, compared, others, given, [case.output], reference, ran, lambda _: None)
            found = ladder.climb()
            nodes = dict.fromkeys(name for place in found.sites for name in graph.sites[place].nodes)
    seconds = time.perf_counter() - began
    cause = Cause(found.stage, tuple(nodes), None, found.text, "", found.steps, found.range_rows, found.site_rows)
    return cause, seconds


@dataclass(slots=True)
class Runs:
    """Samples that went through graphs with switches."""

    samples: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and its cost.

    Attributes
    ----------
    runs : of the graph, over min(64, n) samples each.
    seconds : of the search.
    evaluation_s : one evaluation of the engine on all samples takes.
    """

    cause: Cause | None
    runs: float
    seconds: float
    evaluation_s: float = field(default=0.0)


def answer(case: Case) -> Answer:
    """Ask, and count runs and seconds."""
    with case.open() as engine:
        began = time.perf_counter()
        run_all(engine, case.evaluation, case.batch)
        evaluation_s = time.perf_counter() - began
    with _counted(case.backend) as runs:
        cause, seconds = blame(case)
    return Answer(cause, runs.samples / min(MOST_SAMPLES, count(case.evaluation)), seconds, evaluation_s)


@contextmanager
def _counted(backend: str) -> Iterator[Runs]:
    """Count what goes through any graph with switches of a backend."""
    runs = Runs()
    room = f"pytest_quant.backends.{backend}.switchable_graph"
    if find_spec(room) is not None:
        import_module(room)
    with ExitStack() as stack:
        for kind in SwitchableGraph.__subclasses__():
            for name in ("run", "find_ranges", "values"):
                stack.enter_context(patch.object(kind, name, _counting(getattr(kind, name), runs)))
        yield runs


def _counting(method: Callable[..., Any], runs: Runs) -> Callable[..., Any]:
    def counted(graph: SwitchableGraph, feeds: Any, *args: Any, **more: Any) -> Any:
        runs.samples += max(len(array) for array in feeds.values() if array.ndim)
        return method(graph, feeds, *args, **more)

    return counted
