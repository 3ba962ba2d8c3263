"""Sphinx builds the guides and the API without a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documentation.__main__ import API, build
from tests.documentation.docstrings import as_rst
from tests.support.documents import guides


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built from what is here now."""
    folder = tmp_path_factory.mktemp("documentation") / "pages"
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_guide_and_every_part_of_the_api_is_a_page(pages: Path) -> None:
    """And each is in the contents of the first page, with its pictures."""
    first = (pages / "index.html").read_text("utf-8")
    for name in (*(guide.file.stem for guide in guides()), *API):
        assert (pages / f"{name}.html").is_file()
        assert f"{name}.html" in first
    assert sorted(path.name for path in (pages / "_images").glob("*.svg")) == ["failure.svg", "table.svg"]


def test_public_names_have_their_docstrings(pages: Path) -> None:
    """With parameters as a list, and the source of a formula where it has one."""
    of_tests = (pages / "api-tests.html").read_text("utf-8")
    for name in ("Dataset", "Model", "Calibration", "Metric", "Measurement", "QuantError", "check"):
        assert f".{name}" in of_tests
    assert "Lan and DeMets 1983" in (pages / "api-statistics.html").read_text("utf-8")
    assert "----------" not in of_tests


def test_sections_of_a_docstring_become_definitions() -> None:
    """The description stands where numpydoc has the type."""
    given = [
        "What it does.",
        "",
        "Parameters",
        "----------",
        "one, two : both of them,",
        "    on two lines.",
        "rest : more.",
    ]
    assert as_rst(given) == [
        *("What it does.", "", "**Parameters**", ""),
        *("", "``one``, ``two``", "    both of them,", "    on two lines."),
        *("", "``rest``", "    more."),
    ]
