"""Validation of names in options: backends must be registered, and required ones used; columns must exist."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pytest_quant.backends import backend_names
from pytest_quant.errors import UsageError, nearest
from pytest_quant.plugin.settings import settings_of
from pytest_quant.printable import clean
from pytest_quant.report.columns import pick_columns


def refuse_unknown_names(config: pytest.Config) -> None:
    """Raise `pytest.UsageError` for a backend that is not registered, and for a column that does not exist."""
    settings = settings_of(config)
    known = backend_names()
    for option, names in (("--quant-backend", (settings.backend,)), ("--quant-require", settings.require)):
        for name in names:
            if name not in known:
                raise pytest.UsageError(clean(f"{option}: unknown backend '{name}'; {nearest(name, known)}"))
    try:
        pick_columns(settings.columns)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


def faults_of_required(required: Collection[str], used: Collection[str], *, all_ran: bool) -> list[str]:
    """Return a message for every required backend that is not registered, or that no check used.

    Parameters
    ----------
    required : names of backends.
    used : backends of the checks of this run.
    all_ran : every test of the suite ran; otherwise unused backends are not reported, since tests that were left out
        may use them.
    """
    known = backend_names()
    unknown = [name for name in required if name not in known]
    unused = [name for name in required if name in known and name not in used] if all_ran else []
    return [
        *(f"--quant-require: unknown backend '{name}'; {nearest(name, known)}" for name in unknown),
        *(f"--quant-require: no test used '{name}'" for name in unused),
    ]
