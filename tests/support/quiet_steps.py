"""Steps that nobody sees, as the checks of a test have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_quant.measure.steps import Steps


class QuietSteps(Steps):
    """Shows nothing, however long a step lasts; a message is an error.

    Attributes
    ----------
    texts : of all steps so far.
    now : those that are under way.
    """

    def __init__(self) -> None:
        super().__init__(pytest.fail)
        self.texts: list[str] = []
        self.now: list[str] = []

    @contextmanager
    def show(self, text: str) -> Iterator[None]:
        """Remember a step."""
        self.texts.append(text)
        self.now.append(text)
        try:
            yield
        finally:
            self.now.remove(text)

    bounded = show
