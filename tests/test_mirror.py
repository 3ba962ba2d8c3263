"""`tests/unit` mirrors the package, so that the tests of a module are found without a search."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[1]

ELSEWHERE = {
    "backends.cuda.*": "tests/integration/trt_traps",
    "backends.onnx_files.*": "tests/integration/ort_traps",
    "backends.openvino.*": "tests/integration/openvino_traps",
    "backends.ort.*": "tests/integration/ort_traps",
    "backends.remedy": "tests/unit/diagnose/test_effect.py",
    "backends.torch.*": "tests/integration/torch_traps",
    "backends.trt.*": "tests/integration/trt_traps",
    "cli.doctor": "tests/integration/test_doctor.py",
    "cli.init": "tests/integration/test_init.py",
    "cli.profile": "tests/integration/test_profile.py",
    "cli.selftest": "tests/integration/test_selftest.py",
    "data.batch": "tests/unit/data/test_opening.py",
    "data.source": "tests/unit/data/test_bad_data.py",
    "errors": "tests/integration/test_short_messages.py",
    "history.append": "tests/unit/history/test_store.py",
    "history.compare.facts": "tests/unit/history/compare/test_whole_rows.py",
    "history.summaries": "tests/unit/history/test_queries.py",
    "marks.*": "tests/unit/marks",
    "measure.bench": "tests/unit/measure/test_pipeline.py",
    "measure.sessions": "tests/unit/measure/test_timing.py",
    "measure.timing_worker": "tests/unit/measure/test_timing_process.py",
    "plugin.against": "tests/integration/test_against.py",
    "plugin.benchmark_bridge": "tests/integration/test_benchmark_bridge_contract.py",
    "plugin.console": "tests/integration/test_progress_lines.py",
    "plugin.check": "tests/integration/test_statuses.py",
    "plugin.devices": "tests/integration/test_devices_fake.py",
    "plugin.fixtures": "tests/integration/test_fixtures.py",
    "plugin.hooks": "tests/integration/test_record_hook.py",
    "plugin.leave": "tests/integration/test_against.py",
    "plugin.profiling": "tests/integration/test_profile.py",
    "plugin.outputs": "tests/integration/test_pull_request.py",
    "record.kept_samples": "tests/unit/record/test_build.py",
    "record.record": "tests/unit/record/test_codec.py",
    "report.columns": "tests/unit/report/test_summary.py",
    "report.comparison_*": "tests/unit/report/test_comparison.py",
    "report.details": "tests/unit/report/test_screens.py",
    "report.meaning": "tests/unit/report/test_screens.py",
    "report.series": "tests/unit/cli/test_series.py",
    "result.*": "tests/unit/record/test_build.py",
    "sides.run": "tests/integration/test_against.py",
    "spec.*": "tests/unit/marks/test_check.py",
    "strategies.*": "tests/integration/test_properties.py",
    "testing.conformance.*": "tests/conformance",
    "testing.numpy_*": "tests/conformance/test_backends.py",
}
"""Where modules without a file of their own are tested: on real engines, in runs of pytest, or with their user."""


def _modules() -> dict[str, Path]:
    """Return the file that `tests/unit` has for each module of the package, whether it is there or not."""
    found = {}
    for path in (ROOT / "pytest_quant").rglob("*.py"):
        place = path.relative_to(ROOT / "pytest_quant").with_suffix("")
        if place.name != "__init__":
            found[".".join(place.parts)] = ROOT / "tests" / "unit" / place.parent / f"test_{place.name}.py"
    return found


def _mirrored(path: Path) -> bool:
    """Whether the file is there; of a module that only runs with a fake the name of the file says so."""
    return path.exists() or path.with_stem(f"{path.stem}_fake").exists()


def test_each_module_has_its_test_file_or_a_line_that_says_where_else() -> None:
    """A new module gets one of both."""
    homeless = [
        name
        for name, path in _modules().items()
        if not _mirrored(path) and not any(fnmatchcase(name, pattern) for pattern in ELSEWHERE)
    ]
    assert homeless == []


def test_each_line_is_needed_and_true() -> None:
    """What it names is there, and the module has no file of its own."""
    without = [name for name, path in _modules().items() if not _mirrored(path)]
    assert [pattern for pattern in ELSEWHERE if not any(fnmatchcase(name, pattern) for name in without)] == []
    assert [place for place in ELSEWHERE.values() if not (ROOT / place).exists()] == []


def test_each_folder_of_unit_tests_is_one_of_the_package() -> None:
    """Otherwise its tests would be looked for in vain."""
    folders = {
        path.parent.relative_to(ROOT / "tests" / "unit") for path in (ROOT / "tests" / "unit").rglob("test_*.py")
    }
    assert [str(folder) for folder in folders if not (ROOT / "pytest_quant" / folder).is_dir()] == []
