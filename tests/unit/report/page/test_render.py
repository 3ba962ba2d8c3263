"""How a page is written: in one file, without a network, and with nothing that another text could end."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_quant.report.page.assemble import assemble
from pytest_quant.report.page.render import UPLOT, in_script, one_file, write_page
from tests.support.pages import HOSTILE, data_of, opened, sources

_ASSETS = files("pytest_quant.report.page").joinpath("assets")
_RELEASED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""Files of https://registry.npmjs.org/uplot/-/uplot-1.6.32.tgz with their SHA-256."""


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """A page with everything."""
    return assemble(sources())


def _policy(html: str) -> dict[str, list[str]]:
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert found is not None
    directives = found[1].replace("&#39;", "'").split("; ")
    return {words.split()[0]: words.split()[1:] for words in directives}


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def test_the_policy_allows_what_is_in_the_page_and_nothing_else(page: dict[str, Any]) -> None:
    """Styles and scripts by their digests; images, connections and frames by nobody."""
    html = one_file(page).decode()
    policy = _policy(html)
    assert policy["default-src"] == ["'none'"]
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == 2
    assert sorted(policy["script-src"]) == sorted(map(_digest, scripts))
    (styles,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert policy["style-src"] == [_digest(styles)]


def test_nothing_is_asked_of_a_network(page: dict[str, Any]) -> None:
    """No element names an address but places in the page itself, and none has a handler or a style of its own."""
    html = opened(one_file(page).decode())
    markup = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    assert re.findall(r'\b(?:src|srcset|action|data|poster)="', markup) == []
    assert {address[0] for address in re.findall(r'href="([^"]*)"', markup)} == {"#"}
    assert re.findall(r'<[^>]*\s(?:on\w+|style)="', markup) == []


def test_a_page_is_written_whole(page: dict[str, Any], tmp_path: Path) -> None:
    """Its folder is made, an older page is replaced, and nothing else is left there."""
    file = tmp_path / "deep" / "page.html"
    write_page(page, file)
    first = file.read_bytes()
    write_page(page, file)
    assert file.read_bytes() == first == one_file(page)
    assert [one.name for one in file.parent.iterdir()] == ["page.html"]


def test_what_checks_open_to_comes_deflated(page: dict[str, Any]) -> None:
    """With the history of each series."""
    data = data_of(one_file(page).decode())
    assert set(data["details"]) == {f"check-{number}" for number in range(6)}
    assert set(data) == {"details", "series-0", "series-1"}


@given(st.text())
def test_no_text_ends_a_script(text: str) -> None:
    """The data of a page is JSON for every text, without a character that markup begins with."""
    written = in_script({"text": text, text: 1.5} if text != "text" else {"text": text})
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written)["text"] == text


def test_our_scripts_and_styles_end_nothing() -> None:
    """They stand in the page as they are."""
    for name in ("page.css", "first.js", "charts.js", "page.js", *(f"uplot/{name}" for name in _RELEASED)):
        text = _ASSETS.joinpath(*name.split("/")).read_text("utf-8")
        assert not re.search(r"</(script|style)|<!--|\r", text, re.IGNORECASE), name


def test_the_chart_library_is_the_one_that_was_released() -> None:
    """Its files have the digests that stand beside its version, and its licence is there."""
    for name, digest in _RELEASED.items():
        assert hashlib.sha256(_ASSETS.joinpath("uplot", name).read_bytes()).hexdigest() == digest
    assert f"(v{UPLOT})" in _ASSETS.joinpath("uplot", "uPlot.iife.min.js").read_text("utf-8")[:100]
    assert "MIT License" in _ASSETS.joinpath("uplot", "LICENSE").read_text("utf-8")


def test_a_page_names_the_library_that_it_has(page: dict[str, Any]) -> None:
    """With the version of the bundle."""
    assert f"uPlot {UPLOT}, MIT" in one_file(page).decode()


def test_hostile_texts_are_cleaned_in_every_place() -> None:
    """No character of a page is one that a terminal would act upon, or that turns text round."""
    html = opened(one_file(assemble(sources(HOSTILE))).decode())
    assert {char for char in html if not char.isprintable()} == {"\n"}
