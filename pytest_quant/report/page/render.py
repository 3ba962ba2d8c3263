"""A page as HTML, in one file that loads nothing else.

What stands in a page came from outside: names of tests, branches, messages, outputs of models. Jinja2 escapes every
text of it, and each is cleaned as it is for a terminal; data for charts is JSON in which no character can end a script.
What a check opens to is HTML of the same templates, deflated with that of all others, which takes a tenth of the room:
a page of hundreds of checks is small, and opens at once. The page's policy allows the scripts and styles that are in
it, by their digests, and nothing from any network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pytest_quant.files import write_whole
from pytest_quant.history.compare import Outcome
from pytest_quant.printable import clean
from pytest_quant.report import comparison
from pytest_quant.report.failure import both_figures
from pytest_quant.report.meaning import meanings
from pytest_quant.report.page.charts import interval_bar
from pytest_quant.report.text import figure, letter

UPLOT = "1.6.32"
"""Version of the chart library in the package; its files have digests in the tests."""

_STYLES = ("uplot/uPlot.min.css", "page.css")
_FIRST = "first.js"
"""Runs before anything is shown: the chosen theme."""
_SCRIPTS = ("uplot/uPlot.iife.min.js", "charts.js", "page.js")

_ESCAPES = tuple((char, f"\\u{ord(char):04x}") for char in "<>&")
"""What could end a script or begin markup. Line separators are escaped by the encoder, with all that is not ASCII."""


def write_page(page: Mapping[str, Any], file: Path) -> None:
    """Write the page that `assemble` returned to one file, in one step; its folder is made. Raises `OSError`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, one_file(page))


def one_file(page: Mapping[str, Any]) -> bytes:
    """Return the whole page as one document."""
    styles = "\n".join(map(_asset, _STYLES))
    scripts = ["\n".join(map(_asset, _SCRIPTS)), _asset(_FIRST)]
    templates = _templates()
    detail = templates.get_template("parts.html.j2").module.detail  # type: ignore[attr-defined]
    details = {f"check-{check.number}": str(detail(check)) for check in page["run"]["checks"]}
    html = templates.get_template("page.html.j2").render(
        page=page,
        policy=_policy(styles, scripts),
        styles=_trusted(styles),
        script=_trusted(scripts[0]),
        first=_trusted(scripts[1]),
        data=_trusted(in_script({"packed": _packed({**page["data"], "details": details})})),
    )
    return html.encode()


def _packed(data: Mapping[str, Any]) -> str:
    content = json.dumps(data, allow_nan=False, separators=(",", ":")).encode()
    return base64.b64encode(zlib.compress(content)).decode("ascii")


def _policy(styles: str, scripts: Iterable[str]) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_digest, scripts))}",
            f"style-src {_digest(styles)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def in_script(value: Mapping[str, Any]) -> str:
    """Return `value` as JSON that is a script's whole content, or a part of it, whatever texts are in it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for char, escaped in _ESCAPES:
        text = text.replace(char, escaped)
    return text


def _trusted(content: str) -> Markup:
    """Return content that is ours, or escaped above, as it is."""
    return Markup(content)  # nosec B704 # noqa: S704 - our own assets, and JSON without markup


@cache
def _asset(name: str) -> str:
    return files("pytest_quant.report.page").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("pytest_quant.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        both_figures=both_figures,
        figure=figure,
        interval_bar=interval_bar,
        letter=letter,
        meanings=meanings,
        uplot=UPLOT,
        words=comparison,
        unchanged=Outcome.UNCHANGED,
    )
    return environment


def _shown(value: object) -> object:
    """Return a text as every other report shows it; markup and numbers as they are."""
    return clean(value) if type(value) is str else value
