"""The proof that a reference is a float model: by its operators before anything is built, and by what it runs."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.backends import Feeds, get_exporter
from pytest_quant.errors import ModelError
from pytest_quant.measure.engines import Side, Tools
from pytest_quant.spec import EngineSpec

_ALL_PCT = 100.0
_NAMED = 3


def refuse_quantized(spec: EngineSpec) -> None:
    """Check that the model of a reference is a float one, by its operators, before anything is built from it.

    A runtime may fold them into its constants or run them in float, so that what it reads back does not show them.

    Parameters
    ----------
    spec : the reference; a torch module is looked at as it is, and once more when it is exported.

    Raises
    ------
    ModelError : some of its operators round to few levels, or multiply integers; the message names them.
    """
    parts = _quantizing(spec)
    if not parts:
        return
    what = "part" if spec.model.path is None else "node"
    more = f", and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    raise ModelError(
        f"the reference {spec.id} of {spec.model.name} is no FP32 model: it is quantized already",
        value=f"{len(parts)} {what}{'' if len(parts) == 1 else 's'} of a quantized model: "
        f"{', '.join(parts[:_NAMED])}{more}",
        allowed="a float32 model as the reference, which a quantized one is compared with",
        fix="give the float model as quant_model, and this one as quantized='...', a path or a fixture's name",
    )


def _quantizing(spec: EngineSpec) -> tuple[str, ...]:
    if spec.model.path is None:
        if spec.model.module is None:
            return ()
        reader = get_exporter()
        return reader.quantizing_parts(spec.model) if reader.availability().available else ()
    try:
        # Here, because a third party's backend may do without the package that reads ONNX.
        from pytest_quant.backends.onnx_files import quantizing_nodes

        return quantizing_nodes(spec.model.path)
    except (ImportError, ModelError, OSError):
        # The file is of a format of the backend's own, or is broken, which the backend says when it reads it.
        return ()


def prove_float(side: Side, feeds: Feeds, tools: Tools) -> str:
    """Check that the reference runs float32 kernels only, once for each engine.

    Returns what is not proven because it cannot be seen into, for the reader; empty where everything can.

    Parameters
    ----------
    side : the open reference.
    feeds : one batch under the engine's names.
    tools : the cache that remembers the proof, and the messages to the user.

    Raises
    ------
    ModelError : some of it was seen to run in another precision; what cannot be seen into proves nothing.
    """
    spec = side.spec

    def read_back(_: Path) -> dict[str, str]:
        with tools.step(f"reading back what {spec.id} of {spec.model.name} runs"):
            ran = side.engine.coverage(feeds)
        if ran.most_pct is not None and ran.most_pct < _ALL_PCT:
            others = ", ".join(ran.float_nodes) or "all"
            raise ModelError(
                f"the reference {spec.id} of {spec.model.name} does not compute in FP32: its file is quantized or half",
                value="; ".join((f"{ran.pct:.4g} % of {ran.unit} ran in float32, not {others}", *ran.notes)),
                allowed="a float32 model as the reference",
                fix="give the float32 model as the model; the quantized one goes to quantized='model_int8.onnx'",
            )
        share = "" if ran.pct is None else f", {_ALL_PCT - ran.pct:.4g} % of {ran.unit},"
        nodes = f"{ran.opaque_nodes} nodes{share} of the reference {spec.id} cannot be seen into"
        unseen = f"{nodes}: that they run in float32 is not proven" if ran.opaque_nodes else ""
        return {"provider": ran.provider, "unseen": unseen}

    what = f"float kernels of {spec.id} of {spec.model.name}"
    entry = tools.cache.obtain("proof", what, side.backend.ingredients(spec), read_back)
    return str(entry.facts.get("unseen", ""))
