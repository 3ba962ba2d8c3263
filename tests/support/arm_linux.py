"""Linux on ARM on a machine of another kind: Debian's Python and wheels for aarch64, run by QEMU.

The C library, Python, ONNX Runtime and this package are the real ones. The processor is emulated, after a core whose
``/proc/cpuinfo`` was recorded. System calls reach the kernel of this machine, and so do the paths that the folder does
not have: git is this machine's, and so are pages, clocks and the number of cores.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

import pytest

from pytest_quant.measure.lock import FOLDER_VARIABLE
from tests.support.compiled import NO_BYTECODE
from tests.support.example import ROOT
from tests.support.history_repository import outside_ci

RECORDED = ROOT / "tests" / "unit" / "environment" / "recorded_cpuinfo"
CORES = {"graviton2": "neoverse-n1", "raspberry_pi_4": "cortex-a72"}
"""QEMU's names of recorded processors."""

TOOLS = ("apt-get", "dpkg-deb", "qemu-aarch64")
"""``apt-get install qemu-user`` brings the last one."""

_WHEELS = tuple(f"--platform=manylinux{tag}_aarch64" for tag in ("2014", *(f"_2_{minor}" for minor in range(17, 37))))
"""Those that run with glibc 2.36, of Debian 12; pip takes none for older versions unless they are named too."""

_TIME_LIMIT_S = 1200


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that has this package.

    Attributes
    ----------
    python : runs as ``python`` does, and starts its children as it was started.
    paths : folders of its packages, beside those of its own.
    """

    python: Path
    paths: tuple[Path, ...]

    def run(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``python`` with `arguments` in `folder` to its end; it waits for no locks but those in there.

        What is compiled is kept: an emulated Python takes half a minute to compile what it imports.
        """
        variables = {name: value for name, value in outside_ci().items() if name != NO_BYTECODE}
        variables |= {"PYTHONPATH": os.pathsep.join(map(str, self.paths)), FOLDER_VARIABLE: str(folder / "locks")}
        return subprocess.run(
            [self.python, *arguments],
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIME_LIMIT_S,
        )


HERE = Interpreter(Path(sys.executable), (ROOT,))
"""The one that runs the tests."""


@dataclass(frozen=True, slots=True)
class ArmLinux:
    """Debian for ARM, as far as Python needs it.

    Attributes
    ----------
    debian : folder that its packages are unpacked into.
    packages : folder of this package and of those that it needs.
    """

    debian: Path
    packages: Path

    def on(self, processor: str) -> Interpreter:
        """Return its Python on a recorded processor, which has as many cores as this machine."""
        root, count = self.debian.with_name(processor), os.cpu_count() or 1
        root.mkdir()
        for part in self.debian.iterdir():
            (root / part.name).symlink_to(part)
        block = (RECORDED / f"{processor}.txt").read_text("utf-8")
        blocks = (block.replace(": 0", f": {number}", 1) for number in range(count))
        _write(root / "proc/cpuinfo", "".join(blocks))
        for name in ("possible", "present"):
            _write(root / "sys/devices/system/cpu" / name, f"0-{count - 1}\n")
        # Beside the real one, where Python looks for its library; it takes the name that it is called by for its own.
        python = root / "usr/bin" / f"python-on-{processor}"
        emulator = f"'{shutil.which('qemu-aarch64')}' -cpu {CORES[processor]} -L '{root}' -0 \"$0\""
        _write(python, f"#!/bin/sh\nexec {emulator} '{root}/usr/bin/python3' \"$@\"\n")
        python.chmod(0o755)
        return Interpreter(python, (self.packages, ROOT))


def install(folder: Path) -> ArmLinux:
    """Install Debian's Python, this package and what the example needs into `folder`.

    The test is skipped where a tool is missing, or where no packages of Debian for ARM can be had.
    """
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not on this machine: {', '.join(missing)}")
    debian = folder / "debian"
    _unpack_debian(folder / "apt", debian)
    python = (debian / "usr/bin/python3").readlink().name
    return ArmLinux(debian, _install_wheels(folder, python.removeprefix("python")))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


def _unpack_debian(work: Path, root: Path) -> None:
    """Unpack Python and what it needs; the system's own lists and packages are neither read nor changed."""
    status = work / "status"
    _write(status, "")
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "root",  # the folders of tests can be entered by nobody else
        "Dir::State": str(work / "state"),
        "Dir::State::status": str(status),
        "Dir::Cache": str(work / "cache"),
    }
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    apt = ("apt-get", "-q", *(f"-o{name}={value}" for name, value in settings.items()))
    download = ("install", "--download-only", "--yes", "--no-install-recommends", "python3", "libstdc++6")
    for words in (("update",), download):
        ended = _run(*apt, *words)
        if ended.returncode:
            pytest.skip(f"no packages of Debian for ARM can be had: {ended.stderr.strip()[-200:]}")
    for file in (work / "cache/archives").glob("*.deb"):
        unpacked = _run("dpkg-deb", "--extract", str(file), str(root))
        assert unpacked.returncode == 0, unpacked.stderr


def _install_wheels(folder: Path, version: str) -> Path:
    """Install this package, built from here, and wheels in the versions that are installed here, and return where."""
    built = _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "built"))
    assert built.returncode == 0, built.stdout + built.stderr
    (own,) = (folder / "built").iterdir()
    here = {each.name: each.version for each in distributions()}
    # A local version, such as that of a build without CUDA, is on no index.
    pins = (f"{name}=={number}\n" for name, number in here.items() if name != "pytest-quant" and "+" not in number)
    _write(folder / "constraints.txt", "".join(pins))
    packages = folder / "packages"
    installed = _run(
        *(sys.executable, "-m", "pip", "install", "--quiet", f"--target={packages}", "--only-binary=:all:"),
        *(f"--python-version={version}", "--implementation=cp", *_WHEELS, "-c", str(folder / "constraints.txt")),
        *(f"{own}[ort]", "scikit-learn"),
    )
    assert installed.returncode == 0, installed.stderr
    return packages


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_TIME_LIMIT_S)
