"""Virtual environments with the real GPU wheel of ONNX Runtime, in front of everything that is installed here."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

_HIDE = """
import importlib.metadata as metadata

def _without_cpu_wheel(found):
    return [one for one in found if (one.metadata["Name"] or "").lower() != "onnxruntime"]

_find = metadata.MetadataPathFinder.find_distributions

def find_distributions(*args, **kwargs):
    return iter(_without_cpu_wheel(_find(*args, **kwargs)))

metadata.MetadataPathFinder.find_distributions = staticmethod(find_distributions)
"""


def make_environment(folder: Path, *, beside_cpu_wheel: bool = False) -> Path:
    """Make a virtual environment and return its interpreter.

    Parameters
    ----------
    folder : the folder to make.
    beside_cpu_wheel : the metadata of the CPU wheel are seen too, as where both are installed; its files never are.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site)]
    # A release of both may reach a registry on different days.
    wanted = f"onnxruntime-gpu<={version('onnxruntime')}"
    installed = subprocess.run([*command, "--retries=15", wanted], capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    lines = [str(Path(json.__file__).parents[1]), str(Path(pytest.__file__).parents[1])]
    if not beside_cpu_wheel:
        (site / "hide.py").write_text(_HIDE)
        lines.append("import hide")
    (site / "rest.pth").write_text("\n".join(lines))
    return folder / "bin" / "python"
