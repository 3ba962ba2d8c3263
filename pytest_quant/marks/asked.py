"""Everything that one mark, or several marks together, ask for, checked and typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_quant.marks.keys import mark_keys
from pytest_quant.marks.values import ModelSource
from pytest_quant.metrics import Metric
from pytest_quant.readers import read_values
from pytest_quant.spec import LIMITS, Calibration, ChannelGroup, Dataset, Limits


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


def read(values: Mapping[str, object], backends: tuple[str, ...], lists: tuple[str, ...] = ()) -> Asked:
    """Check every key of `values`, which are those of a mark; one that is ``None`` is not set.

    Parameters
    ----------
    backends : the registered names.
    lists : the keys that were written as lists.

    Raises
    ------
    UsageError : it names the key, the value and what is allowed.
    """
    found = read_values(mark_keys(backends), values)
    return Asked(
        backends=found.get("backend", ()),
        precisions=found.get("precision", ()),
        schemes=found.get("scheme", ()),
        batch_sizes=found.get("batch_size", ()),
        lists=lists,
        model=found.get("model"),
        quantized=found.get("quantized"),
        data=found.get("data"),
        reference=found.get("reference"),
        output=found.get("output"),
        channels=found.get("channels", ()),
        calibration=found.get("calibration", Calibration()),
        exclude=found.get("exclude", ()),
        options=found.get("options", ()),
        metric=found.get("metric"),
        limits=Limits(**{name: found[name] for name in LIMITS if name in found}),
    )
