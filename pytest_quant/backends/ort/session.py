"""A session of ONNX Runtime on the provider that was asked for, proven, and the reasons for which it is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from pytest_quant.backends.ort import CPU
from pytest_quant.backends.ort.macs import COMPILING, PRODUCT_OPS
from pytest_quant.backends.runtime import replace_errors, wrap_error
from pytest_quant.errors import BuildError, QuantError

_PREFIX = re.compile(r"\[ONNXRuntimeError\] : \d+ : (?P<kind>\w+) : ")

_OWN = "options={'libraries': ['/path/libops.so']} names the library of an operator of your own; else export it again"
_NEXT = {
    "no associated shape profiles": "TensorRT takes only a part of this graph, and tensors between the parts have free "
    "axes: use backend='trt', which takes it whole or says what it cannot, or export the model with fixed axes",
    "Failed to load library": "ldd shows what that library of the option 'libraries' misses on this machine",
    "RegisterCustomOps": "that library of the option 'libraries' has no operators for ONNX Runtime: leave it out",
    "is not a registered function/op": _OWN,
    "No Op registered for": _OWN,
    " NOT_IMPLEMENTED :": "export the model with operators and types that the CPU has, as module.float() does; where "
    "the float model runs, leave that node in float with exclude=[...]",
    " INVALID_GRAPH :": "export it again with opset 17 or later; onnx.checker.check_model(path, True) may say more",
    " INVALID_PROTOBUF :": "write or download the model file again",
    " FAIL :": "export the model again",
}
"""What to do about a refusal, by words in it."""

_ELSE = (
    "see whether the float model runs alone over such a sample, and whether that is what it takes: "
    "onnxruntime.InferenceSession('model.onnx').run(None, {'input': sample[None]})"
)


def ort_error(doing: str, error: Exception, fix: str | None = None) -> QuantError:
    """Return the error to raise in place of an error of ONNX Runtime.

    Parameters
    ----------
    doing : the step, in words that complete the sentence "ONNX Runtime refused ...".
    error : the exception that was raised.
    fix : what the user can do; ``None`` chooses by what ONNX Runtime said.

    Returns
    -------
    A `BuildError`.
    """
    text = str(error)
    matched = _PREFIX.search(text)
    kind = matched["kind"] if matched else type(error).__name__
    cause = text[matched.end() if matched else 0 :].strip() or type(error).__name__
    return wrap_error(
        f"ONNX Runtime refused {doing}",
        error,
        value=f"{kind}: {cause}",
        fix=fix or next((step for words, step in _NEXT.items() if words in text), _ELSE),
    )


def translate_errors(doing: str, fix: str | None = None) -> AbstractContextManager[None]:
    """Turn whatever is raised in the block, except our own errors, into an `ort_error`; parameters as there."""
    return replace_errors(lambda error: ort_error(doing, error, fix))


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of ONNX Runtime, as a session is asked for it.

    Attributes
    ----------
    options : its settings, name and value as ONNX Runtime documents them.
    devices : of a provider that is a plugin, the devices by which a session asks for it; empty for any other.
    libraries : files with operators of the user's own.
    config : entries of a session's configuration, as ONNX Runtime documents them.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[Any, ...] = ()
    libraries: tuple[str, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)


ON_CPU = (Provider(CPU),)
OPTIMIZED_FILE = "optimized.onnx"


def open_session(
    path: Path,
    providers: Sequence[Provider] = ON_CPU,
    *,
    threads: int | None = None,
    profile: Path | None = None,
    trace: Path | None = None,
    simulates: bool = False,
) -> tuple[Any, tuple[str, ...]]:
    """Open the model in `path` and prove that it runs on `providers`.

    Parameters
    ----------
    providers : the first is the one that is judged; the others may run what it does not take.
    threads : of one operator, which never spin; ``None`` leaves them to ONNX Runtime.
    profile : a folder; the session then writes what it runs into a file there, with the shapes of all operands.
    trace : a folder; the session then writes what it runs into a file there, with the kernels and layouts of a session
        that is timed, and its optimized graph as `OPTIMIZED_FILE`, unless a provider compiles a part of it.
    simulates : keep Q/DQ pairs as they are and run every product in float.

    Returns
    -------
    The session, and sentences on the nodes that run elsewhere than on the first provider, see `prove_placement`.

    Raises
    ------
    BuildError : ONNX Runtime refuses the model, falls back, or puts a product on a provider that was not asked for.
    """
    settings = _settings(threads, profile or trace, simulates=simulates)
    if trace is not None and COMPILING.isdisjoint(provider.name for provider in providers):
        settings.optimized_model_filepath = str(trace / OPTIMIZED_FILE)
        # Weights go beside the graph: together they may be more than one file can hold.
        settings.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights.bin")
    for name, value in providers[0].config.items():
        settings.add_session_config_entry(name, value)
    layouts: list[str] = []
    # A session that runs once keeps nothing; an arena would hold up to twice what its largest tensors take.
    settings.enable_cpu_mem_arena = profile is None
    if profile is not None and providers[0].name == CPU:
        # Packed weights leave the graph, and their shapes with them. The choice of kernels does not depend on it, but
        # for MatMulNBits, whose attributes tell what it multiplies where weights are packed.
        settings.add_session_config_entry("session.disable_prepacking", "1")
        # Float convolutions and poolings in blocks of the vector width pad their channels, and the padding would be
        # counted as compute. Integer nodes are none of that layout's: what runs in which precision stays.
        layouts = ["NchwcTransformer"]
    named: list[tuple[str, dict[str, str]]] | None = [(provider.name, dict(provider.options)) for provider in providers]
    with translate_errors(f"the model {path.name}"):
        _load(settings, providers[0].libraries)
        for plugin in (provider for provider in providers if provider.devices):
            settings.add_provider_for_devices(list(plugin.devices), dict(plugin.options))
            named = None
        session = onnxruntime.InferenceSession(
            str(path), settings, providers=named, disabled_optimizers=layouts, enable_fallback=0
        )
        parts = session.get_provider_graph_assignment_info()
    names, registered = [each.name for each in providers], session.get_providers()
    if registered[0] != names[0]:
        raise BuildError(
            f"{path.name} does not run on the device that was asked for",
            value=f"asked for {names[0]}, got {', '.join(registered)}",
            fix=_REINSTALL if names[0] == CPU else "pytest-quant doctor names the library that does not load",
        )
    return session, prove_placement(parts, names, path.name)


def _settings(threads: int | None, profile: Path | None, *, simulates: bool) -> Any:
    settings = onnxruntime.SessionOptions()
    # Fatal ones: errors are raised, and native text would stand between the lines of a test run.
    settings.log_severity_level = 4
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if threads is not None:
        settings.intra_op_num_threads = threads
        settings.inter_op_num_threads = 1
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if profile is not None:
        settings.enable_profiling = True
        settings.profile_file_prefix = str(profile / "run")
    if simulates:
        settings.add_session_config_entry("session.disable_quant_qdq", "1")
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return settings


def open_seen(model: onnx.ModelProto, names: Iterable[str], path: Path, **how: Any) -> Any:
    """Write `model` to `path` with these tensors among its outputs, and open that; `how` as `open_session`."""
    own = [each.name for each in model.graph.output]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in own)
    onnx.save_model(model, path, save_as_external_data=model.ByteSize() > 2**30, location=f"{path.stem}.data")
    del model.graph.output[len(own) :]
    return open_session(path, **how)[0]


def _load(settings: Any, libraries: Sequence[str]) -> Any:
    for library in libraries:
        settings.register_custom_ops_library(library)
    return settings


@contextmanager
def tools_with(libraries: Sequence[str]) -> Iterator[None]:
    """Let sessions that ONNX Runtime's own tools open in the block, which take no settings, load `libraries`."""
    plain = onnxruntime.SessionOptions
    onnxruntime.SessionOptions = lambda: _load(plain(), libraries)
    try:
        yield
    finally:
        onnxruntime.SessionOptions = plain


