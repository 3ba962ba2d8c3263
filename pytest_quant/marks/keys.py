"""The keys of ``@pytest.mark.quant(...)``: one table, and a mark read by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_quant.errors import UsageError, nearest
from pytest_quant.marks.marked import NAME
from pytest_quant.marks.values import CALIBRATION, CHANNELS, DATA, METRIC, MODEL, NODES, OPTIONS, ModelSource
from pytest_quant.metrics import Metric
from pytest_quant.readers import Key, count, each, one_of, read_values, text
from pytest_quant.spec import LIMITS, PRECISIONS, SCHEMES, Calibration, ChannelGroup, Dataset, Limits


def mark_keys(backends: tuple[str, ...] = ()) -> dict[str, Key]:
    """Return the table; `backends` are the registered names, which the values of two keys must be."""
    rows = (
        Key("backend", each(one_of(*backends)), "runtime, or a list of them (default: ort)"),
        Key("precision", each(one_of(*PRECISIONS)), "fp32, fp16, bf16, int8, int4, fp8, or a list (default: int8)"),
        Key(
            "scheme",
            each(one_of(*SCHEMES)),
            "static, dynamic, weight-only, qat, or a list (default: static); for quantized precisions only",
        ),
        Key(
            "model",
            MODEL,
            "name of a fixture, else a path beside the test file, else under the root (default: quant_model)",
        ),
        Key("quantized", MODEL, "the model already quantized, as for model; the scheme is then qat"),
        Key("data", DATA, "name of a fixture that gives a Dataset (default: quant_data)"),
        Key("reference", one_of(*backends), "backend of the reference (default: the candidate's)"),
        Key(
            "output",
            text(),
            "name of the output that the metric reads (default: the first); tensor limits are then for it alone",
        ),
        Key(
            "channels",
            CHANNELS,
            "groups of channels in an output, judged as outputs: "
            "{'output0': {'axis': 1, 'boxes': (0, 4), 'scores': (4, 84)}} gives output0.boxes and output0.scores",
        ),
        Key("batch_size", each(count()), "samples in one timed run, or a list (default: 1)"),
        Key(
            "calibration",
            CALIBRATION,
            "minmax, entropy, percentile, or a dict of method, percentile (above 50), samples, batch_size",
        ),
        Key("exclude", NODES, "names of nodes to leave in float"),
        Key("options", OPTIONS, "dict that only the backend understands"),
        Key("metric", METRIC, "top1, top5, mae, rmse, f1, cosine, or a Metric (default: top1 for class labels)"),
    )
    return {row.name: row for row in (*rows, *LIMITS.values())}


KEYS: Mapping[str, Key] = mark_keys()
"""The table as far as it does not depend on which backends are registered."""

LISTABLE = tuple(name for name, row in KEYS.items() if row.reader.listed)
"""Keys whose lists parametrize the test."""


def describe() -> str:
    """Return the text of ``pytest --markers``."""
    lines = [f"{NAME}(**keys): quantize a model, compare it with its FP32 reference, and judge every limit given."]
    return "\n".join(lines + [f"  {name}: {row.help}" for name, row in KEYS.items()])


def check_names(args: tuple[object, ...], keys: Mapping[str, object]) -> None:
    """Refuse positional arguments and unknown keys of one mark."""
    if args:
        raise UsageError(
            "@pytest.mark.quant takes keys only",
            value=", ".join(repr(arg) for arg in args),
            fix="name each, for example @pytest.mark.quant(backend='ort', max_drop=1.0)",
        )
    for name in keys:
        if name not in KEYS:
            raise UsageError(f"@pytest.mark.quant has no key '{name}'", allowed=nearest(name, KEYS))


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
