"""Keys of a mark about scores: limits that fit its metric, and what stands beside scores that were given."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_quant.errors import UsageError, nearest
from pytest_quant.marks.keys import SCORE_LIMITS, MetricSource
from pytest_quant.metrics import metric_by_name
from pytest_quant.readers import NUMBER, refuse_share
from pytest_quant.spec import OWN_SCORES, PARTS


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
        if any(isinstance(each, str) for each in (value.values() if isinstance(value, dict) else [value])):
            what = f"{name} is in the unit of {scored.name}{f', {scored.unit}' if scored.unit else ''}"
            raise UsageError(what, value=repr(value), allowed="a number", fix=f"write {name}=0.1")
