"""The keys of ``@pytest.mark.quant(...)``: one table, the kinds of values in it, and a mark read by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from pytest_quant.backends import get_backend
from pytest_quant.errors import UsageError, nearest
from pytest_quant.marks import NAME
from pytest_quant.metrics import Metric, metric_by_name
from pytest_quant.metrics.metric import OF_ERRORS, is_of_errors
from pytest_quant.readers import (
    NUMBER,
    Key,
    Reader,
    choice_of,
    count,
    each,
    keys_of,
    make_reader,
    option,
    read_values,
    refuse_share,
)
from pytest_quant.spec import (
    LIMITS,
    OWN_SCORES,
    PARTS,
    PRECISIONS,
    PROCESSORS,
    REFERENCE_PRECISIONS,
    SCHEMES,
    Calibration,
    ChannelGroup,
    Dataset,
    Limits,
    Model,
    Scores,
    limits_on,
)

ModelSource = str | Path | Model
"""A fixture's name or a path in words, a path, or a model itself."""


_CALIBRATION = keys_of(Calibration)


_EXAMPLE = "{'output0': {'axis': 1, 'boxes': (0, 4), 'scores': (4, 84)}}"


def _model(value: object) -> ModelSource | None:
    if isinstance(value, PathLike):
        return Path(value)
    return value if isinstance(value, Model) or (isinstance(value, str) and value.strip()) else None


MODEL = make_reader(
    "the name of a fixture, a path or a Model", _model, "'models/resnet18.onnx', or 'resnet18' for a fixture"
)


def _fixture_or(kind: type, what: str, name: str, call: str) -> Reader[Any]:
    def form(value: object) -> Any:
        return value if isinstance(value, kind) or (isinstance(value, str) and value.isidentifier()) else None

    example = f"'{name}' for a fixture that returns pytest_quant.{call}"
    return make_reader(f"the name of a fixture or {what}", form, example)


DATA = _fixture_or(Dataset, "a Dataset", "my_data", "Dataset.from_arrays(inputs, labels)")
SCORES = _fixture_or(Scores, "Scores", "gsm8k", "Scores.from_lm_eval('runs/fp16', 'runs/int4')")

SCORE_LIMITS = limits_on("score", "reference")


def _output(value: object) -> tuple[str, ...] | None:
    names = value if isinstance(value, (list, tuple)) else [value]
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        return None
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"output names '{twice[0]}' twice", value=repr(value), fix="name each output once")
    return tuple(names)


OUTPUT = make_reader("a name or a list of names", _output, "'scores'")


def _nodes(value: object) -> tuple[str, ...] | None:
    names = [value] if isinstance(value, str) else value
    if isinstance(names, (list, tuple, set, frozenset)) and all(isinstance(name, str) and name for name in names):
        return tuple(sorted(str(name) for name in names))
    return None


NODES = make_reader("a list of node names", _nodes, "['/head/MatMul']")


def _options(value: object) -> tuple[tuple[str, object], ...] | None:
    return tuple(sorted(value.items())) if isinstance(value, dict) and all(map(_is_name, value)) else None


OPTIONS = make_reader("a dict by option name", _options, "{'threads': 1}")


def _calibration(value: object) -> Calibration | None:
    if isinstance(value, Calibration):
        value = asdict(value)
    if isinstance(value, str):
        value = {"method": value}
    if not isinstance(value, dict):
        return None
    for name in value:
        if name not in _CALIBRATION:
            raise UsageError(f"calibration has no key {name!r}", allowed=nearest(str(name), _CALIBRATION))
    written = ((name, given) for name, given in value.items() if given is not None)
    return Calibration(
        **{name: _CALIBRATION[name].reader.read(f"calibration {name}", given) for name, given in written}
    )


CALIBRATION = make_reader(
    f"a method ({_CALIBRATION['method'].reader.allowed}) or a dict of {', '.join(_CALIBRATION)}",
    _calibration,
    "{'method': 'percentile', 'percentile': 99.99, 'samples': 200}",
)


def _channels(value: object) -> tuple[ChannelGroup, ...] | None:
    """The model says which outputs there are and how many channels they have."""
    if not isinstance(value, dict) or not value:
        return None
    return tuple(group for output, groups in value.items() for group in _read_groups(output, groups))


CHANNELS = make_reader("a dict by output", _channels, _EXAMPLE)


