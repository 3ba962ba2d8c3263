"""axe-core finds nothing serious on any page, in either theme, at a desk or on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from pytest_quant.report.page.assemble import assemble
from pytest_quant.report.page.render import write_page
from tests.support.browser import DESK, PHONE, Theme, Window
from tests.support.pages import sources


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with everything."""
    place = tmp_path_factory.mktemp("page") / "page.html"
    write_page(assemble(sources()), place)
    return place


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("tab", ["run", "comparison", "history", "pareto"])
def test_axe_finds_nothing_serious(file: Path, window: Window, tab: str, width: int, theme: Theme) -> None:
    """With every check open, every list unfolded and the charts drawn."""
    seen = window.open(file, f"#{tab}", width=width, theme=theme)
    if tab == "run":
        seen.page.get_by_role("button", name="Expand all").click()
        expect(seen.page.locator("#detail-0 svg.rounds")).to_be_visible()
    if tab == "history":
        expect(seen.page.locator("#series-0 canvas")).to_be_visible()
    for details in seen.page.locator(f"section#{tab} details").all():
        details.evaluate("one => { one.open = true; }")
    assert seen.faults() == []


def test_axe_would_find_a_fault(file: Path, window: Window) -> None:
    """It runs, and sees the page: a button without a name is one."""
    seen = window.open(file)
    seen.page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert any(fault.startswith("button-name") for fault in seen.faults())
