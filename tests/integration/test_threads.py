"""A record tells how many threads an engine was given, for latencies compare only among the same number."""

from __future__ import annotations

import pytest

from tests.integration.projects import run_project, write_project
from tests.support import models


@pytest.mark.parametrize(("options", "threads"), [("{}", 1), ("{'threads': 2}", 2)])
def test_the_record_knows_the_threads(pytester: pytest.Pytester, options: str, threads: int) -> None:
    """The default is one."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, mark=f"max_drop=5.0, options={options}")
    _, (check,) = run_project(pytester)
    assert check["threads"] == threads
