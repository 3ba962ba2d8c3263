"""``pytest-quant guide`` lists the guides and shows each of them."""

from __future__ import annotations

from importlib.resources import files

import pytest
from click.testing import CliRunner

from pytest_quant.cli import commands
from pytest_quant.cli.guide import guide_text, topics
from pytest_quant.errors import UsageError

NAMES = list(topics())


def test_every_guide_of_the_folder_is_listed_once() -> None:
    """In the order of the index, each with its name and one line."""
    shown = CliRunner().invoke(commands, ["guide"], catch_exceptions=False).stdout.splitlines()
    assert [line.split()[0] for line in shown] == NAMES
    assert all(len(line.split()) > 3 and len(line) <= 120 for line in shown)
    names = {file.name.removesuffix(".md") for file in (files("pytest_quant") / "guides").iterdir()}
    assert sorted(NAMES) == sorted(names - {"README", "images"})


@pytest.mark.parametrize("name", NAMES)
def test_a_guide_is_shown_as_it_is(name: str) -> None:
    """Character by character, so that it can be searched, converted and compared."""
    assert CliRunner().invoke(commands, ["guide", name], catch_exceptions=False).stdout == guide_text(name)


@pytest.mark.parametrize("typed", ["README", "../README", "images/table", ""])
def test_only_guides_are_shown(typed: str) -> None:
    """A topic is a name of the list, never a path."""
    with pytest.raises(UsageError, match="there is no guide"):
        CliRunner().invoke(commands, ["guide", typed], catch_exceptions=False)


def test_a_typo_names_the_nearest() -> None:
    """And every other topic."""
    with pytest.raises(UsageError, match="did you mean 'first-check'") as caught:
        CliRunner().invoke(commands, ["guide", "frist-check"], catch_exceptions=False)
    assert all(name in str(caught.value) for name in NAMES)
