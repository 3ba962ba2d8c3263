"""What the zoo knows about one model, and the scores that a user of it would write: one number for each sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_quant import Metric

Feeds: TypeAlias = dict[str, NDArray[Any]]
"""One sample: arrays by input name, without a batch axis."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples that calibrate, others that are evaluated, and a label for each of these, or none."""

    calibration: list[Feeds]
    evaluation: list[Feeds]
    labels: list[Any] | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """A score of one output that counts right answers; `kind` names it in `scores.py` and in the independent script.

    Attributes
    ----------
    output : the output it reads.
    settings : what the kind needs, as JSON: an alphabet, a threshold.
    """

    kind: str
    output: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of a package, its data, and what is expected of it.

    Attributes
    ----------
    name : an identifier, also of the fixtures.
    package, version, file : where the model is; `file` is relative to the folder that packages lie in.
    licence : as the package tells it.
    roles : what it is in the zoo for.
    samples : makes the data; the same each time.
    score : ``None`` where no label is known by construction.
    batch_axes : the axis of the samples in inputs where that is not the first; ``None`` for an input without one.
    output_axes : the same of outputs, by the knowledge of the one who wrote this, for the independent script.
    state : outputs that are fed back over the leading axis of a sample, by the name of the input.
    derive : writes another model made from the package's; ``None`` takes that as it is.
    checks : backend, precision and scheme of each check: the cheapest that still show every kind of model.
    """

    name: str
    package: str
    version: str
    file: str
    licence: str
    roles: tuple[str, ...]
    samples: Callable[[], Samples]
    score: Score | None = None
    batch_axes: Mapping[str, int | None] = field(default_factory=dict)
    output_axes: Mapping[str, int | None] = field(default_factory=dict)
    state: Mapping[str, str] = field(default_factory=dict)
    derive: Callable[[Path, Path], None] | None = None
    checks: tuple[tuple[str, str, str], ...] = (("ort", "int8", "static"),)

    @property
    def requirement(self) -> str:
        """The package as a line for pip."""
        return f"{self.package}=={self.version}"

    def missing(self) -> bool:
        """Whether the package is not installed in this version."""
        try:
            return distribution(self.package).version != self.version
        except PackageNotFoundError:
            return True

    def path(self) -> Path:
        """Return the file of the package, which is never imported."""
        return Path(str(distribution(self.package).locate_file(self.file)))

    def write(self, folder: Path) -> Path:
        """Return the model to test: the package's own file, or the one derived from it, written to `folder`."""
        if self.derive is None:
            return self.path()
        target = folder / f"{self.name}.onnx"
        self.derive(self.path(), target)
        return target


Array: TypeAlias = NDArray[Any]


def _text(output: Array, settings: Mapping[str, Any]) -> str:
    """Greedy reading of (steps, letters): equal neighbours are one, blanks separate."""
    best = output.argmax(axis=-1)
    letters = [i for i, before in zip(best, [-1, *best[:-1]], strict=True) if i not in (before, settings["blank"])]
    return "".join(settings["alphabet"][i] for i in letters)


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
    function, better, unit, scale = _KINDS[kind]

    def score(outputs: Array, labels: Any) -> Array:
        return np.array([function(output, label, settings) for output, label in zip(outputs, labels, strict=True)])

    score.__name__ = kind
    return Metric(score, better=better, unit=unit, scale=scale)
