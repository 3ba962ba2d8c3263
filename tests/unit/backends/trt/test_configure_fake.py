"""What the builder is told, on the names that versions 10 and 11 have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_quant.backends.trt import builder
from pytest_quant.backends.trt.configure import (
    BuildFailedError,
    BuildRequest,
    configure,
    configure_parser,
    keep_timing_cache,
    network_flags,
)
from pytest_quant.backends.trt.gpu.implicit import calibrating
from pytest_quant.backends.trt.run_builder import next_step
from tests.support.fake_tensorrt import HostMemory, drive, make
from tests.support.fake_tensorrt.enums import OnnxParserFlag

REQUEST = BuildRequest("tensorrt", "m.onnx", "f", None, None, None)
IMPLICIT = replace(REQUEST, strongly_typed=False, precisions=("INT8", "FP16"))


class Config:
    """Takes down what it is told."""

    def __init__(self, *, takes_cache: bool = True) -> None:
        self.flags: dict[str, bool] = {}
        self.takes_cache = takes_cache
        self.read = b""

    def set_flag(self, flag: Any) -> None:
        """Take down an order."""
        self.flags[flag.name] = True

    def clear_flag(self, flag: Any) -> None:
        """Take down an order."""
        self.flags[flag.name] = False

    def create_timing_cache(self, known: bytes) -> bytes:
        """Return what it was given."""
        self.read = known
        return known

    def set_timing_cache(self, _cache: bytes, ignore_mismatch: bool) -> bool:
        """A mismatch must not be ignored."""
        assert not ignore_mismatch
        return self.takes_cache

    def get_timing_cache(self) -> Any:
        """Return one with a measurement more."""
        return SimpleNamespace(serialize=lambda: memoryview(self.read + b"+"))


@pytest.mark.parametrize(("major", "wanted"), [(10, 2), (11, 1)])
def test_strong_types_are_another_bit_in_each_version(major: int, wanted: int) -> None:
    """Bit 1 in version 10 and bit 0 in version 11; bit 0 of version 10 means something else."""
    assert network_flags(make(HostMemory(), major), REQUEST) == wanted


def test_implicit_int8_of_version_10_has_no_flags() -> None:
    """Strong types would forbid it."""
    assert network_flags(make(HostMemory(), 10), IMPLICIT) == 0


def test_implicit_int8_ended_with_version_10() -> None:
    """The next step is to do without, or the version that has it; no node is at fault."""
    with pytest.raises(BuildFailedError, match=r"11\.13\.0 has no implicit INT8") as caught:
        network_flags(make(HostMemory(), 11), IMPLICIT)
    step = next_step(str(caught.value), {})
    assert "drop quantization='implicit'" in step
    assert "tensorrt<11" in step


@pytest.mark.parametrize("tf32", [True, False])
def test_tf32_is_set_or_cleared_and_never_left(tf32: bool) -> None:
    """TensorRT has it on."""
    config = Config()
    configure(make(HostMemory()), config, replace(REQUEST, tf32=tf32))
    assert config.flags == {"TF32": tf32}


def test_implicit_int8_is_asked_for_with_a_float_type_beside_it() -> None:
    """INT8 alone leaves the rest in float32."""
    config = Config()
    configure(make(HostMemory()), config, IMPLICIT)
    assert config.flags == {"TF32": False, "INT8": True, "FP16": True}


def test_a_flag_that_a_version_lacks_is_named() -> None:
    """Nothing is left out in silence."""
    with pytest.raises(BuildFailedError, match=r"has no BuilderFlag\.BF16"):
        configure(make(HostMemory(), 11), Config(), replace(REQUEST, precisions=("BF16",)))


def test_a_plan_for_other_versions_and_gpus() -> None:
    """A flag for the one, a level for the other."""
    config = Config()
    request = replace(REQUEST, version_compatible=True, hardware_compatibility="AMPERE_PLUS")
    configure(make(HostMemory()), config, request)
    assert config.flags["VERSION_COMPATIBLE"]
    assert config.hardware_compatibility_level.name == "AMPERE_PLUS"  # type: ignore[attr-defined]


def test_the_timing_cache_is_read_and_written_back(tmp_path: Path) -> None:
    """The first build starts with none."""
    request = replace(REQUEST, timing_cache=str(tmp_path / "cache"))
    for wanted in (b"", b"+", b"++"):
        config = Config()
        configure(make(HostMemory()), config, request)
        keep_timing_cache(config, request)
        assert config.read == wanted


def test_a_build_that_reads_the_timing_cache_is_not_disturbed(tmp_path: Path) -> None:
    """It is replaced whole: what another build has opened stays what it was."""
    file = tmp_path / "cache"
    file.write_bytes(b"a longer one of earlier builds")
    with file.open("rb") as reader:
        keep_timing_cache(Config(), replace(REQUEST, timing_cache=str(file)))
        assert reader.read() == b"a longer one of earlier builds"
    assert file.read_bytes() == b"+"


def test_a_timing_cache_of_another_gpu_is_an_error(tmp_path: Path) -> None:
    """Measurements of another device choose the wrong kernels."""
    with pytest.raises(BuildFailedError, match="another TensorRT or GPU"):
        configure(make(HostMemory()), Config(takes_cache=False), replace(REQUEST, timing_cache=str(tmp_path / "c")))


@pytest.mark.parametrize("native", [True, False])
def test_instance_norm_by_the_plugin(native: bool) -> None:
    """The flag is cleared only when the plugin is asked for."""
    cleared: list[object] = []
    parser = SimpleNamespace(clear_flag=cleared.append)
    configure_parser(make(HostMemory()), parser, replace(REQUEST, native_instancenorm=native))
    assert cleared == ([] if native else [OnnxParserFlag.NATIVE_INSTANCENORM])


def test_fake_builder_calibrates_and_the_ranges_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First with batches and a profile of their shape, then from the ranges alone."""
    import numpy as np

    device = HostMemory()
    monkeypatch.setattr("pytest_quant.backends.trt.gpu.implicit.open_device", lambda: device)
    samples = tmp_path / "samples"
    samples.mkdir()
    for index in range(3):
        np.savez(samples / f"{index}.npz", names=np.array(["x"]), input0=np.full((2, 5), index, np.float32))
    request = replace(IMPLICIT, calibration="minmax", samples=str(samples), ranges=str(tmp_path / "ranges"))
    config: Any = SimpleNamespace(profiles=[])
    config.set_calibration_profile = config.profiles.append
    with calibrating(make(device), config, request, lambda shapes: shapes):
        drive(config.int8_calibrator, ["x"], lambda *_: None)
    assert config.profiles == [{"x": (2, 5)}]
    assert (tmp_path / "ranges").read_bytes().startswith(b"TRT-10")
    assert device.cuda.held() == {}

    again: Any = SimpleNamespace()
    with calibrating(make(device), again, replace(request, samples=""), lambda shapes: shapes):
        drive(again.int8_calibrator, ["x"], lambda *_: pytest.fail("a batch was read"))


