"""A comparison of two commits as JSON, for programs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from pytest_quant.history.compare import (
    CONFIDENCE,
    Comparison,
    Listed,
    Renamed,
    Reversioned,
    Row,
    Ruling,
    Side,
    Word,
)
from pytest_quant.record import Json
from pytest_quant.record.codec import plain
from pytest_quant.result import Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonDocument:
    """A comparison of two commits.

    Printed by pytest-quant compare --json. More fields may be added.

    Attributes
    ----------
    schema : the version of this document; a field that is added leaves it as it is.
    verdict : the result in one word, which fits the exit code under the options that were given.
    exit_code : of the command: 1 for a regression, and under --strict 3 for inconclusive and 4 without a baseline.
    alpha : probability that any row is called a change by a test where nothing changed, 0..1.
    confidence : level of each single interval, 0..1.
    family : number of rows that were tested together.
    base : what is compared with.
    head : what is compared.
    rows : one for each series and quantity, regressions first.
    added : series that only the head has.
    removed : series that only the base has.
    renamed : tests with another node id, which are compared.
    reversioned : series with another metric, or other evaluation data, whose scores are not.
    notes : what else the reader should know, one sentence each.
    """

    schema: Literal[1] = 1
    verdict: Word
    exit_code: Count
    alpha: float
    confidence: float = CONFIDENCE
    family: Count
    base: Side
    head: Side
    rows: tuple[Row, ...]
    added: tuple[Listed, ...]
    removed: tuple[Listed, ...]
    renamed: tuple[Renamed, ...]
    reversioned: tuple[Reversioned, ...]
    notes: tuple[str, ...]


def comparison_json(comparison: Comparison, ruling: Ruling) -> dict[str, Json]:
    """Return the comparison as one document of plain JSON types; ``comparison_schema.json`` describes it."""
    values: dict[str, Any] = {field.name: getattr(comparison, field.name) for field in fields(comparison)}
    document = ComparisonDocument(verdict=ruling.word, exit_code=ruling.code, **values)
    return cast(dict[str, Json], plain(document, "comparison"))
