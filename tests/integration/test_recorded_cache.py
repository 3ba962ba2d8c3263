"""The project that commit b2e6abf ran is run again, on the history, the baselines and the cache that commit left.

Entries were not signed then, so the cache is named among those that the settings trust.

Keys are compared without what differs from machine to machine, and without the numbers of recipes that were raised
since because engines are built otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import pytest

from pytest_quant.backends import get_backend
from pytest_quant.cache.manifest import StoredEntry, UnsignedEntryError, key_of, read_manifest, verify
from pytest_quant.cache.store import list_entries
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

PYTORCH = "module"
"""The model of the test in the first of them."""

SECOND = recorded_documents()[1]


@dataclass(frozen=True, slots=True)
class Again:
    """The run of today's code, and the entries of its cache: those of the old code, and those that it has used."""

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
    old = list_entries(unpack_cache(project / ".quant"))
    baselines = project / NAME
    baselines.write_text(baselines.read_text("utf-8").replace("\ndrop = 0.0\n", f"\ndrop = {ACCEPTED_DROP}\n"), "utf-8")
    left_out = (f"--deselect={test}" for test in NOT_RUN)
    trust = f"quant_cache_trust={project / '.quant' / 'cache'}"
    found = run_example(project, "--quant-no-latency", "-o", trust, *left_out, locks=folder)
    # The entries were packed with one date, long before today.
    used = [one for one in list_entries(project / ".quant" / "cache") if one.last_used > old[0].last_used]
    return Again(project, found, old, tuple(used))


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> tuple[StoredEntry, ...]:
    """The old cache as it was."""
    return list_entries(unpack_cache(tmp_path_factory.mktemp("cache")))


def decided(entry: StoredEntry) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """Return kind, slot and what else decides the key of `entry`; of the machine's ingredients their names only."""
    kept = {name: "" if _is_free(entry, name) else value for name, value in entry.ingredients.items()}
    return entry.kind, entry.slot, tuple(sorted(kept.items()))


def _is_free(entry: StoredEntry, name: str) -> bool:
    plain = name.removeprefix("calibration ")
    return plain in OF_THE_MACHINE or (plain == "recipe" and entry.slot.startswith(tuple(one for one, _ in RAISED)))


def of_kind(found: Iterable[StoredEntry], *kinds: str) -> set[tuple[str, str, tuple[tuple[str, str], ...]]]:
    """Return what decides the keys of all entries of these kinds, but those of the PyTorch model."""
    return {decided(one) for one in found if one.kind in kinds and not one.slot.endswith(f" of {PYTORCH}")}


def test_old_entries_are_read_and_have_the_keys_of_their_ingredients(entries: tuple[StoredEntry, ...]) -> None:
    """Each manifest with its checksum; and the files of all but PyTorch's, which were not recorded."""
    assert {one.kind for one in entries} == {"engine", "calibration", "reference", "export"}
    for one in entries:
        assert key_of(one.kind, one.ingredients) == one.key == read_manifest(one.folder).key
        if not one.slot.endswith(f" of {PYTORCH}") or one.kind == "reference":
            assert verify(one.folder, one.key, None).slot == one.slot


def test_old_entries_do_not_count_where_nobody_trusts_them(entries: tuple[StoredEntry, ...]) -> None:
    """They are not signed, whatever key one has."""
    for one in entries:
        if not one.slot.endswith(f" of {PYTORCH}") or one.kind == "reference":
            with pytest.raises(UnsignedEntryError, match="not signed"):
                verify(one.folder, one.key, b"any key")


def test_keys_are_made_of_the_same_ingredients(again: Again) -> None:
    """Engines and outputs of references one for one; a calibration where its engine was built anew."""
    built = ("engine", "reference")
    assert of_kind(again.used, *built) == of_kind(again.old, *built)
    assert of_kind(again.used, "calibration") <= of_kind(again.old, "calibration")
    recipes = {
        (one.slot.partition("-")[0], one.ingredients["recipe"]) for one in again.old if "recipe" in one.ingredients
    }
    assert recipes >= RAISED


def test_an_old_engine_is_used_where_its_runtime_is_the_same(again: Again) -> None:
    """The backend in numpy has the recipe and the ingredients it had: where versions are equal nothing is built."""
    (plain,) = [one for one in again.old if one.kind == "engine" and one.slot.startswith("plain-int8")]
    same = all(plain.ingredients[name] == version(name) for name in ("numpy", "onnx"))
    assert again.run.checks["test_others.py::test_plain"]["cache"]["engine"] == ("hit" if same else "built")
    assert (plain.key in {one.key for one in again.used}) == same


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