def new_run_options() -> Any:
    """Return the options of runs; setting `terminate` on them ends those under way."""
    return onnxruntime.RunOptions()


_REINSTALL = "reinstall onnxruntime: pip install --force-reinstall onnxruntime"


def prove_placement(parts: Sequence[Any], names: Sequence[str], name: str) -> tuple[str, ...]:
    """Refuse nodes outside the providers `names`, and a model of which the first provider runs no node.

    Nodes without products may run on the CPU too.

    Parameters
    ----------
    parts : what each provider runs, ``get_provider_graph_assignment_info()``.
    names : names of providers; the first is the one that is judged.
    name : the model's, for errors.

    Returns
    -------
    One sentence for each provider that runs nodes and is not the one that is judged, with their names or operators.

    Raises
    ------
    BuildError : names the nodes.
    """
    judged, *others = names
    placed = [(part.ep_name, node, f"{node.name} ({node.op_type})") for part in parts for node in part.get_nodes()]
    strays = [(where, node.op_type, called) for where, node, called in placed if where not in names]
    lost = [f"{called} on {where}" for where, kind, called in strays if where != CPU or kind in PRODUCT_OPS]
    if lost:
        elsewhere = "leave these nodes out of the quantization with exclude=[...], or use a provider that has them"
        raise BuildError(
            f"a part of {name} does not run on the device that was asked for",
            value=_first(lost, "; "),
            allowed=", ".join(names),
            fix=_REINSTALL if judged == CPU else elsewhere,
        )
    if parts and all(part.ep_name != judged for part in parts):
        raise BuildError(
            f"nothing of {name} runs on {judged}",
            value=_first([f"{called} on {where}" for where, _, called in placed], "; "),
            fix="use a backend that has these operators: backend='ort' has them on the CPU",
        )
    placed.sort(key=lambda each: each[1].op_type not in PRODUCT_OPS)
    notes = [
        f"{len(left)} nodes run on {other}, which {judged} left: {_first(left, ', ')}"
        for other in others
        if (left := [called for where, _, called in placed if where == other])
    ]
    if strays:
        kinds = sorted({kind for _, kind, _ in strays})
        notes.append(f"{len(strays)} nodes without products run on {CPU}: {', '.join(kinds[:_SHOWN])}")
    return tuple(notes)


_SHOWN = 6


def _first(words: Sequence[str], between: str) -> str:
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return between.join(words[:_SHOWN]) + more
