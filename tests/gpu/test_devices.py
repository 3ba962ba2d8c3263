"""Which card a CUDA device name stands for, held against CUDA itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytest_quant.environment.cuda_driver import VISIBLE_VARIABLE, ask_driver
from pytest_quant.environment.gpu import cuda_gpus

pytestmark = pytest.mark.gpu

PIN = """
import sys
from pytest_quant.environment.cuda_driver import is_initialized
from pytest_quant.environment.gpu import pin_gpu
before = is_initialized()
gpu = pin_gpu(sys.argv[1])
import torch
print(gpu.uuid, torch.cuda.device_count(), torch.cuda.get_device_properties(0).uuid, before, is_initialized())
"""


def digits(uuid: str) -> str:
    """Return the digits of a UUID, whatever stands before and between them."""
    return uuid.removeprefix("GPU-").removeprefix("MIG-").replace("-", "")


def test_the_devices_are_those_of_the_driver() -> None:
    """In its order."""
    gpus, reason = cuda_gpus()
    if not gpus:
        pytest.skip(reason)
    uuids, error = ask_driver(os.environ.get(VISIBLE_VARIABLE), os.environ.get("CUDA_DEVICE_ORDER"))
    assert error == ""
    assert tuple(digits(gpu.uuid) for gpu in gpus) == uuids


def test_a_chosen_card_is_the_only_one_of_torch() -> None:
    """By its UUID, for each of them; that CUDA is initialised is noticed."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if torch.version.cuda is None:
        pytest.skip("this PyTorch is a build without CUDA")
    gpus, reason = cuda_gpus()
    if not gpus:
        pytest.skip(reason)
    for gpu in gpus:
        told = subprocess.run(
            [sys.executable, "-c", PIN, gpu.uuid], capture_output=True, text=True, check=True
        ).stdout.split()
        uuid, count, of_torch, before, after = told
        assert (uuid, count, digits(of_torch)) == (gpu.uuid, "1", digits(gpu.uuid))
        assert (before, after) == ("False", "True")
