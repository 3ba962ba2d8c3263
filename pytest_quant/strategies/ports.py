"""The inputs of a model as a generator sees them: element types, sizes and shared free axes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pytest_quant.backends import Engine, get_backend
from pytest_quant.backends.onnx_files import read_axis_names, read_signature, read_table_rows
from pytest_quant.errors import UsageError
from pytest_quant.spec import Model, Signature, TensorInfo

Source: TypeAlias = str | Path | Model | Signature | Engine
"""What tells the inputs: an ONNX file, a `Model`, an open engine, or a `Signature`."""

_BATCH = "batch"
"""The name that leading free axes share where the graph names none."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input.

    Attributes
    ----------
    axes : a size, or the name of a free axis, for each axis; axes of one name have one size in a run.
        ``None`` when the graph does not tell the rank.
    table_rows : rows of the embedding table that the values index; ``None`` when there is none to be found.
    """

    name: str
    dtype: str
    axes: tuple[int | str, ...] | None
    table_rows: int | None = None


@dataclass(frozen=True, slots=True)
class Ports:
    """All inputs of one model, in its order."""

    signature: Signature
    ports: tuple[Port, ...]

    @property
    def batch_axis(self) -> str | None:
        """The name of the first input's leading free axis; ``None`` when the batch size is fixed."""
        leading = [port.axes[0] for port in self.ports if port.axes]
        return next((axis for axis in leading if isinstance(axis, str)), None)

    @property
    def fixed_batch_size(self) -> int | None:
        """The leading size of the first input that has axes, where no leading axis is free."""
        leading = [port.axes[0] for port in self.ports if port.axes and isinstance(port.axes[0], int)]
        return leading[0] if leading and self.batch_axis is None else None


def read_ports(source: Source) -> Ports:
    """Return the inputs of a model; an ONNX graph also tells names of axes and sizes of embedding tables.

    Raises
    ------
    ModelError : the file is missing or broken.
    UsageError : `source` is nothing that has inputs.
    """
    if isinstance(source, Signature):
        return _ports(source, {}, {})
    model = _model(source)
    if model.path is not None:
        return _ports(read_signature(model.path), read_axis_names(model.path), read_table_rows(model.path))
    return _ports(get_backend("torch").signature(model), {}, {})


def _model(source: object) -> Model:
    if isinstance(source, (str, Path)):
        return Model.from_onnx(source)
    spec = getattr(source, "spec", None)
    model = source if spec is None else spec.model
    if not isinstance(model, Model):
        raise UsageError(
            "inputs are drawn for a model",
            value=type(source).__name__,
            allowed="the path of an ONNX file, a Model, a Signature, or an engine such as the fixture quant_engine",
        )
    return model


def _ports(signature: Signature, names: dict[str, tuple[str, ...]], rows: dict[str, int]) -> Ports:
    ports = (
        Port(tensor.name, tensor.dtype, _axes(tensor, names.get(tensor.name)), rows.get(tensor.name))
        for tensor in signature.inputs
    )
    return Ports(signature, tuple(ports))


def _axes(tensor: TensorInfo, names: tuple[str, ...] | None) -> tuple[int | str, ...] | None:
    """Free axes without a name get one of their own, but for leading ones, which count samples together."""
    if tensor.shape is None:
        return None
    known = names or ("",) * len(tensor.shape)
    return tuple(
        size if size is not None else known[axis] or (f"{tensor.name}[{axis}]" if axis else _BATCH)
        for axis, size in enumerate(tensor.shape)
    )
