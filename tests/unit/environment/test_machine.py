"""The fingerprint says what must match before latency is compared."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version

import pytest

from pytest_quant.environment import ONEDNN_LIMIT, fingerprint, isa_tier
from pytest_quant.environment.machine import first_value, quota_cores


def test_identity_is_what_decides_speed() -> None:
    """CPU, instruction set, cores, system and architecture, all of them known here."""
    identity = fingerprint().identity
    assert list(identity) == ["cpu", "isa", "cores", "os", "arch"]
    assert identity["isa"] == isa_tier()
    assert all(identity.values())


def test_a_lowered_instruction_set_is_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Latency under a limit of oneDNN's is not compared with latency without it."""
    monkeypatch.setenv(ONEDNN_LIMIT, "AVX2")
    assert fingerprint.__wrapped__().identity["isa_limit"] == "AVX2"
    monkeypatch.delenv(ONEDNN_LIMIT)
    assert "isa_limit" not in fingerprint.__wrapped__().identity


def test_context_has_versions_of_what_is_installed() -> None:
    """A package that is absent is left out and not called unknown."""
    context = fingerprint().context
    assert context["numpy"] == version("numpy")
    assert context["python"] == platform.python_version()
    assert "onnxruntime-gpu" not in context


def test_the_fingerprint_is_plain_text_without_the_host() -> None:
    """It goes into JSON as it is, and two hosts of one kind have the same one."""
    found = fingerprint()
    text = json.dumps([dict(found.identity), dict(found.context)], allow_nan=False)
    assert all(type(value) is str for value in {**found.identity, **found.context}.values())
    assert platform.node() not in json.loads(text)[0].values()


@pytest.mark.parametrize(
    ("text", "cores"), [("max 100000\n", None), ("150000 100000\n", 1.5), ("", None), ("100000 0", None)]
)
def test_a_container_grants_quota_over_period(text: str, cores: float | None) -> None:
    """``cpu.max`` holds microseconds of CPU time per period, ``max`` for no limit."""
    assert quota_cores(text) == cores


def test_the_model_name_is_one_line() -> None:
    """Vendors pad it with spaces; ARM kernels tell none."""
    text = "vendor_id : X\nmodel name\t: Some   CPU @ 2.0GHz \n"
    assert first_value(text, ("model name",)) == "Some CPU @ 2.0GHz"
    assert first_value("CPU part : 0xd0c", ("model name",)) == ""
