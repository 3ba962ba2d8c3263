"""``--reason`` beside ``--quant-accept``: short for ``--quant-reason``, and never in the way of an option of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_quant.history.baselines.file import NAME, read_baselines
from tests.integration.fake_session import run_fake, run_fake_apart
from tests.integration.projects import output
from tests.support.repository import make_repository, without_ci

SOURCE = """
@mark.quant(output="PASS")
def test_one(request):
    with open("theirs", "w") as file:
        file.write(str(request.config.getoption("--reason", "no option")))
"""
OTHER = """
def pytest_addoption(parser):
    parser.addoption("--reason", default="their default")
"""


@pytest.fixture(autouse=True)
def _repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of no commit are never accepted."""
    without_ci(monkeypatch)
    make_repository(pytester.path).commit("1")


def reasons(folder: Path) -> list[str]:
    """Return the reasons in the file of baselines; empty without one."""
    return [entry.reason for entry in read_baselines(folder / NAME).values()]


@pytest.mark.parametrize(
    "args",
    [
        ("--quant-accept", "--reason", "a larger set"),
        ("--reason=a larger set", "--quant-accept"),
        ("--quant-accept", "--reason=a larger set", "-n", "2"),
        ("--quant-accept", "--reason", "a larger set", "--", "test_it.py"),
    ],
)
def test_it_gives_the_reason(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]) -> None:
    """As two words or one, before or after, and in the workers of xdist."""
    run = run_fake_apart if "-n" in args else run_fake
    result = run(pytester, monkeypatch, SOURCE, *args)
    assert result.ret == 0, output(result)
    assert reasons(pytester.path) == ["a larger set"]


def test_an_empty_one_is_refused(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``--quant-reason`` is."""
    result = run_fake(pytester, monkeypatch, SOURCE, "--quant-accept", "--reason", " ")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "write a sentence" in output(result)


def test_without_accepting_it_is_no_option(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is pytest's own, as it would without us."""
    result = run_fake(pytester, monkeypatch, SOURCE, "--reason=why")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "unrecognized arguments: --reason=why" in output(result)


def before_us(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Plugins of the command line are loaded before those of installed packages."""
    pytester.makepyfile(theirs_plugin=OTHER)
    monkeypatch.syspath_prepend(pytester.path)
    return ("-p", "theirs_plugin")


def after_us(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Those of the environment are loaded after them."""
    pytester.makepyfile(theirs_plugin=OTHER)
    monkeypatch.syspath_prepend(pytester.path)
    monkeypatch.setenv("PYTEST_PLUGINS", "theirs_plugin")
    return ()


def in_a_conftest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Loaded when the command line was read once."""
    (pytester.path / "checks").mkdir()
    (pytester.path / "checks" / "conftest.py").write_text(OTHER)
    return ("checks", "test_it.py")


Declare = Callable[[pytest.Pytester, pytest.MonkeyPatch], tuple[str, ...]]


@pytest.mark.parametrize("declared", [before_us, after_us, in_a_conftest])
def test_an_option_of_others_stays_theirs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, declared: Declare
) -> None:
    """Without accepting and with it; our longer name still gives our reason, and the message tells it."""
    more = (*declared(pytester, monkeypatch), "--reason", "no weather")
    assert run_fake(pytester, monkeypatch, SOURCE, *more).ret == 0
    assert (pytester.path / "theirs").read_text() == "no weather"
    asked = run_fake(pytester, monkeypatch, SOURCE, "--quant-accept", *more)
    assert asked.ret == pytest.ExitCode.USAGE_ERROR
    assert "where another plugin has an option --reason: --quant-reason TEXT" in output(asked)
    (pytester.path / "theirs").unlink()
    both = ("--quant-accept", "--quant-reason", "a larger set")
    assert run_fake(pytester, monkeypatch, SOURCE, *both, *more).ret == 0
    assert (pytester.path / "theirs").read_text() == "no weather"
    assert reasons(pytester.path) == ["a larger set"]


def test_a_conftest_that_comes_late_is_not_in_conflict(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a folder that is only found while tests are collected declares it in vain, as without us."""
    (pytester.path / "below").mkdir()
    (pytester.path / "below" / "conftest.py").write_text(OTHER)
    (pytester.path / "below" / "test_below.py").write_text("def test_below(): pass")
    result = run_fake(pytester, monkeypatch, SOURCE, "--quant-accept", "--reason=a larger set", ".")
    assert result.ret == 0, output(result)
    assert reasons(pytester.path) == ["a larger set"]


def test_its_text_is_no_folder_of_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conftest files of the ini option ``testpaths`` are still those that may declare options."""
    (pytester.path / "checks").mkdir()
    (pytester.path / "checks" / "conftest.py").write_text(OTHER.replace("reason", "weather"))
    ini = ("-o", "testpaths=test_it.py checks", "--weather=rain")
    result = run_fake(pytester, monkeypatch, SOURCE, "--quant-accept", "--reason", "a larger set", *ini)
    assert result.ret == 0, output(result)
    assert reasons(pytester.path) == ["a larger set"]