def test_fake_builder_that_meets_a_broken_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on with the samples before it, and we do not."""
    import numpy as np

    monkeypatch.setattr("pytest_quant.backends.trt.gpu.implicit.open_device", HostMemory)
    np.savez(tmp_path / "0.npz", names=np.array(["x"]), input0=np.zeros((1, 5), np.float32))
    (tmp_path / "1.npz").write_bytes(b"PK not a zip")
    request = replace(IMPLICIT, calibration="entropy", samples=str(tmp_path), ranges=str(tmp_path / "ranges"))
    config: Any = SimpleNamespace(set_calibration_profile=lambda _: None)
    with (
        pytest.raises(BuildFailedError, match="failed after 1 batches: "),
        calibrating(make(HostMemory()), config, request, lambda shapes: shapes),
    ):
        drive(config.int8_calibrator, ["x"], lambda *_: None)
    assert not (tmp_path / "ranges").exists()


def test_version_11_has_no_calibrator(tmp_path: Path) -> None:
    """By the name of the class that is missing."""
    request = replace(IMPLICIT, calibration="entropy", samples=str(tmp_path))
    with (
        pytest.raises(BuildFailedError, match="has no IInt8EntropyCalibrator2"),
        calibrating(make(HostMemory(), 11), SimpleNamespace(), request, lambda shapes: shapes),
    ):
        pytest.fail("the build began")


@pytest.mark.parametrize("native", [True, False])
def test_fake_builder_has_plugins_before_it_parses(native: bool) -> None:
    """Whatever the options: a graph may name one by itself, as ModelOpt's and users' own graphs do."""
    trt = make(HostMemory())

    def new_builder(_logger: object) -> None:
        assert trt._machine.plugins
        raise BuildFailedError("far enough")

    trt.Builder = new_builder
    with pytest.raises(BuildFailedError, match="far enough"):
        builder._plan(trt, None, [], replace(REQUEST, native_instancenorm=native))


def test_fake_builder_that_is_none_is_told_with_its_log() -> None:
    """The binding raises the same error whatever the cause is; the cause is in the log."""
    trt = make(HostMemory())
    lines: list[str] = []

    def new_builder(_logger: object) -> None:
        lines.append("[WARNING] CUDA initialization failure with error: 35. Please check your CUDA installation")
        raise TypeError("pybind11::init(): factory function returned nullptr")

    trt.Builder = new_builder
    with pytest.raises(BuildFailedError, match="CUDA initialization failure with error: 35"):
        builder._plan(trt, None, lines, REQUEST)
