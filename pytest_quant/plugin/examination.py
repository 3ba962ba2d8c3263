"""``pytest --quant-doctor``: the examination of ``pytest-quant doctor``, in the environment that pytest runs in."""

from __future__ import annotations

import sys

import pytest

from pytest_quant.doctor.examine import examine, unmet
from pytest_quant.doctor.text import describe
from pytest_quant.plugin.settings import settings_of


def show_examination(config: pytest.Config) -> pytest.ExitCode:
    """Print the examination; fail when a backend of ``--quant-require`` cannot run here."""
    found = examine()
    sys.stdout.write(describe(found) + "\n")
    absent = unmet(found, settings_of(config).require)
    for state in absent:
        sys.stderr.write(f"required, but {state.name} cannot run here: {state.reason}\n")
    return pytest.ExitCode.TESTS_FAILED if absent else pytest.ExitCode.OK
