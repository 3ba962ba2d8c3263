"""Whether a model is a float one, by its operators: a reference must be, and a model given as quantized must not be."""

from __future__ import annotations

from pathlib import Path

from pytest_quant.backends import get_backend, get_exporter
from pytest_quant.errors import ModelError
from pytest_quant.result import Hint
from pytest_quant.spec import EngineSpec, Model


def refuse_quantized(spec: EngineSpec, given: Model | None = None) -> None:
    """Check that the model of a reference is a float one, by its operators, before anything is built from it.

    A runtime may fold them into its constants or run them in float, so that what it reads back does not show them.

    Parameters
    ----------
    spec : the reference; a torch module is looked at as it is, and once more when it is exported.
    given : what the candidate was given as its quantized model, if anything.

    Raises
    ------
    ModelError : some of its operators round to few levels, or multiply integers; the message names them.
    """
    if parts := describe_quantizing(spec.model):
        fix = (
            "give the float model as model=... in the mark, or by the fixture quant_model, and this one as "
            "quantized='...', a path or a fixture's name; who has no float model can judge the answers of this one, by "
            "Scores: pytest-quant guide models-and-data"
        )
        if given is not None and _find_quantizing(given) == ():
            fix = f"swap them in the mark: the float model '{given.name}' as model=..., this one as quantized=..."
        raise ModelError(
            f"the reference {spec.id} of {spec.model.name} is no FP32 model: it is quantized already",
            value=parts,
            allowed="a float32 model as the reference, which a quantized one is compared with",
            fix=fix,
        )


def describe_quantizing(model: Model) -> str:
    """Return how many parts only a quantized model has, and the first of them; empty for a float model."""
    parts = _find_quantizing(model)
    if not parts:
        return ""
    what = "part" if model.path is None else "node"
    more = f", and {len(parts) - 3} more" if len(parts) > 3 else ""
    return f"{len(parts)} {what}{'' if len(parts) == 1 else 's'} of a quantized model: {', '.join(parts[:3])}{more}"


def explain_float(spec: EngineSpec) -> Hint | None:
    """Return what the float model is that `spec` was given as a quantized one; ``None`` where it is not known as that.

    The advice is to give another file, or the precision that this one has.
    """
    given = spec.quantized
    if given is None or _find_quantizing(given) != ():
        return None
    if given.path is not None and given.path == spec.model.path:
        return Hint("quantized= is the float model itself: give the file that was made of it")
    if given.path is None or not _is_half(given.path):
        return Hint("the model given as quantized= has no node that quantizes: give the quantized one")
    takes_it = spec.scheme in get_backend(spec.backend).offer.precisions.get("fp16", ())
    paste = "precision='fp16'" if takes_it else "backend='ort', precision='fp16'"
    return Hint("the file given as quantized= is float16, and nothing in it is quantized", paste)


def _is_half(path: Path) -> bool:
    # Here, because checks of other files do without ONNX.
    from pytest_quant.backends.onnx_files import read_nodes
    from pytest_quant.backends.onnx_files.graphs import is_half

    return is_half(read_nodes(path))


def _find_quantizing(model: Model) -> tuple[str, ...] | None:
    """Return the parts that only a quantized model has; ``None`` if the model cannot be read here."""
    if model.path is None:
        if model.module is None:
            return None
        reader = get_exporter()
        return reader.quantizing_parts(model) if reader.availability().available else None
    try:
        # Here, because a third party's backend may do without the package that reads ONNX.
        from pytest_quant.backends.onnx_files import find_quantizing_nodes

        return find_quantizing_nodes(model.path)
    except (ImportError, ModelError, OSError):
        # The file is of a format of the backend's own, or is broken, which the backend says when it reads it.
        return None
