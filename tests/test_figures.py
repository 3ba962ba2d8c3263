"""The pictures of the guides show what a run prints, and can be read on a light and on a dark page."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_quant.report.columns import COLUMNS
from tests.figures import FIGURES, FORMAT, IMAGES, THEME, draw, printed, section_of
from tests.support.documents import README
from tests.support.guide_project import write_project

LEAST_CONTRAST = 4.5
"""Of text, by the Web Content Accessibility Guidelines 2.2, success criterion 1.4.3, level AA."""

NAMES = [figure.name for figure in FIGURES]


def lines_of(svg: str) -> list[str]:
    """Return the lines of text in a picture, from top to bottom."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):  # noqa: S314 - files of this repository
        if "clip-path" in node.attrib:
            rows.setdefault(float(node.attrib["y"]), []).append((float(node.attrib["x"]), node.text or ""))
    texts = ["".join(text for _, text in sorted(rows[y])) for y in sorted(rows)]
    return [text.replace("\N{NO-BREAK SPACE}", " ") for text in texts]


def luminance(color: str) -> float:
    """Return the relative luminance of ``#rrggbb``, by the definition of those guidelines."""
    channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", NAMES)
def test_every_text_can_be_read_on_its_own_background(name: str) -> None:
    """The picture brings its background, so that the page's does not matter; nothing is fetched for it."""
    svg = (IMAGES / f"{name}.svg").read_text("utf-8")
    fills = set(re.findall(r"fill: (#[0-9a-f]{6})", svg))
    assert fills
    assert {color for color in fills if contrast(color, THEME.background_color.hex) < LEAST_CONTRAST} == set()
    assert f'fill="{THEME.background_color.hex}"' in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_every_colour_of_a_terminal_can_be_read() -> None:
    """Also those that today's pictures do not use."""
    colors = [THEME.foreground_color, *(THEME.ansi_colors[number] for number in range(16))]
    hexes = ["#" + "".join(f"{channel:02x}" for channel in color) for color in colors]
    assert [one for one in hexes if contrast(one, THEME.background_color.hex) < LEAST_CONTRAST] == []


def test_the_table_has_columns_that_are_printed() -> None:
    """Every head is one of the report's, with its unit; the metric's head is its name."""
    head = next(line for line in lines_of((IMAGES / "table.svg").read_text("utf-8")) if line.startswith("test "))
    words = [word.split()[0] for word in re.split(r"  +", head)]
    assert set(words) - {"top1"} <= {column.head for column in COLUMNS}
    assert words[-1] == "status"


def test_a_run_is_drawn_as_the_pictures_are(tmp_path: Path) -> None:
    """The same command on the tests of README.md gives a table and a failure with the words that begin their lines."""
    write_project(tmp_path, README)
    broken = (tmp_path / "test_onnx.py").read_text("utf-8").replace("max_drop=1.0, min_speedup=0.5", "max_abs_error=0")
    (tmp_path / "test_onnx.py").write_text(broken, "utf-8")
    quick = ("test_onnx.py", "--quant-no-latency", "--quant-diagnose-time=0")
    output = printed(tmp_path, quick)
    for section, name in ((" quant ", "table"), (" test_int8 ", "failure")):
        drawn = lines_of(draw(section_of(output, section), "a run", name))
        kept = lines_of((IMAGES / f"{name}.svg").read_text("utf-8"))
        first = {line.split()[0] for line in kept if line.strip()}
        assert first & {line.split()[0] for line in drawn if line.strip()}, output
    assert FORMAT.count("{matrix}") == 1
