"""What the models of a check are by their files: quantized, with weights of sixteen bits, or of float32."""

from __future__ import annotations

from pytest_quant.backends import get_exporter
from pytest_quant.errors import ModelError
from pytest_quant.spec import ARRIVING, QUANTIZED_PRECISIONS, EngineSpec, Model


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
        fix = "give the float model as model=... or by quant_model, and this one as quantized='...'; who has no float "
        fix += "model can judge the answers of this one, by Scores: pytest-quant guide models-and-data"
        if given is not None and find_quantizing(given) == ():
            fix = f"swap them in the mark: the float model '{given.name}' as model=..., this one as quantized=..."
        raise ModelError(
            f"the reference {spec.id} of {spec.model.name} is no FP32 model: it is quantized already",
            value=parts,
            allowed="a float32 model as the reference, which a quantized one is compared with",
            fix=fix,
        )


def refuse_other_floats(spec: EngineSpec) -> None:
    """Check that a file which arrives in a float of sixteen bits has weights of it, and nothing that quantizes.

    A runtime may compute it in float32, so that what it reads back shows neither. Raises `ModelError`.
    """
    given = spec.quantized
    if given is None or spec.precision in QUANTIZED_PRECISIONS or not (given.path and spec.scheme in ARRIVING):
        return
    if find_quantizing(given) is not None and spec.precision not in list_halves(given):
        parts = describe_quantizing(given)
        fix = "write the precision that it is quantized to" if parts else f"give the file converted to {spec.precision}"
        raise ModelError(
            f"the file given as quantized= to {spec.id} of {spec.model.name} is no {spec.precision} model",
            value=parts or f"no weight of it is {spec.precision}",
            allowed=f"a file with weights in {spec.precision}, in which nothing is quantized",
            fix=fix,
        )


def list_halves(model: Model) -> frozenset[str]:
    """Return which of ``fp16`` and ``bf16`` weights have in an ONNX file without quantizing operators, else nothing."""
    if model.path is None or find_quantizing(model) != ():
        return frozenset()
    # Here, because a torch module needs no package that reads ONNX.
    from pytest_quant.backends.onnx_files import find_halves

    return find_halves(model.path)


def note_halves(model: Model) -> tuple[str, ...]:
    """Return a note on the weights of sixteen bits of a reference, which it computes in float32; else nothing."""
    halves = ", ".join(sorted(list_halves(model)))
    lost = "what rounding them to that lost is in no figure"
    return (f"weights of the reference are {halves} in its file: {lost}",) if halves else ()


def describe_quantizing(model: Model) -> str:
    """Return how many parts only a quantized model has, and the first of them; empty for a float model."""
    parts = find_quantizing(model)
    if not parts:
        return ""
    what = "part" if model.path is None else "node"
    more = f", and {len(parts) - 3} more" if len(parts) > 3 else ""
    return f"{len(parts)} {what}{'' if len(parts) == 1 else 's'} of a quantized model: {', '.join(parts[:3])}{more}"


def find_quantizing(model: Model) -> tuple[str, ...] | None:
    """Return the parts that only a quantized model has; ``None`` for a model that cannot be read here."""
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
