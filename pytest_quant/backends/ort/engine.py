"""One open session, and what its profile shows: which nodes ran in which precision, and how long each took."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import onnx

from pytest_quant.backends.base import Engine, Feeds, Outputs
from pytest_quant.backends.onnx_files import has_bodies, model_file, read_nodes, read_signature, size_bytes
from pytest_quant.backends.onnx_files.graphs import float_bytes
from pytest_quant.backends.onnx_files.lineage import excluded_among, trace
from pytest_quant.backends.onnx_files.normalize import normalize_model
from pytest_quant.backends.ort import CPU, parse_options
from pytest_quant.backends.ort.build import engine_file
from pytest_quant.backends.ort.macs import (
    COMPILING,
    FUSED,
    INT8_OPS,
    NARROW_OPS,
    ONNX_OPS,
    RanNode,
    kind_of,
    macs_of,
    mark_weights,
    multiplies_bytes,
    names_in_profile,
    nodes_in,
    weights_in,
)
from pytest_quant.backends.ort.recipe import Reach, note_left_nodes, notes_of, reach_of
from pytest_quant.backends.ort.session import (
    ON_CPU,
    OPTIMIZED_FILE,
    Provider,
    new_run_options,
    open_session,
    translate_errors,
)
from pytest_quant.backends.readback import FOUR_BITS, LayerTime, Role, Tallied, medians, precision_of, tally, warm_runs
from pytest_quant.files import temporary_folder
from pytest_quant.result import Coverage
from pytest_quant.spec import EngineSpec


def count_coverage(nodes: list[RanNode], precision: str, reach: Reach | None = None) -> Coverage:
    """Return the coverage of the nodes that ran.

    Parameters
    ----------
    nodes : of one run, see `nodes_in`.
    precision : the one asked for, ``fp32``, ``int8`` or ``int4``.
    reach : the products that the scheme can quantize, see `reach_of`; ``None`` for all.
    """
    counted = [
        Tallied(
            node.name.removeprefix(FUSED),
            node.op_type,
            kind_of(node, precision),
            macs_of(node),
            ONNX_OPS.get(node.op_type, ""),
            "" if reach is None else reach(node),
            holds=node.stored == precision,
            in_int8=multiplies_bytes(node),
        )
        for node in nodes
    ]
    return tally(counted, ", ".join(sorted({node.provider for node in nodes})))


_IN_FLOAT32 = "float16 ran in float32, as ONNX Runtime does on the CPU: what overflows or rounds in float16 is not seen"


def open_engine(spec: EngineSpec, folder: Path) -> OrtEngine:
    """Open the engine that `build` wrote on the CPU. Raises `BuildError` or `ModelError`."""
    options = parse_options(spec.options)
    config = {"session.x64quantprecision": "1"} if options.x64quantprecision else {}
    providers = (Provider(CPU, libraries=options.libraries, config=config),)
    return OrtEngine(spec, engine_file(spec, folder), providers, threads=options.threads, notes=notes_of(spec))


class OrtEngine(Engine):
    """A session on some providers; the first provider is judged.

    Parameters
    ----------
    path : the ONNX file to open.
    threads : of one operator; ``None`` leaves them to ONNX Runtime.
    notes : choices made for the user, one sentence each; one on the nodes that stay on the CPU is added.
    count : reads the coverage from the profile of a run over some inputs; by default each node is counted.

    Attributes
    ----------
    path : the ONNX file that is open, for whoever wants to run it without this package.
    """

    _excluded_among = excluded_among

    def __init__(
        self,
        spec: EngineSpec,
        path: Path,
        providers: Sequence[Provider] = ON_CPU,
        *,
        threads: int | None = None,
        notes: tuple[str, ...] = (),
        count: Callable[[Path, Feeds], Coverage] | None = None,
    ) -> None:
        self.spec = spec
        self.provider = providers[0].name
        self.signature = read_signature(path)
        self.size_bytes = size_bytes(path)
        # What a provider compiled runs as one node.
        self.branches = self.provider not in COMPILING and has_bodies(path)
        self.threads = threads
        self.path, self._providers, self._count = path, providers, count or self._count_nodes
        self._names = [tensor.name for tensor in self.signature.outputs]
        self._session, beside = open_session(path, providers, threads=threads)
        self._run_options = new_run_options()
        self.notes = (*notes, *note_left_nodes(spec, path), *beside)

    def _run(self, feeds: Feeds) -> Outputs:
        with translate_errors(f"a run of {self.spec.id}"):
            outputs = self._session.run(self._names, feeds, self._run_options)
        return dict(zip(self._names, outputs, strict=True))

    def _stop(self) -> bool:
        """Let ONNX Runtime end the run before its next node; the nodes of a loop count."""
        stopped, self._run_options = self._run_options, new_run_options()
        stopped.terminate = True
        return True

    def _prepare(self, feeds: Feeds) -> Callable[[], object]:
        """Return the session's own `run` over `feeds`."""
        return partial(self._session.run, None, feeds)

    def _coverage(self, feeds: Feeds) -> Coverage:
        return self._coverage_over((feeds,))

    def _coverage_over(self, batches: Sequence[Feeds]) -> Coverage:
        """Profile runs in a session of their own and count the products that ran in the asked precision, and where."""
        with temporary_folder() as folder:
            session, _ = open_session(self.path, self._providers, threads=self.threads, profile=folder)
            with translate_errors(f"a profiled run of {self.spec.id}"):
                for feeds in batches:
                    session.run(None, feeds)
            coverage = self._count(Path(session.end_profiling()), batches[0])
        note = f"read back on {len(batches)} samples or batches: the model has branches or loops, which data may decide"
        return replace(coverage, notes=(*coverage.notes, note)) if len(batches) > 1 else coverage

    def _count_nodes(self, profile: Path, _feeds: Feeds) -> Coverage:
        runs = runs_in(profile.read_text(encoding="utf-8"))
        different = {tuple((node.name, node.op_type, node.inputs, node.outputs) for node in run) for run in runs}
        counted = runs if len(different) > 1 else runs[:1]
        nodes = list(chain(*counted))
        model = optimized = read_nodes(self.path)
        if any(node.op_type in NARROW_OPS for node in nodes):
            with temporary_folder() as folder:
                open_session(self.path, self._providers, threads=self.threads, trace=folder)
                optimized = onnx.load(folder / OPTIMIZED_FILE, load_external_data=False)
        nodes = mark_weights(nodes, weights_in(optimized, nodes))
        coverage = count_coverage(nodes, self.spec.precision, reach_of(self.spec, model.graph))
        if self.spec.precision == "int8" and any(node.stored == "int4" for node in nodes):
            return replace(coverage, notes=(FOUR_BITS,))
        in_float = self.spec.precision == "fp16" and not coverage.pct
        return replace(coverage, notes=(_IN_FLOAT32,)) if in_float else coverage

    def float_bytes(self) -> Mapping[str, int]:
        """Return those of the initializers of the file that is open."""
        return float_bytes(read_nodes(self.path).graph)

    def _layer_times(self, feeds: Feeds) -> tuple[LayerTime, ...]:
        """Return the median time of each node."""
        return time_layers(self.path, self._known_model(), self._providers, feeds, threads=self.threads)

    def _known_model(self) -> Path:
        """Return the file whose nodes are the source of layers: a quantized user's file need not share a tensor."""
        return model_file(self.spec.quantized or self.spec.model)

    def _close(self) -> None:
        self._session = None


