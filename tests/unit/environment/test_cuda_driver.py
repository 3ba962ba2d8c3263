"""CUDA's driver, asked in another process; a stub of its library answers."""

from __future__ import annotations

import os
import subprocess
import sys

from pytest_quant.environment.cuda_driver import ask_driver, is_initialized
from tests.support.nvml_stub import NvmlStub, StubCard, uuid_of


def test_the_devices_come_in_the_drivers_order(nvml_stub: NvmlStub) -> None:
    """The digits of their UUIDs, cards and instances alike; asked once for each environment."""
    nvml_stub.play(StubCard(), cuda=(uuid_of(3), uuid_of(1, "MIG")))
    digits = tuple(uuid_of(number)[4:].replace("-", "") for number in (3, 1))
    assert ask_driver(None, None) == ask_driver(None, None) == (digits, "")
    ask_driver("0", None)
    assert nvml_stub.asked == 2


def test_no_device_is_an_answer_and_a_failure_is_none(nvml_stub: NvmlStub) -> None:
    """CUDA's error 100 says that the environment hides all; without a library the loader is quoted."""
    nvml_stub.play(StubCard(), cuda=100)
    assert ask_driver("", None) == ((), "")
    nvml_stub.play(StubCard(), cuda=803)
    assert ask_driver(None, None) == ((), "cuInit gave error 803")
    del os.environ["LD_LIBRARY_PATH"]
    ask_driver.cache_clear()
    assert "libcuda.so.1" in ask_driver(None, None)[1]


INITIALISED = """
import ctypes
from pytest_quant.environment.cuda_driver import is_initialized
print(is_initialized())
driver = ctypes.CDLL("libcuda.so.1")
print(is_initialized())
driver.cuInit(0)
print(is_initialized())
"""


def test_asking_whether_cuda_is_initialised_does_not_do_it(nvml_stub: NvmlStub) -> None:
    """Neither to ask nor to load the driver's library initialises it; without the library nothing has."""
    nvml_stub.play(StubCard(), cuda=(uuid_of(0),))
    asked = subprocess.run([sys.executable, "-c", INITIALISED], capture_output=True, text=True, check=True)
    assert asked.stdout.split() == ["False", "False", "True"]
    assert not is_initialized()
