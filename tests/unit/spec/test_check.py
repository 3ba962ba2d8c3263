"""What a mark asks of an engine, as a record keeps it."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from pytest_quant.spec import Calibration, EngineSpec, Model

SPEC = EngineSpec("ort", "int8", "static", Model("digits"))
PERCENTILE = Calibration("percentile", 99.99999)


@pytest.mark.parametrize(
    ("other", "changed"),
    [
        (replace(SPEC, calibration=Calibration("entropy")), {"calibration": "entropy"}),
        (replace(SPEC, calibration=Calibration(samples=50)), {"calibration samples": "50"}),
        (replace(SPEC, calibration=Calibration(batch_size=4)), {"calibration batch_size": "4"}),
        (
            replace(SPEC, calibration=PERCENTILE),
            {"calibration": "percentile", "calibration percentile": "99.99999"},
        ),
        (replace(SPEC, exclude=("fc1", "/head/fc2")), {"exclude": "fc1, /head/fc2"}),
        (replace(SPEC, cpus="avx2"), {"cpus": "avx2"}),
        (replace(SPEC, options=(("per_channel", False),)), {"per_channel": "False"}),
    ],
)
def test_each_key_of_the_mark_is_kept_with_its_value(other: EngineSpec, changed: dict[str, str]) -> None:
    """By its own name, so that two records say what was changed; nothing else moves."""
    before = SPEC.asked
    assert before == {"calibration": "minmax", "calibration batch_size": "1"}
    assert {name: text for name, text in other.asked.items() if before.get(name) != text} == changed
    assert before.keys() <= other.asked.keys()


def test_no_field_of_the_calibration_is_forgotten() -> None:
    """One that is added later is kept too."""
    every = Calibration("percentile", 99.9, 7, 3)
    names = {name for name in replace(SPEC, calibration=every).asked if name.startswith("calibration")}
    assert names == {"calibration", *(f"calibration {field.name}" for field in fields(Calibration)[1:])}


def test_what_nothing_reads_is_not_kept() -> None:
    """Only the method percentile has a percentile, and only a static scheme a calibration."""
    assert "calibration percentile" not in replace(SPEC, calibration=Calibration(percentile=77.0)).asked
    assert replace(SPEC, scheme="dynamic", calibration=PERCENTILE).asked == {}


def test_a_value_is_the_same_text_in_another_process_and_folder() -> None:
    """Without the address of a function, and with the name of a file alone."""

    def hook() -> None:
        """An option of a third party's backend."""

    options = (("hook", hook), ("libraries", ["/home/me/a/ops.so", "C:\\work\\b.dll"]), ("mode", "fast"))
    asked = replace(SPEC, options=options).asked
    assert "0x" not in asked["hook"]
    assert (asked["libraries"], asked["mode"]) == ("['ops.so', 'b.dll']", "'fast'")
