"""Follow what is advised: ``python -m tests.benchmarks.blame.pasted --folder DIR [--networks NAME,...] [--seeds N]``.

Checks of networks with planted faults fail; every piece of advice is pasted into its mark, and the check runs again.
The figure that it reaches must be the one that was promised. Engines are real, and so is the data.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pytest_quant.files import temporary_folder
from tests.benchmarks.blame.networks import networks
from tests.benchmarks.blame.plants import KINDS
from tests.benchmarks.blame.workshop import LEAST_DB, Workshop

PLANTED = ("channel", "scaled", "one_class", "few", "outlier", "nothing")
"""Kinds whose engine a mark can ask for: the fault is in the model or in the calibration samples."""

MOST_APART = 1e-3
"""Of the figure that was promised."""

CONFTEST = """
import numpy as np
import pytest
from pathlib import Path
from pytest_quant import Dataset


@pytest.fixture
def data(request):
    folder = Path(request.node.originalname.removeprefix("test_").partition("_at_")[0])
    both = [dict(np.load(folder / f"{part}.npz")) for part in ("evaluation", "calibration")]
    return Dataset.from_arrays(both[0], None, both[1])
"""


@dataclass(frozen=True, slots=True)
class Followed:
    """A piece of advice: what it promised of which limit, and what it gave; ``None`` where there is no figure."""

    name: str
    paste: str
    limit: str
    promised: float | None
    given: float | None

    @property
    def holds(self) -> bool:
        """Whether the figure is the one that was promised."""
        if self.promised is None or self.given is None:
            return self.promised is self.given
        return abs(self.given - self.promised) <= MOST_APART * abs(self.promised)


def write_cases(folder: Path, chosen: Sequence[str], backend: str, seeds: int) -> Iterator[tuple[str, str]]:
    """Write model and samples of each case, and yield its name and its mark."""
    for network in (networks()[name] for name in chosen):
        with temporary_folder() as work:
            shop = Workshop(network, backend, work)
            if network.missing() or shop.healthy[2] < LEAST_DB:
                continue
            for kind, seed in ((kind, seed) for kind in PLANTED for seed in range(seeds)):
                case = KINDS[kind](shop, seed)
                if case is None:
                    continue
                name = "_".join((network.name, kind, str(seed))).replace("-", "_").replace(".", "_")
                (folder / name).mkdir()
                (folder / name / "model.onnx").write_bytes(case.float_model.read_bytes())
                for part in ("evaluation", "calibration"):
                    np.savez(folder / name / f"{part}.npz", **getattr(case, part))
                yield (
                    name,
                    (
                        f"model='{name}/model.onnx', data='data', backend='{backend}', batch_size={case.batch}, "
                        f"min_coverage=0, min_sqnr_db={{'{case.output}': {case.limit_db:.2f}}}"
                    ),
                )


def run(folder: Path, marks: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Run a test for each mark in a process of its own, and return the checks by name."""
    tests = (f"@pytest.mark.quant({mark})\ndef test_{name}(): pass\n\n\n" for name, mark in marks.items())
    (folder / "test_marks.py").write_text("import pytest\n\n\n" + "".join(tests), "utf-8")
    document = folder / "run.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_marks.py", "--quant-no-latency"]
    command += [f"--quant-json={document}", f"--quant-diagnose-time={seconds:g}", "--quant-no-history"]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    checks = json.loads(document.read_text("utf-8"))["checks"]
    return {check["nodeid"].partition("::test_")[2].partition("[")[0]: check for check in checks}


def follow(folder: Path, marks: Mapping[str, str], seconds: float) -> Iterator[Followed]:
    """Run all checks, paste each piece of advice into its mark, and run all of them again."""
    before = run(folder, marks, seconds)
    hints = {
        f"{name}_{place}": (name, hint)
        for name, check in before.items()
        for place, hint in enumerate(each for each in check["hints"] if each["limit"])
    }
    after = run(folder, {key: f"{marks[name]}, {hint['paste']}" for key, (name, hint) in hints.items()}, 0.0)
    for key, (_, hint) in hints.items():
        figures = (each["observed"] for each in after[key]["verdicts"] if each["limit"] == hint["limit"])
        yield Followed(key, hint["paste"], hint["limit"], hint["after"], next(figures, None))


def main() -> int:
    """Print a line for each piece of advice that gave another figure, and how many gave theirs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="a new folder for the project")
    parser.add_argument("--networks", default=",".join(networks()), metavar="NAME[,NAME]")
    parser.add_argument("--backend", default="ort", choices=["ort", "openvino"])
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="cases of each kind; default: 1")
    parser.add_argument("--seconds", type=float, default=60.0, help="for the advice of one check; default: 60")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True)
    (chosen.folder / "conftest.py").write_text(CONFTEST, "utf-8")
    (chosen.folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    marks = {
        f"{name}_at_0": mark
        for name, mark in write_cases(chosen.folder, chosen.networks.split(","), chosen.backend, chosen.seeds)
    }
    found = [*follow(chosen.folder, marks, chosen.seconds)]
    for each in found:
        if not each.holds:
            sys.stdout.write(f"{each.name}: {each.paste}: promised {each.promised}, gave {each.given}\n")
    sys.stdout.write(f"{sum(each.holds for each in found)} of {len(found)} gave the figure that was promised\n")
    return 0 if found and all(each.holds for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