def _read_groups(output: object, groups: object) -> Iterator[ChannelGroup]:
    ranges = dict(groups) if isinstance(groups, dict) else {}
    axis = ranges.pop("axis", 1)
    is_axis = isinstance(axis, int) and not isinstance(axis, bool) and axis != 0
    if not (_is_name(output) and is_axis and ranges and all(map(_is_name, ranges))):
        raise UsageError(
            f"channels[{output!r}] must be an output's name with a range for each group, by its name",
            value=repr(groups),
            allowed="beside them an axis: 1 is the first axis after the samples, -1 the last",
            fix=f"write channels={_EXAMPLE}",
        )
    for name, channels in ranges.items():
        yield ChannelGroup(str(output), name, axis, *_RANGE.read(f"channels[{output!r}][{name!r}]", channels))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _range(value: object) -> tuple[int, int | None] | None:
    first, end = value if isinstance(value, (tuple, list)) and len(value) == 2 else (-1, None)
    is_range = _is_count(first) and (end is None or (_is_count(end) and end > first))
    return (first, end) if is_range else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_RANGE = make_reader(
    "a range of channels, (first, end): the first from 0, and the channel after the last, or None for the rest", _range
)


MetricSource = str | Metric | dict[str, str | Metric]


def _known(look_up: Callable[[str], object], value: object) -> str | None:
    """Return a name; an unknown one is a `UsageError` of `look_up` that names the nearest."""
    return value if isinstance(value, str) and look_up(value) else None


def _metric(_: str, value: object) -> str | Metric | None:
    return value if isinstance(value, Metric) else _known(metric_by_name, value)


def _metrics(name: str, value: object) -> MetricSource | None:
    if isinstance(value, dict) and value and all(map(_is_name, value)):
        return {output: _SINGLE.read(f"{name}[{output!r}]", metric) for output, metric in value.items()}
    return _metric(name, value)


def _metric_error(name: str, value: object) -> UsageError:
    of_errors = callable(value) and is_of_errors(value)
    form = OF_ERRORS if of_errors else "Metric(fn, better='higher', unit='%', scale=100)"
    return UsageError(f"{name} must be {_METRICS}", value=repr(value), fix=f"write {name}=pytest_quant.{form}")


_METRICS = "a name or a Metric, because the direction of a bare callable cannot be guessed"
_SINGLE: Reader[str | Metric] = Reader(_METRICS, _metric, _metric_error)
METRIC = Reader(f"{_METRICS}; or a dict of these by output", _metrics, _metric_error)


BACKEND = make_reader("the name of a backend", partial(_known, get_backend), "'ort'")


@dataclass(frozen=True, slots=True)
class MarkKeys:
    """The keys of a mark, checked one by one: each field is a row of the table; limits have their rows in `Limits`.

    `lists` names the keys that were written as lists and so parametrize the test.
    """

    backend: tuple[str, ...] = option((), each(BACKEND), "runtime, or a list of them (default: ort)")
    precision: tuple[str, ...] = option(
        (), each(choice_of(*PRECISIONS)), "fp32, fp16, bf16, int8, int4, fp8, or a list (default: int8)"
    )
    scheme: tuple[str, ...] = option(
        (),
        each(choice_of(*SCHEMES, others={"ptq": "static", "post-training": "static"})),
        "static, dynamic, weight-only, given, qat, or a list (default: static, with quantized given); not for float",
    )
    model: ModelSource | None = option(
        None, MODEL, "name of a fixture, else a path next to the test file, else under the root (default: quant_model)"
    )
    quantized: ModelSource | None = option(
        None, MODEL, "the model already quantized, as for model; the scheme is then given, or qat if you say so"
    )
    data: str | Dataset | None = option(None, DATA, "name of a fixture that gives a Dataset (default: quant_data)")
    scores: str | Scores | None = option(
        None,
        SCORES,
        "name of a fixture that gives Scores of samples that ran elsewhere, in place of engines and data; with it only "
        f"{', '.join(SCORE_LIMITS)}",
    )
    reference: str | None = option(None, BACKEND, "backend of the reference (default: the candidate's)")
    reference_precision: str = option(
        "fp32",
        choice_of(*REFERENCE_PRECISIONS),
        "what latency is compared with: fp32, tf32, fp16, bf16 (default: fp32, exact; accuracy is always compared "
        "with that)",
    )
    output: tuple[str, ...] = option(
        (),
        OUTPUT,
        "name of the output that the metric reads, or a list of them for a metric that gets a dict by name (default: "
        "the first); tensor limits that name none are for these alone",
    )
    channels: tuple[ChannelGroup, ...] = option(
        (),
        CHANNELS,
        "groups of channels in an output, judged as outputs: "
        "{'output0': {'axis': 1, 'boxes': (0, 4), 'scores': (4, 84)}} gives output0.boxes and output0.scores",
    )
    batch_size: tuple[int, ...] = option((1,), each(count()), "samples in one timed run, or a list (default: 1)")
    eval_batch_size: int | None = option(
        None, count(), "samples in one run of the evaluation (default: up to 32, by the bytes of a sample and the set)"
    )
    latency_sample: int | None = option(
        None, count(0), "index of the timed sample (default: the sample of median size)"
    )
    calibration: Calibration = option(
        Calibration(),
        CALIBRATION,
        "minmax, entropy, percentile, or a dict of method, percentile (above 50), samples, batch_size",
    )
    cpus: str = option(
        "",
        choice_of(*PROCESSORS),
        "processors that the verdict must hold on: any; avx2, x86 without VNNI; vnni. The engine is built for the "
        "oldest of them (default: this one)",
    )
    exclude: tuple[str, ...] = option((), NODES, "names of nodes to leave in float")
    options: tuple[tuple[str, object], ...] = option((), OPTIONS, "dict that only the backend understands")
    metric: MetricSource | None = option(
        None,
        METRIC,
        "top1, top5, f1, mae, rmse, cosine, exact_match, wer, cer, perplexity, map, map50, match@0.5, miou, recall@10, "
        "or a Metric (default: top1 for class labels); or a dict of these by output, whose labels are a dict too",
    )
    limits: Limits = field(default_factory=Limits)
    lists: tuple[str, ...] = ()


