"""The pictures of README.md and the guides, out of real runs of the example: ``python -m tests.figures --write``.

Each is a part of what pytest printed, drawn by rich as an SVG with a background of its own, so that it can be read on a
light and on a dark page, and without a font from elsewhere.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.support.documents import GUIDES
from tests.support.example import copy_example, environment

IMAGES = GUIDES / "images"
WIDTH = 100
"""Characters of the terminal: more would be too small to read on a page."""

THEME = TerminalTheme(
    (24, 26, 31),
    (222, 224, 228),
    [
        *((140, 146, 158), (255, 123, 114), (126, 211, 133), (240, 200, 90)),
        *((121, 184, 255), (214, 160, 255), (118, 209, 214), (222, 224, 228)),
    ],
    [
        *((154, 160, 172), (255, 138, 130), (143, 224, 150), (250, 215, 110)),
        *((140, 196, 255), (224, 178, 255), (140, 222, 226), (255, 255, 255)),
    ],
)
"""Background, text and the colours of a terminal, each of them readable on that background."""

FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" role="img" xmlns="http://www.w3.org/2000/svg">
    <!-- Made by tests.figures out of a real run -->
    <style>
    .{unique_id}-matrix {{
        font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
        font-size: {char_height}px;
        line-height: {line_height}px;
    }}
    .{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
    {styles}
    </style>
    <defs>
    <clipPath id="{unique_id}-clip-terminal">
      <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
    </clipPath>
    {lines}
    </defs>
    {chrome}
    <g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
    {backgrounds}
    <g class="{unique_id}-matrix">
    {matrix}
    </g>
    </g>
</svg>
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One picture.

    Attributes
    ----------
    name : of the file, without its ending.
    title : above the text.
    arguments : of the run of pytest.
    section : words of the line of pytest behind which the text begins; it ends before the next such line.
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    section: str


FIGURES = (
    # Without --runxfail the two that must be caught are expected to be, and no row is red.
    Figure("table", "python -m pytest --runxfail", ("--runxfail",), " quant "),
    Figure(
        "failure",
        "pytest test_magika.py::test_static_everything --runxfail --quant-no-latency --quant-diagnose-time=180",
        # Three minutes are enough to try everything; signs of noise would be those of the machine that draws.
        ("test_magika.py::test_static_everything", "--runxfail", "--quant-no-latency", "--quant-diagnose-time=180"),
        " test_static_everything ",
    ),
)


def printed(project: Path, arguments: Sequence[str]) -> str:
    """Return what pytest prints into a terminal of `WIDTH` characters, with its colours."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=yes", *arguments]
    variables = environment() | {"COLUMNS": str(WIDTH)}
    return subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, check=False).stdout


def section_of(output: str, words: str) -> str:
    """Return the lines between the rule with these words and the next rule. Raises `LookupError` without one."""
    lines = output.splitlines()
    plain = [Text.from_ansi(line).plain for line in lines]
    rules = [place for place, line in enumerate(plain) if line[:2] in ("==", "__", "--") and line[:2] == line[-2:]]
    begin = next((place for place in rules if words in plain[place]), None)
    if begin is None:
        raise LookupError(f"pytest printed no section {words!r}:\n{output}")
    end = next((place for place in rules if place > begin and plain[place].strip("-")), len(lines))
    return "\n".join(lines[begin + 1 : end]).strip("\n")


def draw(text: str, title: str, name: str) -> str:
    """Return text with styles of a terminal as an SVG; `name` is a part of its identifiers."""
    shown = Text.from_ansi(text)
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True, color_system="standard")
    # As in a terminal a line that is too long goes on in the next; the picture would cut it.
    console.print(shown, overflow="fold", highlight=False)
    return console.export_svg(title=title, theme=THEME, code_format=FORMAT, unique_id=name)


def main() -> None:
    """Run the example and write each picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the pictures into the guides; else print the texts")
    write = parser.parse_args().write
    with tempfile.TemporaryDirectory() as folder:
        project = copy_example(Path(folder))
        for figure in FIGURES:
            text = section_of(printed(project, figure.arguments), figure.section)
            if write:
                (IMAGES / f"{figure.name}.svg").write_text(draw(text, figure.title, figure.name), "utf-8")
            sys.stdout.write(f"{Text.from_ansi(text).plain}\n\n")


if __name__ == "__main__":
    main()
