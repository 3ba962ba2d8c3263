"""Pages in a real browser, Debian's Chromium, without a network: what it says, what it asks for, and how it looks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

REQUIRED = "PYTEST_QUANT_REQUIRE_CHROMIUM"
"""Environment variable that turns a browser that is not there from a skip into a failure."""

DESK, PHONE = 1280, 390
"""Widths in CSS pixels."""

Theme = Literal["light", "dark"]


@dataclass
class Seen:
    """A page that is open, with what went wrong on it and what it asked for."""

    page: Page
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        """Return the text that a reader sees in one element."""
        return self.page.locator(selector).inner_text()

    def shown(self, selector: str) -> list[str]:
        """Return the texts of all elements that can be seen."""
        return [each.inner_text() for each in self.page.locator(selector).all() if each.is_visible()]

    def scrolls_sideways(self) -> bool:
        """Whether the page is wider than its window."""
        result: bool = self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        return result

    def faults(self) -> list[str]:
        """Return what axe-core finds that is serious or critical, one line for each."""
        # Here, because only tests that look for it need it.
        from axe_playwright_python.sync_playwright import Axe

        result: list[dict[str, Any]] = Axe().run(self.page).response["violations"]
        return [
            f"{each['id']}: {node['target']}: {node['html'][:200]}"
            for each in result
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]


@dataclass(frozen=True, slots=True)
class Window:
    """Opens pages in one browser."""

    browser: Browser

    def open(self, file: Path, end: str = "", *, width: int = DESK, theme: Theme = "light") -> Seen:
        """Open a page from the disk.

        Parameters
        ----------
        file : the page.
        end : of its address, ``#history``.
        width : of the window, in CSS pixels.
        theme : that the system prefers.
        """
        context = self.browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=theme, offline=True, service_workers="block"
        )
        seen = Seen(context.new_page())
        page = seen.page
        page.on("console", lambda message: seen.problems.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: seen.problems.append(str(error)))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("dialog", lambda dialog: seen.problems.append(f"dialog: {dialog.message}"))
        page.goto(f"{file.resolve().as_uri()}{end}")
        return seen


def find_chromium() -> str | None:
    """Return the program, as Debian names it."""
    return shutil.which("chromium")


@pytest.fixture(scope="session")
def window() -> Iterator[Window]:
    """A browser that runs as long as the tests do."""
    program = find_chromium()
    if program is None:
        reason = "Chromium is not installed; apt-get install chromium"
        if os.environ.get(REQUIRED):
            pytest.fail(f"{reason} ({REQUIRED} is set)")
        pytest.skip(reason)
    # Here, because tests without a browser do without.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield Window(browser)
        browser.close()