KEYS: Mapping[str, Key] = {**keys_of(MarkKeys), **LIMITS}

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


def read(values: Mapping[str, object], lists: tuple[str, ...] = ()) -> MarkKeys:
    """Check every key of a mark in `values`; a key that is ``None`` is not set.

    Parameters
    ----------
    lists : the keys that were written as lists.

    Raises
    ------
    UsageError : it names the key, the value and what is allowed.
    """
    checked = read_values(KEYS, values)
    limits = Limits(**{name: checked.pop(name) for name in LIMITS if name in checked})
    return MarkKeys(**checked, limits=limits, lists=lists)


def check_alone(values: Mapping[str, object]) -> None:
    """Refuse what says something about engines beside `scores`, which are all that is known of theirs.

    Raises
    ------
    UsageError : it names the key.
    """
    if values.get("scores") is None:
        return
    drop = values.get("max_drop")
    if isinstance(drop, dict) and drop.keys() - {PARTS[0]}:
        what = "scores were given, which have no labels, groups or outputs"
        raise UsageError(what, value=f"max_drop={drop!r}", fix="write max_drop=1.0")
    for name in values:
        if name != "scores" and name not in SCORE_LIMITS and values[name] is not None:
            raise UsageError(
                f"scores were given in place of engines, of which '{name}' says something",
                value=f"{name}={values[name]!r}",
                allowed=", ".join(SCORE_LIMITS),
                fix=f"leave {name} out, or write a second test for it with a model and a backend",
            )


def check_scores(values: Mapping[str, object], metric: MetricSource | None) -> None:
    """Refuse percentages for a metric in another unit, and a least score written as a share for a metric in percent.

    Parameters
    ----------
    values : of the mark's keys, as they were written.
    metric : the mark's.

    Raises
    ------
    UsageError : it says what to write.
    """
    heads = metric if isinstance(metric, dict) else {}
    for name in SCORE_LIMITS:
        value = values.get(name)
        own: set[str] = {*value} - {*PARTS} if isinstance(value, dict) else set()
        if heads and value is not None and not (isinstance(value, dict) and own == {*value}):
            what = f"{name} is on the score of one metric, and each output has its own"
            fix = f"write max_drop={{{', '.join(f'{output!r}: 1.0' for output in heads)}}}"
            raise UsageError(what, value=f"{name}={value!r}", fix=fix)
        for output in own - {*heads}:
            raise UsageError(
                f"{name} limits an output '{output}', which has no metric of its own",
                allowed=nearest(output, [*PARTS, *heads]),
                fix=f"name one: metric={{{output!r}: 'mae'}}",
            )
    if isinstance(metric, dict):
        return
    scored = metric_by_name(metric) if isinstance(metric, str) else metric
    if scored is None or scored.unit == "%":
        for name in OWN_SCORES:
            value = values.get(name)
            # Half a percent of errors is a limit like any other.
            if value is not None and not isinstance(value, str) and (scored is None or scored.better == "higher"):
                refuse_share(name, value, NUMBER.read(name, value))
        return
    # Limits in the metric's unit, which only some metrics have in percent.
    for name in ("max_drop", *OWN_SCORES, "max_drop_increase"):
        value = values.get(name)
        if any(isinstance(given, str) for given in (value.values() if isinstance(value, dict) else [value])):
            what = f"{name} is in the unit of {scored.name}{f', {scored.unit}' if scored.unit else ''}"
            raise UsageError(what, value=repr(value), allowed="a number", fix=f"write {name}=0.1")
