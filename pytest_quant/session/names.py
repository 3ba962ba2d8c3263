"""Which input and output of the candidate stands for which of the reference."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_quant.errors import ModelError
from pytest_quant.outputs import Chunk
from pytest_quant.spec import Signature, TensorInfo


def match_names(reference: tuple[TensorInfo, ...], candidate: tuple[TensorInfo, ...], what: str) -> dict[str, str]:
    """Map the reference's names to the candidate's: by name, else by position when the counts agree.

    Raises
    ------
    ModelError : neither fits, so that something would go uncompared. `what` is ``input`` or ``output``.
    """
    ours, theirs = [tensor.name for tensor in reference], [tensor.name for tensor in candidate]
    if set(ours) == set(theirs):
        return {name: name for name in ours}
    if len(ours) == len(theirs):
        return dict(zip(ours, theirs, strict=True))
    missing = sorted(set(ours) - set(theirs))
    raise ModelError(
        f"the candidate has {len(theirs)} {what}s, the reference {len(ours)}",
        value=f"candidate: {', '.join(theirs)}; missing: {', '.join(missing) or 'none'}",
        allowed=f"the same {what} names, or as many of them: {', '.join(ours)}",
        fix=f"give the quantized model the {what}s of the float one",
    )


def renamed(chunks: Iterator[Chunk], reference: Signature, candidate: Signature) -> Iterator[Chunk]:
    """Give the candidate's outputs the reference's names; an output it did not give stays missing."""
    names = match_names(reference.outputs, candidate.outputs, "output")
    for chunk in chunks:
        outputs = {ours: chunk.outputs[theirs] for ours, theirs in names.items() if theirs in chunk.outputs}
        yield Chunk(outputs, chunk.labels, chunk.start, chunk.n)
