"""Everything that one mark, or several marks together, ask for, checked and typed."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from pytest_quant.errors import UsageError
from pytest_quant.marks.values import (
    Values,
    choice,
    choices,
    counts,
    read_calibration,
    read_channels,
    read_limits,
    read_metric,
    text,
)
from pytest_quant.metrics import Metric
from pytest_quant.spec import PRECISIONS, SCHEMES, Calibration, ChannelGroup, Dataset, Limits, Model


def series_nodeid(nodeid: str, variant_id: str | None) -> str:
    """Remove `variant_id` from the brackets of `nodeid`, and the brackets when nothing else is in them.

    ``test_a.py::test_a[cpu-ort-int8-static]`` with ``ort-int8-static`` becomes ``test_a.py::test_a[cpu]``.
    """
    if not variant_id or not nodeid.endswith("]"):
        return nodeid
    if nodeid.endswith(f"[{variant_id}]"):
        return nodeid.removesuffix(f"[{variant_id}]")
    if nodeid.endswith(f"-{variant_id}]"):
        return nodeid.removesuffix(f"-{variant_id}]") + "]"
    head, _, parameters = nodeid.partition("[")
    return f"{head}[{parameters.removeprefix(f'{variant_id}-')}"


ModelSource = str | Path | Model
"""A fixture's name or a path in words, a path, or a model itself."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A mark with its keys checked one by one; an unset list key is empty, any other is ``None``.

    `lists` names the keys that were written as lists and so parametrize the test.
    """

    backends: tuple[str, ...]
    precisions: tuple[str, ...]
    schemes: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    lists: tuple[str, ...]
    model: ModelSource | None
    quantized: ModelSource | None
    data: str | Dataset | None
    reference: str | None
    output: str | None
    channels: tuple[ChannelGroup, ...]
    calibration: Calibration
    exclude: tuple[str, ...]
    options: tuple[tuple[str, object], ...]
    metric: str | Metric | None
    limits: Limits


def read(values: Values, backends: tuple[str, ...], lists: tuple[str, ...] = ()) -> Asked:
    """Check every key of `values`; `backends` are the registered names.

    Raises
    ------
    UsageError : it names the key, the value and what is allowed.
    """
    reference = values.get("reference")
    return Asked(
        backends=choices(values, "backend", backends),
        precisions=choices(values, "precision", PRECISIONS),
        schemes=choices(values, "scheme", SCHEMES),
        batch_sizes=counts(values, "batch_size"),
        lists=lists,
        model=_model(values, "model"),
        quantized=_model(values, "quantized"),
        data=_data(values),
        reference=None if reference is None else choice("reference", reference, backends),
        output=text(values, "output"),
        channels=read_channels(values.get("channels")),
        calibration=read_calibration(values.get("calibration")),
        exclude=_exclude(values),
        options=_options(values),
        metric=read_metric(values.get("metric")),
        limits=read_limits(values),
    )


def _model(values: Values, key: str) -> ModelSource | None:
    value = values.get(key)
    if value is None or isinstance(value, Model):
        return value
    if isinstance(value, PathLike):
        return Path(value)
    if isinstance(value, str) and value.strip():
        return value
    raise UsageError(
        f"{key} must be the name of a fixture, a path or a Model",
        value=repr(value),
        fix=f"write {key}='resnet18' for a fixture, or {key}='models/resnet18.onnx'",
    )


def _data(values: Values) -> str | Dataset | None:
    value = values.get("data")
    if value is None or isinstance(value, Dataset) or (isinstance(value, str) and value.isidentifier()):
        return value
    raise UsageError(
        "data must be the name of a fixture or a Dataset",
        value=repr(value),
        fix="write data='my_data' for a fixture that returns pytest_quant.Dataset.from_arrays(inputs, labels)",
    )


def _exclude(values: Values) -> tuple[str, ...]:
    value = values.get("exclude")
    if value is None:
        return ()
    names = [value] if isinstance(value, str) else value
    if isinstance(names, (list, tuple, set, frozenset)) and all(isinstance(name, str) and name for name in names):
        return tuple(sorted(str(name) for name in names))
    raise UsageError("exclude must be a list of node names", value=repr(value), fix="write exclude=['/head/MatMul']")


def _options(values: Values) -> tuple[tuple[str, object], ...]:
    value = values.get("options")
    if value is None:
        return ()
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return tuple(sorted(value.items()))
    raise UsageError("options must be a dict by option name", value=repr(value), fix="write options={'threads': 1}")
