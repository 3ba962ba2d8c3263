"""The inputs of a model for the generation of values: element types, sizes and shared free axes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pytest_quant.backends import Engine, get_exporter
from pytest_quant.backends.onnx_files import read_signature, read_table_rows
from pytest_quant.data import Layout, find_layout
from pytest_quant.errors import UsageError
from pytest_quant.spec import Model, Signature, TensorInfo

Source: TypeAlias = str | Path | Model | Signature | Engine
"""A source of the inputs: an ONNX file, a `Model`, an open engine, or a `Signature`."""

_BATCH = "batch"
"""The common name of leading free axes without a name in the graph."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input.

    Attributes
    ----------
    axes : a size, or the name of a free axis, for each axis; axes of one name have the same size in a run.
        ``None`` when the rank is unknown.
    table_rows : number of rows of the embedding table that the values index; ``None`` where none is detected.
    """

    name: str
    dtype: str
    axes: tuple[int | str, ...] | None
    table_rows: int | None = None


@dataclass(frozen=True, slots=True)
class Ports:
    """All inputs of one model, in its order, and their batch axes."""

    signature: Signature
    ports: tuple[Port, ...]
    layout: Layout
    model: Model | None

    @property
    def batch_axes(self) -> frozenset[str]:
        """Names of the free batch axes; empty when the batch size is fixed."""
        axes_of_inputs = ((port.axes, self.layout.axes[port.name]) for port in self.ports)
        sizes = (axes[axis] for axes, axis in axes_of_inputs if axes is not None and axis is not None)
        return frozenset(size for size in sizes if isinstance(size, str))


def read_ports(source: Source) -> Ports:
    """Return the inputs of a model; sizes of embedding tables are read from an ONNX file only.

    Raises
    ------
    ModelError : the file is missing or broken.
    DataError : the ``batch_axes`` of the `Model` do not fit it.
    UsageError : `source` is none of the allowed types.
    """
    if isinstance(source, Signature):
        return _ports(source, {}, None)
    model = _model(source)
    if model.path is not None:
        return _ports(read_signature(model.path), read_table_rows(model.path), model)
    return _ports(get_exporter().signature(model), {}, model)


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


def _ports(signature: Signature, rows: dict[str, int], model: Model | None) -> Ports:
    ports = tuple(Port(tensor.name, tensor.dtype, _axes(tensor), rows.get(tensor.name)) for tensor in signature.inputs)
    ranks = {port.name: 1 if port.axes is None else len(port.axes) for port in ports}
    asked = {} if model is None else {name: axis for name, axis in model.batch_axes if name in ranks}
    return Ports(signature, ports, find_layout(signature, asked, ranks, where="the model"), model)


def _axes(tensor: TensorInfo) -> tuple[int | str, ...] | None:
    """Return sizes and names of axes; unnamed free axes get unique names, except leading ones, which share one."""
    if tensor.shape is None:
        return None
    names = tensor.symbols or ("",) * len(tensor.shape)
    return tuple(
        size if size is not None else names[axis] or (f"{tensor.name}[{axis}]" if axis else _BATCH)
        for axis, size in enumerate(tensor.shape)
    )
