"""Elsewhere than on Linux a run and a command say so in one error, before anything that only Linux has is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = """
import sys
for name in ("fcntl", "resource", "pwd"):
    sys.modules[name] = None
import pytest, click
sys.platform = {platform!r}
if {command!r} == "pytest":
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider"]))
sys.argv = ["pytest-quant", "doctor"]
from pytest_quant.cli import main
main()
"""


@pytest.mark.parametrize(
    # pytest itself wants more of Windows than a name.
    ("platform", "command"),
    [("darwin", "pytest"), ("win32", "pytest-quant")],
)
def test_fake_platform_is_refused_in_one_error(tmp_path: Path, platform: str, command: str) -> None:
    """With what to do; not a file of Linux that is missing, nor a module."""
    (tmp_path / "test_any.py").write_text("def test_any():\n    pass\n")
    code = ELSEWHERE.format(platform=platform, command=command)
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    printed = ended.stdout + ended.stderr
    assert ended.returncode in (1, 4), printed
    assert "this runs on Linux only" in printed
    assert f"got: {platform}" in printed
    assert "WSL 2" in printed
    assert "Traceback" not in printed
