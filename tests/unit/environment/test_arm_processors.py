"""What processors of ARM say in ``/proc/cpuinfo``, as their owners published it, and the instruction set that it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.environment.machine import first_value, flags_in, has_vnni, tier_of

RECORDED = Path(__file__).with_name("recorded_cpuinfo")
TIERS = {
    "cobalt100": "i8mm",
    "graviton2": "dotprod",
    "graviton3": "i8mm",
    # A kernel from before the instructions runs them and does not list them: what is listed is what is known.
    "graviton3_old_kernel": "dotprod",
    "graviton4": "i8mm",
    "jetson_orin": "dotprod",
    "raspberry_pi_4": "neon",
    "raspberry_pi_5": "dotprod",
}
"""Of the cores Neoverse N2, N1, V1, V1 and V2, Cortex-A78AE, A72 and A76, whose first block is in the folder.

By ARM's manuals of these cores: ``i8mm`` multiplies matrices of 8 bits, ``dotprod`` has products of four (SDOT, UDOT).
"""


def test_every_recording_has_a_tier() -> None:
    """A file that nobody looks at would prove nothing."""
    assert {file.stem for file in RECORDED.iterdir()} == set(TIERS)


@pytest.mark.parametrize("processor", TIERS)
def test_the_tier_of_a_processor(processor: str) -> None:
    """It is the best set that the core has; none of them saturates, as kernels for ARM widen before they add."""
    text = (RECORDED / f"{processor}.txt").read_text("utf-8")
    assert tier_of(flags_in(text)) == TIERS[processor]
    assert has_vnni(TIERS[processor])


@pytest.mark.parametrize("processor", TIERS)
def test_the_kernel_gives_no_name(processor: str) -> None:
    """So that the name of the processor has to come from elsewhere."""
    assert first_value((RECORDED / f"{processor}.txt").read_text("utf-8"), ("model name",)) == ""