def runs_in(text: str) -> list[list[RanNode]]:
    """Return the nodes of each run in a profile, both in the order of time.

    All are one run where the profiler, which keeps a million events, has dropped its end.
    """
    rows = [row for row in json.loads(text) if row.get("dur") is not None]
    spans = sorted((row["ts"], row["ts"] + row["dur"]) for row in rows if row["name"] == "model_run")
    nodes = nodes_in(rows)
    return [[node for node in nodes if start <= node.start_us <= end] for start, end in spans] or [nodes]


def read_runs(text: str) -> list[list[RanNode]]:
    """Return the nodes of each run but for those in a body of a loop or a branch: the node around has their time."""
    return [[node for node in run if not node.within] for run in runs_in(text)]


def layers_of(runs: Sequence[Sequence[RanNode]], traced: Mapping[str, tuple[tuple[str, ...], Role]]) -> list[LayerTime]:
    """Return each node once, in the order they run, with the median over `runs` of its time in each.

    Parameters
    ----------
    runs : see `read_runs`; one at least.
    traced : nodes of the user's model and the role, by the name of an optimized node.
    """
    totals: list[Counter[str]] = []
    for run in runs:
        spent: Counter[str] = Counter()
        for node in run:
            spent[node.name] += node.spent_us
        totals.append(spent)
    firsts = {node.name: node for run in reversed(runs) for node in reversed(run)}
    layers = []
    for name, spent_us in medians(totals).items():
        nodes, role = traced.get(name, ((), "other"))
        first = firsts[name]
        layers.append(LayerTime(name, first.op_type, _precision(first), 1e-3 * spent_us, nodes, role))
    return layers


def _precision(node: RanNode) -> str:
    if node.op_type in INT8_OPS or (node.in_integers and node.stored == "int8"):
        return "int8"
    is_narrow = node.op_type in NARROW_OPS and node.stored != "int8"
    return "int4" if is_narrow else precision_of(node.inputs[0][0] if node.inputs else "")


def time_layers(
    engine: Path, model: Path, providers: Sequence[Provider], feeds: Feeds, *, threads: int | None = None
) -> tuple[LayerTime, ...]:
    """Run a model again and again in a session of its own and return the median time of each of its nodes.

    Parameters
    ----------
    engine : the ONNX file to run.
    model : the user's ONNX file, whose nodes are the source of those in `engine`.
    providers, threads : see `open_session`.
    feeds : one batch.

    Raises
    ------
    BuildError : ONNX Runtime refuses the model or a run.
    """
    with temporary_folder() as folder:
        session, _ = open_session(engine, providers, threads=threads, trace=folder)
        with translate_errors(f"a profiled run of {engine.name}"):
            count = len(warm_runs(partial(session.run, None, feeds)))
        runs = read_runs(Path(session.end_profiling()).read_text(encoding="utf-8"))[-count:]
        if not (folder / OPTIMIZED_FILE).is_file():
            return tuple(layers_of(runs, {}))
        optimized = onnx.load(folder / OPTIMIZED_FILE, load_external_data=False)
    weights = weights_in(optimized, runs[-1])
    runs = [mark_weights(run, weights) for run in runs]
    return tuple(layers_of(runs, _trace_layers(optimized.graph, runs[-1], engine, model)))


def _trace_layers(
    optimized: onnx.GraphProto, run: Sequence[RanNode], engine: Path, model: Path
) -> dict[str, tuple[tuple[str, ...], Role]]:
    opened = onnx.load(engine, load_external_data=False)
    theirs = normalize_model(onnx.load(model, load_external_data=False))
    roles: dict[str, tuple[tuple[str, ...], Role]] = {}
    # Names need not be unique; what the profiler counts as one layer stands for the nodes of all that have its name.
    for name, (nodes, role) in zip(
        names_in_profile(optimized.node, run), trace(optimized, opened.graph, theirs.graph), strict=True
    ):
        roles[name] = (tuple(dict.fromkeys((*roles.get(name, ((), role))[0], *nodes))), role)
    return roles
