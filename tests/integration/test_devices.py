"""Cards, instances and the environment in whole runs, on machines that a stub of the driver's libraries plays."""

from __future__ import annotations

import pytest

from tests.support.nvml_stub import NvmlStub, StubCard, error


def test_the_doctor_tells_of_a_card_that_lacks_fields(pytester: pytest.Pytester, nvml_stub: NvmlStub) -> None:
    """GB10 has no memory of its own to tell of; everything else of the machine is told."""
    nvml_stub.play(StubCard(name="NVIDIA GB10", memory_total=None, memory_used=None, capability=error(999)))
    result = pytester.run("pytest-quant", "doctor")
    result.stdout.fnmatch_lines(["*NVIDIA GB10 (unknown, driver 580.65.06)*"])
    assert "Traceback" not in result.stderr.str()
