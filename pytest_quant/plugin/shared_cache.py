"""The end of the shared cache in each process of a run: uploads are waited for, the controller is told the traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import pytest

from pytest_quant.cache.remote import Remote, Traffic
from pytest_quant.plugin.outputs import end_of


def add_traffic(config: pytest.Config, figures: Sequence[Any]) -> None:
    """Add the traffic of a process, the fields of `Traffic` as a worker of xdist sends them."""
    end = end_of(config)
    end.traffic = (end.traffic or Traffic()) + Traffic(*figures)


class SharedCache:
    """Hooks of a process that has opened the shared cache."""

    def __init__(self, config: pytest.Config, remote: Remote) -> None:
        self._config = config
        self._remote = remote

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """End the uploads; a worker of xdist leaves the figures for its controller."""
        figures = astuple(self._remote.finish())
        output = getattr(self._config, "workeroutput", None)
        if output is None:
            add_traffic(self._config, figures)
        else:
            output["quant_traffic"] = figures
