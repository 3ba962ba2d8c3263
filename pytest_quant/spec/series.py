"""The key of a series: all that two records share that may be compared."""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from pytest_quant.errors import HistoryError
from pytest_quant.files import parse_json

if TYPE_CHECKING:
    from pytest_quant.spec.check import Check

_KINDS = (str, str, str, str | None, str | None, int, str | None)


class SeriesKey(NamedTuple):
    """What names a series.

    Attributes
    ----------
    test : node id without what our own lists add to it, with the path of its file below the top of the checkout: two
        roots of pytest in one repository have other tests of the same names. Outside of git, below pytest's root.
    model : its name.
    backend, precision, scheme : of the candidate.
    batch_size : as the mark asks.
    metric : name of the one that was computed; that of the mark, if any, where the check never came to be.
    """

    test: str
    model: str
    backend: str
    precision: str | None
    scheme: str | None
    batch_size: int
    metric: str | None

    @classmethod
    def from_check(cls, check: Check, metric: str | None) -> SeriesKey:
        """Return the key of a check."""
        spec = check.candidate
        engine = (spec.backend, spec.precision or None, spec.scheme)
        return cls(check.series_nodeid, spec.model.name, *engine, check.batch_size, metric)

    @classmethod
    def parse(cls, text: str) -> SeriesKey:
        """Return the key that a record has as text. Raises `HistoryError` when it is none."""
        with suppress(ValueError):
            parts = parse_json(text)
            if isinstance(parts, list) and len(parts) == len(_KINDS) and all(map(isinstance, parts, _KINDS)):
                return cls(*parts)
        allowed = "a JSON list of test, model, backend, precision, scheme, batch size and metric"
        raise HistoryError("a series key cannot be read", value=text[:200], allowed=allowed)

    @property
    def text(self) -> str:
        """The key as records and tables have it: a JSON list, so that no two series share one."""
        return json.dumps(self)

    @property
    def planned(self) -> str:
        """The key as it is known before the check: without the name of the model, and without the metric."""
        return self._replace(model="", metric=None).text

    @property
    def digest(self) -> str:
        """The sha256 in hex of the text, by which tables find it."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def engine_id(self) -> str:
        """The candidate's readable name, ``ort-int8-static``."""
        return "-".join(filter(None, (self.backend, self.precision, self.scheme)))

    def __str__(self) -> str:
        """Return the readable form that commands show and search."""
        return f"{self.test} {self.model} {self.engine_id} batch {self.batch_size} {self.metric or 'no metric'}"
