"""The figures of many series over time, in columns: a chart of each is drawn without an object for each point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.float64]"
Codes: TypeAlias = "NDArray[np.int32]"


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of many points, each different one once: that of point i is ``known[codes[i]]``."""

    known: tuple[str | None, ...]
    codes: Codes

    def each(self) -> list[str | None]:
        """Return the text of each point."""
        return [self.known[code] for code in self.codes.tolist()]


@dataclass(frozen=True, slots=True)
class SeriesFigures:
    """One series over time: a value of each column for each of n checks, oldest first; NaN where none was measured.

    Attributes
    ----------
    key : of the series, see `pytest_quant.record.series_key`.
    started_at : start of its run, UTC, ISO 8601.
    commit, branch : ``None`` where the run knows none.
    dirty : (n,) whether the run had uncommitted changes.
    version, identity, isa, status : see `pytest_quant.history.Point`.
    candidate, drop, drop_low, drop_high : score of the candidate, and the drop with its interval, in the unit of
        `scales`; drop > 0 is worse.
    speedup, speedup_low, speedup_high : reference / candidate, with its interval; > 1 is faster.
    candidate_p50_ms, p50_low_ms, p50_high_ms : median time of the candidate with its interval.
    scales : by version, unit and direction (``higher`` or ``lower``) of the score; ``None`` where nothing was measured.
    """

    key: str
    started_at: Texts
    commit: Texts
    branch: Texts
    dirty: NDArray[np.bool_]
    version: Texts
    identity: Texts
    isa: Texts
    status: Texts
    candidate: Floats
    drop: Floats
    drop_low: Floats
    drop_high: Floats
    speedup: Floats
    speedup_low: Floats
    speedup_high: Floats
    candidate_p50_ms: Floats
    p50_low_ms: Floats
    p50_high_ms: Floats
    scales: Mapping[str, tuple[str | None, str | None]]

    @property
    def n(self) -> int:
        """Number of checks."""
        return int(self.dirty.size)
