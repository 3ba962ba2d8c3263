"""The table of figures, as it is printed and as README.md keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.detection.rates import Rate

HEAD = ("figure", "must reach", "got (95 % interval, trials)", "reached", "other tools, in the same minutes")
BEGIN, END = "<!-- figures of {family} -->\n", "<!-- end of {family} -->\n"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes
    ----------
    must : what the figure must reach, in words.
    reached : whether it does; ``None`` where there is no trial yet, or nothing it must reach.
    peers : the same of other tools; empty where they have none.
    """

    figure: str
    must: str
    got: str
    reached: bool | None
    peers: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """As text, in the order of `HEAD`."""
        return (self.figure, self.must, self.got, {True: "yes", False: "NO", None: "-"}[self.reached], self.peers)


def at_most(figure: str, rate: Rate, limit_pct: float, more: str = "", peers: str = "") -> Row:
    """Return the row of a rate that is to stay below a limit, with `more` words where there is a trial."""
    return _limited(figure, rate, f"<= {limit_pct:g} %", more, peers, reached=rate.pct <= limit_pct)


def at_least(figure: str, rate: Rate, limit_pct: float, more: str = "", peers: str = "") -> Row:
    """Return the row of a rate that is to reach a limit, with `more` words where there is a trial."""
    return _limited(figure, rate, f">= {limit_pct:g} %", more, peers, reached=rate.pct >= limit_pct)


def _limited(figure: str, rate: Rate, must: str, more: str, peers: str, *, reached: bool) -> Row:
    return Row(figure, must, f"{rate}{more}", reached, peers) if rate.n else Row(figure, must, str(rate), None, peers)


def markdown(rows: Sequence[Row]) -> str:
    """Return rows as a table in Markdown."""
    lines = [HEAD, ("---",) * len(HEAD), *(row.cells for row in rows)]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n" for cells in lines)


def renew(readme: Path, family: str, origin: str, rows: Sequence[Row]) -> None:
    """Put the rows of a family into README.md in place of the old ones, at its end where it has none.

    Parameters
    ----------
    readme : of the benchmarks.
    family : whose rows they are.
    origin : machine, date and command, one line.
    rows : of that family.
    """
    begin, end = BEGIN.format(family=family), END.format(family=family)
    text = readme.read_text("utf-8")
    section = f"{begin}{origin}\n\n{markdown(rows)}{end}"
    if begin in text:
        before, _, rest = text.partition(begin)
        text = before + section + rest.partition(end)[2]
    else:
        text = f"{text.rstrip()}\n\n## {family}\n\n{section}"
    readme.write_text(text, "utf-8")
