"""The fingerprint says what must match before latency is compared."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version

import pytest

from pytest_quant.environment import ONEDNN_LIMIT, fingerprint, isa_tier
from pytest_quant.environment.machine import first_value, quota_cores
from tests.support.nvml_stub import NvmlStub, StubCard, error, uuid_of


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


L4, T4 = StubCard(), StubCard(name="NVIDIA T4", capability="7.5")


def test_the_gpu_is_the_one_that_cuda_has(nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML's first card may be one that the environment hides. Name and compute capability must match, the UUID not."""
    nvml_stub.play(L4, T4, driver="580.1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid_of(1))
    found = fingerprint.__wrapped__()
    assert (found.identity["gpu"], found.identity["sm"]) == ("NVIDIA T4", "SM75")
    assert (found.context["driver"], found.context["gpu_uuid"]) == ("580.1", uuid_of(1))
    assert uuid_of(1) not in found.identity.values()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "gpu" not in fingerprint.__wrapped__().identity


def test_cards_of_one_model_are_one_machine(nvml_stub: NvmlStub) -> None:
    """Whichever of them CUDA has first: both are noted."""
    nvml_stub.play(L4, L4)
    found = fingerprint.__wrapped__()
    assert found.identity["gpu"] == "NVIDIA L4"
    assert found.context["gpu_uuid"] == f"{uuid_of(0)}, {uuid_of(1)}"


def test_of_cards_of_several_models_the_first_of_cuda_counts(nvml_stub: NvmlStub) -> None:
    """Only CUDA's driver knows its order by speed."""
    nvml_stub.play(T4, L4, cuda=(uuid_of(1), uuid_of(0)))
    found = fingerprint.__wrapped__()
    assert (found.identity["gpu"], found.context["gpu_uuid"]) == ("NVIDIA L4", uuid_of(1))


def test_a_field_that_the_gpu_lacks_is_unknown(nvml_stub: NvmlStub) -> None:
    """GB10 tells no memory of its own, and a check on the CPU needs none: the fingerprint is there."""
    nvml_stub.play(StubCard(name="NVIDIA GB10", memory_total=None, memory_used=None, capability=error(3)))
    assert fingerprint.__wrapped__().identity["sm"] == "unknown"
