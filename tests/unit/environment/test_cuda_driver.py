"""CUDA's driver, asked in another process; a stub of its library answers."""

from __future__ import annotations

import os
import subprocess
import sys

from pytest_quant.environment.cuda_driver import ask_driver, is_initialized
from tests.support.nvml_stub import NvmlStub, StubCard, uuid_of


def test_the_devices_come_in_the_drivers_order(nvml_stub: NvmlStub) -> None:
    """The digits of their UUIDs, cards and instances alike."""
    nvml_stub.play(StubCard(), cuda=(uuid_of(3), uuid_of(1, "MIG")))
    found = ask_driver(None, None)
    assert found.uuids == tuple(uuid_of(number)[4:].replace("-", "") for number in (3, 1))
    assert found.error == ""


def test_the_driver_is_asked_once_for_each_environment(nvml_stub: NvmlStub) -> None:
    """Another process initialises CUDA each time."""
    nvml_stub.play(StubCard(), cuda=(uuid_of(0),))
    ask_driver(None, None)
    ask_driver(None, None)
    ask_driver("0", None)
    assert nvml_stub.asked == 2


def test_no_device_is_an_answer(nvml_stub: NvmlStub) -> None:
    """CUDA's error 100 says that the environment hides all of them."""
    nvml_stub.play(StubCard(), cuda=100)
    assert ask_driver("", None).error == ""
    assert ask_driver("", None).uuids == ()


def test_a_driver_that_fails_is_told(nvml_stub: NvmlStub) -> None:
    """The function that failed, and CUDA's number of the error."""
    nvml_stub.play(StubCard(), cuda=803)
    assert ask_driver(None, None).error == "cuInit gave error 803"


def test_without_the_library_the_loader_is_quoted(nvml_stub: NvmlStub) -> None:
    """A container with NVML and without CUDA, for one."""
    nvml_stub.play(StubCard())
    del os.environ["LD_LIBRARY_PATH"]
    assert "libcuda.so.1" in ask_driver(None, None).error


INITIALISED = """
import ctypes
from pytest_quant.environment.cuda_driver import is_initialized
print(is_initialized())
driver = ctypes.CDLL("libcuda.so.1")
print(is_initialized())
driver.cuInit(0)
print(is_initialized())
"""


def test_whether_cuda_is_initialised_is_told_without_doing_so(nvml_stub: NvmlStub) -> None:
    """Neither to ask nor to load the driver's library initialises it; without the library nothing has."""
    nvml_stub.play(StubCard(), cuda=(uuid_of(0),))
    told = subprocess.run([sys.executable, "-c", INITIALISED], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "False", "True"]
    assert not is_initialized()
