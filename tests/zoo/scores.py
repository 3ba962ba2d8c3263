"""Scores that a user of the zoo's models would write: one number for each sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pytest_quant import Metric

Array = NDArray[Any]


def _text(output: Array, settings: Mapping[str, Any]) -> str:
    """Greedy reading of (steps, letters): equal neighbours are one, blanks separate."""
    best = output.argmax(axis=-1)
    kept = [i for i, before in zip(best, [-1, *best[:-1]], strict=True) if i not in (before, settings["blank"])]
    return "".join(settings["alphabet"][i] for i in kept)


def _reads(output: Array, label: Any, settings: Mapping[str, Any]) -> float:
    return float(_text(output, settings) == label)


def _hears(output: Array, label: Any, settings: Mapping[str, Any]) -> float:
    return float(np.mean((output.reshape(len(label), -1)[:, 0] > settings["threshold"]) == (np.asarray(label) > 0)))


def _finds_key(output: Array, label: Any, settings: Mapping[str, Any]) -> float:
    return float(int(output.mean(axis=0).argmax()) == int(label))


def _pitch_error(output: Array, label: Any, settings: Mapping[str, Any]) -> float:
    return abs(float(np.median(output)) - float(label))


_KINDS: dict[str, tuple[Callable[[Array, Any, Mapping[str, Any]], float], Literal["higher", "lower"], str, float]] = {
    "text": (_reads, "higher", "%", 100),
    "voice": (_hears, "higher", "%", 100),
    "key": (_finds_key, "higher", "%", 100),
    "pitch": (_pitch_error, "lower", "Hz", 1),
}


def metric_of(kind: str, settings: Mapping[str, Any]) -> Metric | str:
    """Return what a mark takes as ``metric=``."""
    if kind == "top1":
        return kind
    one, better, unit, scale = _KINDS[kind]

    def score(outputs: Array, labels: Any) -> Array:
        return np.array([one(output, label, settings) for output, label in zip(outputs, labels, strict=True)])

    score.__name__ = kind
    return Metric(score, better=better, unit=unit, scale=scale)
