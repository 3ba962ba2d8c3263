"""The same checks for modules of PyTorch, which `Model.from_torch` brings to every runtime."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from pathlib import Path

import numpy as np

from tests.zoo.project import CONFTEST, TEST, TESTS, Combination

FIXTURES = """
import torch

from tests.zoo.modules import build, inputs


def network(name):
    return Model.from_torch(build(name), (inputs(name, 2, 0),), name=name)


def numbers(name):
    module, samples = build(name), inputs(name, 48, 1)
    with torch.no_grad():
        found = module(samples)
    first = found[0] if isinstance(found, tuple) else found
    labels = first.argmax(1).numpy() if first.ndim == 2 else None
    return Dataset.from_arrays(samples.numpy(), labels, calibration=inputs(name, 32, 2).numpy())
"""

FIXTURE = """

@pytest.fixture
def {name}():
    return network({name!r})


@pytest.fixture
def {name}_data():
    return numbers({name!r})
"""


def write_modules_project(folder: Path, combinations: Iterable[Combination]) -> None:
    """Write conftest.py and one test for each combination; labels are what the module itself answers."""
    from tests.zoo.modules import ARCHITECTURES, inputs

    combinations = list(combinations)
    names = sorted({one.model for one in combinations})
    fixtures = "".join(FIXTURE.format(name=name) for name in names)
    (folder / "conftest.py").write_text(CONFTEST + FIXTURES + fixtures)
    tests = [TESTS]
    for combination in combinations:
        mark = f"model={combination.model!r}, data='{combination.model}_data', {combination.mark}"
        tests.append(TEST.format(mark=mark, identity=combination.identity))
    (folder / "test_models.py").write_text("".join(tests))
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name in names:
        samples = inputs(name, 48, 1).numpy()
        taken = list(signature(ARCHITECTURES[name].forward).parameters)[1]
        np.savez(
            folder / f"{name}.evaluation.npz", **{f"{index}|{taken}": sample for index, sample in enumerate(samples)}
        )
