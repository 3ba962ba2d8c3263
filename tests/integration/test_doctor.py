"""``pytest-quant doctor``, for real."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from pytest_quant.backends import backend_names
from tests.support.history_repository import run_command


def test_every_backend_is_listed_and_fails_where_it_is_required_and_does_not_run(tmp_path: Path) -> None:
    """Each registered backend has a state; what does not run has a reason and a fix, and both are printed as errors."""
    result = run_command(tmp_path, "doctor", "--json", f"--require={','.join(backend_names())}")
    states = {state["name"]: state for state in json.loads(result.stdout)["backends"]}
    assert set(states) == set(backend_names())
    assert states["ort"]["state"] == "ok"
    lines = result.stderr.splitlines()
    for name, state in states.items():
        required = f"required, but {name} cannot run here: {state['reason']}"
        if state["state"] == "ok":
            assert not any(line.startswith(f"required, but {name} ") for line in lines)
        else:
            assert state["reason"]
            assert lines[lines.index(required) + 1] == f"  next: {state['fix']}"
    assert result.returncode == (1 if lines else 0)


def test_what_is_required_decides_the_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 for a backend that runs here, 2 with the nearest name for an unknown one."""
    monkeypatch.setattr(import_module("pytest_quant.doctor.examine"), "backend_names", lambda: ("ort",))
    assert run_command(tmp_path, "doctor", "--require=ort").returncode == 0
    unknown = run_command(tmp_path, "doctor", "--require=otr")
    assert unknown.returncode == 2
    assert "unknown backend 'otr'" in unknown.stderr
    assert "ort" in unknown.stderr
