"""Settings of Sphinx for the pages of the guides and the API."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.documentation.docstrings import as_rst

project = "pytest-quant"
version = release = version_of("pytest-quant")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"pytest-quant {version}"
myst_heading_anchors = 4
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!pytest_quant\.).*"),
    ("py:.*", r"pytest_quant\.(testing\.conformance|strategies\.ports|data)\..*"),
    ("py:.*", r"pytest_quant\.(backends\.layers\.Told|record\.record\.T)"),
]
"""Names in signatures that have no page: types of others, parts of the conformance suite, and what only we call."""


def _convert(_app: Any, _what: str, _name: str, _obj: object, _options: Any, lines: list[str]) -> None:
    lines[:] = as_rst(lines)


def setup(app: Any) -> None:
    """Read docstrings as this project writes them."""
    app.connect("autodoc-process-docstring", _convert)
