"""The page in the pairs of theme and width that `tests.integration.test_page` leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.report.page import page_html
from tests.integration.test_page import TABS, assert_accessible
from tests.support.browser import DESK, PHONE, Theme, Window
from tests.support.pages import sources


@pytest.mark.parametrize(("width", "theme"), [(DESK, "dark"), (PHONE, "light")])
def test_axe_finds_nothing_serious(tmp_path: Path, window: Window, width: int, theme: Theme) -> None:
    """On any tab."""
    file = tmp_path / "page.html"
    file.write_bytes(page_html(**sources()))
    for tab in TABS:
        assert_accessible(file, window, tab, width, theme)
