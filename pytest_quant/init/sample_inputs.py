"""Random numbers in the shapes of a model's inputs, as lines of Python for a placeholder."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_quant.spec import TensorInfo

SAMPLES = 32
CALIBRATION = 16
_FREE = 16
_PICTURE = 224
"""Height and width of pictures of any size."""

_BYTE = 256
_MASK = "mask"


def input_line(tensor: TensorInfo, rows: Mapping[str, int]) -> str:
    """Return an expression of numpy that makes `SAMPLES` samples of an input, with the name ``rng`` for its generator.

    Parameters
    ----------
    tensor : the input, whose first axis counts the samples.
    rows : see `Subject.rows`: whole numbers are drawn below them.
    """
    shape, kind = _written(_shape(tensor)), tensor.dtype
    if kind == "float32":
        return f"rng.random({shape}, dtype=np.float32)"
    if kind.startswith(("float", "bfloat")):
        return f'rng.random({shape}).astype("{kind}")'
    if kind == "bool":
        return f"rng.random({shape}) < 0.5"
    if not kind.startswith(("int", "uint")):
        return f'np.full({shape}, "text", dtype=object)'
    if _MASK in tensor.name.lower():
        return f"np.ones({shape}, dtype=np.{kind})"
    most = rows.get(tensor.name, _BYTE if kind == "uint8" else 2)
    return f"rng.integers(0, {most}, {shape}, dtype=np.{kind})"


def _shape(tensor: TensorInfo) -> tuple[int, ...]:
    if tensor.shape is None:
        return (SAMPLES, _FREE)
    if not tensor.shape:
        return ()
    is_picture = len(tensor.shape) == 4 and tensor.shape[2] is None and tensor.shape[3] is None
    free = _PICTURE if is_picture else _FREE
    return (SAMPLES, *(free if size is None else size for size in tensor.shape[1:]))


def _written(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def described(tensor: TensorInfo) -> str:
    """Return name, type and shape of an input or output, ``image float32 (n, 1, 8, 8)``."""
    if tensor.shape is None:
        return f"{tensor.name} {tensor.dtype}, of any shape"
    sizes = ["?" if size is None else str(size) for size in tensor.shape]
    if sizes and tensor.shape[0] is None:
        sizes[0] = "n"
    return f"{tensor.name} {tensor.dtype} ({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def is_scores(tensor: TensorInfo) -> bool:
    """Whether the tensor has the form of class scores, floats (n, classes), for which top1 is the default metric."""
    shape = tensor.shape
    return tensor.dtype.startswith("float") and shape is not None and len(shape) == 2 and (shape[1] or 0) > 1
