"""``--quant-against`` and ``pytest-quant bisect`` on the example project: planted faults are found, and nothing else.

``python -m tests.benchmarks.two_commits`` makes a repository of the example in which one commit makes Magika slower by
a given share of its INT8 time and the digits 2 points worse, runs every case, and prints what was found; it ends with
1 when a case did not come out as planted. Names of cases run only those. It needs a quiet machine: 8 % are planted.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.support.example import ROOT, copy_example
from tests.support.history_repository import outside_ci

SLOWER = 0.08
WORSE = 0.6
"""What the images are multiplied by that calibrate the digits: activations are clipped, and about 2 points lost."""

STATIC = "test_magika.py::test_static_matmul_and_conv"
MAGIKA = "test_magika.py::"
PLANTED, COMMITS = 11, 16
RUNS, LAYERS = 100, 1000
OPTIONS = ("-q", "-W", "ignore", "-p", "no:anyio", "-p", "no:hypothesispytest", "--quant-diagnose-time=0")


@dataclass(frozen=True, slots=True)
class Project:
    """The example as a repository."""

    root: Path

    def git(self, *arguments: str) -> str:
        """Run git there and return what it prints."""
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
        command = ("git", *identity, *arguments)
        return subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, message: str) -> str:
        """Commit everything and return the id."""
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def run(self, *command: str) -> tuple[int, str]:
        """Run a module of Python there; returns its exit code and what it printed."""
        environment = outside_ci() | {"PYTHONPATH": str(ROOT), "COLUMNS": "160"}
        done = subprocess.run(
            [sys.executable, *command], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def against(self, *arguments: str) -> tuple[int, str, set[str]]:
        """Compare with another commit; the last of what is returned are the rows that regressed."""
        code, text = self.run("-m", "pytest", *OPTIONS, *arguments)
        section = text[text.find("= quant against") :] if "= quant against" in text else text[-3000:]
        found, test = set(), ""
        for line in section.splitlines():
            words = line.split()
            if words and "::" in words[0] and not line.startswith(" "):
                test = words[0]
            elif words[:1] == ["regression"]:
                found.add(f"{test} {words[1]}")
        return code, section, found


def make_project(folder: Path) -> Project:
    """Copy the example into a new repository."""
    project = Project(copy_example(folder))
    project.git("init", "-q", "-b", "main")
    (project.root / ".gitignore").write_text("__pycache__\n.quant\n.pytest_cache\n*.json\n")
    project.commit("the example")
    return project


def with_more_work(model: onnx.ModelProto, layers: int) -> onnx.ModelProto:
    """Return Magika with so many layers of its whole input beside it, whose mean times zero is added to its scores."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    output, given = graph.output[0].name, graph.input[0].name
    for node in graph.node:
        for place, name in enumerate(node.output):
            if name == output:
                node.output[place] = "scores_before"
    graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), "nothing"))
    graph.node.append(helper.make_node("Cast", [given], ["more_0"], name="more_cast", to=TensorProto.FLOAT))
    for number in range(layers):
        names = [f"more_{number}"], [f"more_{number + 1}"]
        graph.node.append(helper.make_node("Erf", *names, name=f"more_erf_{number}"))
    mean = helper.make_node("ReduceMean", [f"more_{layers}"], ["more_mean"], name="more_mean", axes=[1], keepdims=1)
    graph.node.append(mean)
    graph.node.append(helper.make_node("Mul", ["more_mean", "nothing"], ["more_nothing"], name="more_mul"))
    graph.node.append(helper.make_node("Add", ["scores_before", "more_nothing"], [output], name="more_add"))
    return made


def _layer_ms(model: onnx.ModelProto) -> float:
    """Return what one more layer takes: the difference of the fastest of many runs, which alternate."""
    import onnxruntime

    models = [with_more_work(model, layers) for layers in (1, 1 + LAYERS)]
    cpu = ["CPUExecutionProvider"]
    sessions = [onnxruntime.InferenceSession(one.SerializeToString(), providers=cpu) for one in models]
    feeds = {sessions[0].get_inputs()[0].name: np.full((1, 2048), 65, np.int32)}
    fastest = [float("inf")] * len(sessions)
    for _ in range(RUNS):
        for place, session in enumerate(sessions):
            began = time.perf_counter()
            session.run(None, feeds)
            fastest[place] = min(fastest[place], 1000.0 * (time.perf_counter() - began))
    assert fastest[0] < fastest[1], "this machine is too restless to tell what more work takes"
    return (fastest[1] - fastest[0]) / LAYERS


