"""NVML as a module: whether it is there, and what it says as text."""

from __future__ import annotations

import sys

import pytest

from pytest_quant.environment.nvml import opened_nvml, text_of


def test_without_the_package_there_is_no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is raised on a machine that does not have nvidia-ml-py."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with opened_nvml() as nvml:
        assert nvml is None


@pytest.mark.parametrize("name", ["NVIDIA L4", b"NVIDIA L4"])
def test_a_name_is_text_in_every_version(name: str | bytes) -> None:
    """Old versions of the package give bytes."""
    assert text_of(name) == "NVIDIA L4"
