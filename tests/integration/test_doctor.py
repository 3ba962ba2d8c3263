"""``pytest-quant doctor``, for real."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_quant.backends import backend_names
from tests.support.history_repository import run_command


def test_every_backend_is_listed_and_json_says_the_same(tmp_path: Path) -> None:
    """Each registered backend has a line; what does not run says why and what to do, and fails where it is required."""
    result = run_command(tmp_path, "doctor", "--json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    states = {state["name"]: state for state in document["backends"]}
    assert set(states) == set(backend_names())
    assert states["ort"]["state"] == "ok"
    for name, state in states.items():
        assert state["state"] == "ok" or (state["reason"] and state["fix"]), state
        if state["state"] != "ok":
            required = run_command(tmp_path, "doctor", f"--require={name}")
            assert required.returncode == 1
            assert f"required, but {name} cannot run here" in required.stderr
            assert f"  next: {state['fix']}" in required.stderr
            break


def test_what_is_required_decides_the_exit_code(tmp_path: Path) -> None:
    """0 for one that runs here, 2 with the nearest name for an unknown one."""
    assert run_command(tmp_path, "doctor", "--require=ort").returncode == 0
    unknown = run_command(tmp_path, "doctor", "--require=otr")
    assert unknown.returncode == 2
    assert "unknown backend 'otr'" in unknown.stderr
    assert "ort" in unknown.stderr