def plant_slower(project: Project, asked: int | None = None) -> str:
    """Give Magika a model whose INT8 engine has `SLOWER` more work, or so many layers; returns a line that says it."""
    _, _ = project.run("-m", "pytest", *OPTIONS, STATIC, "--quant-json=first.json", "--quant-no-history")
    p50_ms = json.loads((project.root / "first.json").read_text())["checks"][0]["latency"]["candidate_p50_ms"]
    place = project.run("-c", "from file_types import magika_model; print(magika_model())")[1].strip()
    model = onnx.load(place)
    layers = asked or max(1, round(SLOWER * p50_ms / _layer_ms(model)))
    onnx.save(with_more_work(model, layers), str(project.root / "magika_more.onnx"))
    _edit(project, 'Model.from_onnx(magika_model(), name="magika")',
          'Model.from_onnx(Path(__file__).with_name("magika_more.onnx"), name="magika")')  # fmt: skip
    return f"{layers} layers beside an INT8 run of {p50_ms:.3g} ms, meant to be {100.0 * SLOWER:g} % more"


def plant_worse(project: Project) -> None:
    """Calibrate the digits on darker images."""
    _edit(project, "calibration=split.calibration_images)", f"calibration={WORSE} * split.calibration_images)")


def _edit(project: Project, before: str, after: str) -> None:
    file = project.root / "conftest.py"
    text = file.read_text("utf-8")
    assert text.count(before) == 1, before
    file.write_text(text.replace(before, after), encoding="utf-8")


def _as_planted(found: set[str]) -> bool:
    """Whether both faults were found, and nothing else regressed; of Magika any test may be that much slower."""
    slower = {row for row in found if re.fullmatch(re.escape(MAGIKA) + r".* p50", row)}
    worse = {row for row in found if re.fullmatch(r"test_(digits|ladder)\.py::.* accuracy", row)}
    return f"{STATIC} p50" in found and bool(worse) and found == slower | worse


def faults(project: Project) -> Iterator[tuple[bool, str]]:
    """Compare the commit with both faults with the one before."""
    code, text, found = project.against("--quant-against", "HEAD~1")
    yield code == 1 and _as_planted(found), text


def empty(project: Project) -> Iterator[tuple[bool, str]]:
    """Compare a commit that changes nothing with the one before; equal engines are timed too.

    Below the faults, where no test breaks a limit of its own.
    """
    project.git("checkout", "-q", "--detach", "HEAD~1")
    project.commit("nothing")
    for options in ((), ("--quant-against-equal",)):
        code, text, found = project.against("--quant-against", "HEAD~1", *options)
        yield code == 0 and not found, text
    project.git("checkout", "-q", "main")


def shallow(project: Project) -> Iterator[tuple[bool, str]]:
    """Do the same in a clone of depth one, which fetches the base alone."""
    project.git("config", "uploadpack.allowAnySHA1InWant", "true")
    base = project.git("rev-parse", "HEAD~1")
    with tempfile.TemporaryDirectory() as folder:
        clone = Project(Path(folder) / "clone")
        project.git("clone", "-q", "--depth=1", f"file://{project.root}", str(clone.root))
        clone.git("fetch", "-q", "--depth=1", "origin", base)
        code, text, found = clone.against("--quant-against", base)
    yield code == 1 and _as_planted(found), text


def fork(project: Project) -> Iterator[tuple[bool, str]]:
    """Do the same at a commit without history."""
    base = project.git("rev-parse", "HEAD~1")
    project.git("checkout", "-q", "--detach", project.git("commit-tree", "HEAD^{tree}", "-m", "all of it"))
    code, text, found = project.against("--quant-against", base)
    project.git("checkout", "-q", "main")
    yield code == 1 and _as_planted(found), text


def bisect(project: Project) -> Iterator[tuple[bool, str]]:
    """Find the slow commit among sixteen that change nothing else."""
    tip = project.git("rev-parse", "HEAD")
    slower = {name: (project.root / name).read_bytes() for name in ("conftest.py", "magika_more.onnx")}
    project.git("checkout", "-q", "--detach", "HEAD~1")
    good = project.git("rev-parse", "HEAD")
    planted = ""
    for number in range(1, COMMITS + 1):
        if number == PLANTED:
            for name, content in slower.items():
                (project.root / name).write_bytes(content)
            planted = project.commit("the slow one")
        else:
            project.commit(f"commit {number}")
    command = "from pytest_quant.cli import main; main()"
    code, text = project.run("-c", command, "bisect", STATIC, good, "HEAD")
    project.git("checkout", "-q", "-f", "main")
    assert project.git("rev-parse", "HEAD") == tip
    yield code == 0 and f"first bad commit: {planted[:12]}" in text, text


CASES: dict[str, Callable[[Project], Iterator[tuple[bool, str]]]] = {
    "faults": faults,
    "empty": empty,
    "shallow": shallow,
    "fork": fork,
    "bisect": bisect,
}


def main(show: Callable[[str], object] = print) -> int:
    """Run the cases that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], default=[])
    parser.add_argument("--layers", type=int, help="of the slower model; beside other load the estimate is too small")
    arguments = parser.parse_args()
    asked = arguments.cases or list(CASES)
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder))
        show(plant_slower(project, arguments.layers))
        plant_worse(project)
        project.commit("both faults")
        for name in asked:
            began = time.monotonic()
            for right, text in CASES[name](project):
                show(f"\n{text}\n{name}: {'as planted' if right else 'NOT AS PLANTED'}")
                wrong += [] if right else [name]
            show(f"{name}: {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
