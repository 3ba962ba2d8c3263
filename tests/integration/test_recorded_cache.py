"""The project that commit b2e6abf ran is run again, on the history, the baselines and the cache that commit left.

Entries had another schema then, so each is built anew in its place, under the key it had. Keys are compared without
what differs from machine to machine, and without the numbers of recipes that were raised since because engines are
built otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pytest_quant.backends import get_backend
from pytest_quant.cache.entry import MANIFEST, DamagedEntryError, StoredEntry, key_of, list_entries, read_manifest
from pytest_quant.history import open_store
from pytest_quant.history.baselines.file import NAME, read_baselines
from pytest_quant.spec import EngineSpec, Model
from tests.recorded_history import RECORDED, clone_project, import_history, recorded_documents, unpack_cache
from tests.support.example import ExampleRun, run_example

OF_THE_MACHINE = {
    *("numpy", "onnx", "onnxruntime", "openvino", "nncf", "torch", "torchao", "onnxscript"),
    *("instruction set", "reduce_range", "overflow_fix", "activation_type"),
}
"""Versions, the instruction set, and the choices that it decides where the mark leaves them open."""

RAISED = {("ort", "1"), ("openvino", "2"), ("torch", "1")}
"""Recipes of b2e6abf that another one follows: engines are built otherwise since."""

ACCEPTED_DROP = -0.25
"""Put in the place of the drops that were accepted: those of the merge base are 0 too, and would serve as well."""

NOT_RUN = ("test_torch.py", "test_others.py::test_elsewhere")
"""What takes long, and what runs on a GPU only, where its series would name the metric."""

PLAIN = "plain-int8"
"""Engines of the backend in numpy, whose calibration has all that decides an engine among its ingredients since."""

PYTORCH = "module"
"""The model of the test in the first of them."""

SECOND = recorded_documents()[1]


@dataclass(frozen=True, slots=True)
class Again:
    """The run of today's code, and the entries of its cache: those of the old code, and those that it has built."""

    project: Path
    run: ExampleRun
    old: tuple[StoredEntry, ...]
    used: tuple[StoredEntry, ...]


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Again:
    """The second commit's run once more, with other accepted drops; latencies are of no interest."""
    for module in ("onnxruntime", "openvino", "nncf"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("again")
    project = clone_project(folder / "project")
    (project / ".quant").mkdir()
    import_history(project / ".quant")
    old = recorded_entries(unpack_cache(project / ".quant"))
    baselines = project / NAME
    baselines.write_text(baselines.read_text("utf-8").replace("\ndrop = 0.0\n", f"\ndrop = {ACCEPTED_DROP}\n"), "utf-8")
    left_out = (f"--deselect={test}" for test in NOT_RUN)
    run = run_example(project, "--quant-no-latency", *left_out, locks=folder)
    used = [entry for entry in list_entries(project / ".quant" / "cache") if entry.readable]
    return Again(project, run, old, tuple(used))


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> tuple[StoredEntry, ...]:
    """The old cache as it was."""
    return recorded_entries(unpack_cache(tmp_path_factory.mktemp("cache")))


def recorded_entries(root: Path) -> tuple[StoredEntry, ...]:
    """Return the old entries with what their manifests of schema 1 say they were made from."""
    manifests = {entry.key: json.loads((entry.folder / MANIFEST).read_text("utf-8")) for entry in list_entries(root)}
    assert {manifest["schema"] for manifest in manifests.values()} == {1}
    return tuple(
        replace(entry, slot=manifests[entry.key]["slot"], ingredients=manifests[entry.key]["ingredients"])
        for entry in list_entries(root)
    )


def decided(entry: StoredEntry) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """Return kind, slot and what else decides the key of `entry`; of the machine's ingredients their names only."""
    kept = {name: "" if _is_free(entry, name) else value for name, value in entry.ingredients.items()}
    return entry.kind, entry.slot, tuple(sorted(kept.items()))


def _is_free(entry: StoredEntry, name: str) -> bool:
    plain = name.removeprefix("calibration ")
    return plain in OF_THE_MACHINE or (plain == "recipe" and entry.slot.startswith(tuple(one for one, _ in RAISED)))


def of_kind(found: Iterable[StoredEntry], *kinds: str) -> set[tuple[str, str, tuple[tuple[str, str], ...]]]:
    """Return what decides the keys of all entries of these kinds, but those of the PyTorch model and of `PLAIN`."""
    return {
        decided(one)
        for one in found
        if one.kind in kinds and not one.slot.endswith(f" of {PYTORCH}") and not one.slot.startswith(PLAIN)
    }


def test_old_entries_have_the_keys_of_their_ingredients(entries: tuple[StoredEntry, ...]) -> None:
    """Of every kind."""
    assert {entry.kind for entry in entries} == {"engine", "calibration", "reference", "export"}
    assert [key_of(entry.kind, entry.ingredients) for entry in entries] == [entry.key for entry in entries]


def test_old_entries_are_not_read(entries: tuple[StoredEntry, ...]) -> None:
    """Their manifests are those of another schema."""
    for entry in entries:
        with pytest.raises(DamagedEntryError):
            read_manifest(entry.folder)


def test_keys_are_made_of_the_same_ingredients(again: Again) -> None:
    """Engines and outputs of references one for one; a calibration where its engine needs one."""
    built = ("engine", "reference")
    assert of_kind(again.used, *built) == of_kind(again.old, *built)
    assert of_kind(again.used, "calibration") <= of_kind(again.old, "calibration")
    recipes = {
        (one.slot.partition("-")[0], one.ingredients["recipe"]) for one in again.old if "recipe" in one.ingredients
    }
    assert recipes >= RAISED


def test_keys_of_pytorch_are_made_of_the_same_ingredients(entries: tuple[StoredEntry, ...]) -> None:
    """Those of its engine, and of the export to ONNX for the reference."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchao")
    from pytest_quant.backends.torch.export import export_ingredients

    linear = torch.nn.Linear(8, 4, bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.eye(4, 8))
    model = Model.from_torch(linear.eval(), (torch.zeros(2, 8),), name=PYTORCH)
    engine = get_backend("torch").ingredients(EngineSpec("torch", "int8", "dynamic", model))
    for kind, ingredients in (("engine", engine), ("export", export_ingredients(model))):
        (old,) = [one for one in entries if one.kind == kind and one.slot.startswith(("torch-", "ONNX of "))]
        assert decided(old) == decided(replace(old, ingredients=ingredients))


def test_series_have_the_keys_they_had(again: Again) -> None:
    """Of every test that is run, by its node id."""
    recorded = {check["nodeid"]: check["series"] for check in SECOND["checks"]}
    run = {name: series for name, series in recorded.items() if not name.startswith(NOT_RUN)}
    assert {name: check["series"] for name, check in again.run.checks.items()} == run


def test_the_old_history_goes_on(again: Again) -> None:
    """The new run is the fourth, and each of its checks the fourth point of an old series."""
    store = open_store(str(again.project / ".quant" / "history.db"))
    lines = (RECORDED / "series.jsonl").read_text("utf-8").splitlines()
    old = {series["key"]: series["n_points"] for series in map(json.loads, lines)}
    new = [check["series"] for check in again.run.document["checks"]]
    assert len(store.runs()) == 4
    assert {series.key: series.n_points for series in store.series()} == {
        key: n + new.count(key) for key, n in old.items()
    }


def test_the_old_baselines_judge(again: Again) -> None:
    """The limit's figure is the drop of today less the accepted one, on data that have the digest they had."""
    entries = read_baselines(again.project / NAME)
    for name in ("static", "dynamic"):
        check = again.run.checks[f"test_ort.py::test_schemes[ort-int8-{name}]"]
        (verdict,) = [one for one in check["verdicts"] if one["limit"] == "max_drop_increase"]
        assert verdict["observed"] == pytest.approx(check["accuracy"]["drop"] - ACCEPTED_DROP)
        assert check["digests"]["data"] == entries[check["series"]].data
