"""The docstrings of this project as reStructuredText.

Their sections are numpydoc's, but an entry has its description where numpydoc has the type, since types stand in the
signature: ``name : text``. So each section becomes a list of definitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

SECTIONS = ("Parameters", "Attributes", "Returns", "Raises", "Yields")

_ENTRY = re.compile(r"(?P<names>[\w*][\w*., ]*?) : (?P<text>.+)")
_CODE_OR_BAR = re.compile(r"(``.*?``)|\|")
_DETAIL = "    "


def as_rst(lines: Sequence[str]) -> list[str]:
    """Return a docstring with its sections as lists of definitions, and bars of absolute values as they are."""
    return list(_converted([_CODE_OR_BAR.sub(lambda found: found[1] or "\\|", line) for line in lines]))


def _converted(lines: list[str]) -> Iterator[str]:
    in_section = False
    for place, line in enumerate(lines):
        after = lines[place + 1] if place + 1 < len(lines) else ""
        if line in SECTIONS and after and set(after) == {"-"}:
            in_section = True
            yield from (f"**{line}**", "")
        elif in_section and line and set(line) == {"-"}:
            continue
        elif in_section and line and not line.startswith(" ") and (entry := _ENTRY.fullmatch(line)):
            names = ", ".join(f"``{name.strip()}``" for name in entry["names"].split(","))
            yield from ("", names, f"{_DETAIL}{entry['text']}")
        else:
            yield line
