"""Options on the command line and in the ini file, and the settings that they give."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from pytest_quant.check_runner import DIAGNOSE_S
from pytest_quant.measure.lock import LOCK_TIMEOUT_S
from pytest_quant.measure.steps import STEP_TIMEOUT_S
from pytest_quant.plugin.settings import OPTIONS, read_settings, settings_of
from pytest_quant.sides.side_comparison import LIMIT_PCT
from pytest_quant.spec import LatencyPlan


def test_defaults(pytester: pytest.Pytester) -> None:
    """Nothing given: everything lies under the root, nothing is required, and times are those of what they bound."""
    config = pytester.parseconfig()
    assert vars(read_settings(config)) == {
        "backend": "ort",
        "strict": False,
        "require": (),
        "json_file": None,
        "html_file": None,
        "markdown_file": None,
        "cache": pytester.path / ".quant" / "cache",
        "cache_remote": None,
        "history": str(pytester.path / ".quant" / "history.db"),
        "no_history": False,
        "compare": False,
        "compare_base": None,
        "against": None,
        "against_env": None,
        "against_limit_pct": LIMIT_PCT,
        "against_equal": False,
        "latency_off": "",
        "accuracy_off": "",
        "confidence": None,
        "max_time_s": LatencyPlan().max_s,
        "launches": 1,
        "diagnose_s": DIAGNOSE_S,
        "lock_timeout_s": LOCK_TIMEOUT_S,
        "pages": "huge",
        "step_timeout_s": STEP_TIMEOUT_S,
        "cpus": "",
        "portability_off": "",
        "simulate": None,
        "device": None,
        "columns": (),
        "workers": "",
    }
    assert settings_of(config) is settings_of(config)


WRITTEN: list[tuple[str, str, str, object]] = [
    ("quant_backend", "trt", "backend", "trt"),
    ("quant_require", "ort,\n  trt", "require", ("ort", "trt")),
    ("quant_json", "out/run.json", "json_file", Path("out/run.json")),
    ("quant_html", "page.html", "html_file", Path("page.html")),
    ("quant_markdown", "quant.md", "markdown_file", Path("quant.md")),
    ("quant_cache", "c", "cache", Path("c")),
    ("quant_cache_remote", "s3://engines/main", "cache_remote", "s3://engines/main"),
    ("quant_compare_base", "v1.0", "compare_base", "v1.0"),
    ("quant_against", "v0.9", "against", "v0.9"),
    ("quant_against_env", "python3", "against_env", "python3"),
    ("quant_against_limit", "3%", "against_limit_pct", 3.0),
    ("quant_confidence", "0.9", "confidence", 0.9),
    ("quant_max_time", "3", "max_time_s", 3.0),
    ("quant_launches", "auto", "launches", "auto"),
    ("quant_diagnose_time", "0", "diagnose_s", 0.0),
    ("quant_lock_timeout", "20", "lock_timeout_s", 20.0),
    ("quant_step_timeout", "0", "step_timeout_s", 0.0),
    ("quant_pages", "small", "pages", "small"),
    ("quant_simulate", "SM89", "simulate", "SM89"),
    ("quant_device", "cuda:1", "device", "cuda:1"),
    ("quant_columns", "model, drop", "columns", ("model", "drop")),
    ("quant_workers", "local:2", "workers", "local:2"),
]
"""Option, text, attribute and value of each option with a value, but the history."""
FLAGS = ("quant_strict", "quant_against_equal", "quant_no_latency")


@pytest.mark.parametrize("in_file", [False, True], ids=["command line", "ini file"])
def test_every_option_is_read(pytester: pytest.Pytester, in_file: bool) -> None:
    """By the same names from both; paths start where pytest was started, which is the root here."""
    ini = [f"{name} = {text}" for name, text, _, _ in WRITTEN] + [f"{name} = true" for name in FLAGS]
    args = [f"--{name}={text}".replace("_", "-") for name, text, _, _ in WRITTEN]
    args += [f"--{name}".replace("_", "-") for name in FLAGS]
    before = vars(read_settings(pytester.parseconfig()))
    pytester.makeini("\n".join(["[pytest]", *(ini if in_file else [])]))
    result = vars(read_settings(pytester.parseconfig(*([] if in_file else args))))
    values = {field: pytester.path / value if isinstance(value, Path) else value for _, _, field, value in WRITTEN}
    on = {"strict": True, "against_equal": True, "compare": True, "latency_off": "--quant-no-latency is set"}
    assert result == before | values | on


def test_the_command_line_wins_over_the_ini_file(pytester: pytest.Pytester) -> None:
    """What is written for one run counts."""
    pytester.makeini("[pytest]\nquant_backend = trt\nquant_cache = c\n")
    result = read_settings(pytester.parseconfig("--quant-backend=ort", f"--quant-cache={Path('/x')}"))
    assert (result.backend, result.cache) == ("ort", Path("/x"))


def test_a_folder_is_no_history(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is named; the records would go into a file beside it, and those of ``/`` nowhere."""
    pytester.makeini("[pytest]\nquant_history = .\n")
    for config in (pytester.parseconfig(), pytester.parseconfig("--quant-history=/")):
        with pytest.raises(pytest.UsageError, match="is a folder; name a file in it"):
            read_settings(config)
    monkeypatch.setenv("PYTEST_QUANT_HISTORY", "..")
    with pytest.raises(pytest.UsageError, match="is a folder; name a file in it"):
        read_settings(pytester.parseconfig())


def test_the_environment_names_a_history(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """It wins over the ini file, and the command line over both; a path starts where pytest was started."""
    pytester.makeini("[pytest]\nquant_history = ini.db\n")
    configs = [pytester.parseconfig(), pytester.parseconfig("--quant-history=told.db")]
    for location, expected in (("env.db", str(pytester.path / "env.db")), ("postgresql+psycopg://u@/h",) * 2):
        monkeypatch.setenv("PYTEST_QUANT_HISTORY", location)
        result = [read_settings(config).history for config in configs]
        assert result == [expected, str(pytester.path / "told.db")]
    monkeypatch.delenv("PYTEST_QUANT_HISTORY")
    assert read_settings(configs[0]).history == str(pytester.path / "ini.db")


def test_no_history_wins_over_a_history(pytester: pytest.Pytester) -> None:
    """Nothing is added anywhere."""
    assert read_settings(pytester.parseconfig("--quant-no-history", "--quant-history=h.db")).history is None


@pytest.mark.parametrize("option", ["--benchmark-disable", "--benchmark-skip"])
def test_pytest_benchmarks_switches_turn_our_timing_off(pytester: pytest.Pytester, option: str) -> None:
    """The reason names the option."""
    assert read_settings(pytester.parseconfig(option)).latency_off == f"{option} is set"


def test_one_of_accuracy_and_latency_is_measured(pytester: pytest.Pytester) -> None:
    """Nothing would be left without both, whichever option turns latency off; what undoes one of them helps."""
    assert read_settings(pytester.parseconfig("--quant-only-latency")).accuracy_off == "--quant-only-latency is set"
    pytester.makeini("[pytest]\nquant_only_latency = true\n")
    for option in ("--quant-no-latency", "--benchmark-disable"):
        with pytest.raises(pytest.UsageError, match=f"leaves nothing to measure: {option} is set"):
            read_settings(pytester.parseconfig(option))
        undone = read_settings(pytester.parseconfig(option, "--no-quant-only-latency"))
        assert (undone.accuracy_off, undone.latency_off) == ("", f"{option} is set")


HEADINGS = {"everyday": "--quant-html", "speed": "--quant-no-latency", "CI": "--quant-require", "GPU": "--quant-device"}
"""Of the help, with the first option under each."""


def test_every_option_is_in_the_help_under_a_heading(pytester: pytest.Pytester) -> None:
    """With its text, and by its name for the ini file; no spelling denies twice."""
    text = pytester.runpytest("--help").stdout.str()
    words = " ".join(text.split())
    for option in OPTIONS:
        assert f"  {option.flag}" in text
        assert f"  {option.name} (" in text
        assert words.count(" ".join(option.help.split())[:40]) == 1
    assert not re.search(r"-no-\S*no-", text)
    starts = [text.index(f"\nquantized models, {heading}:\n  {first}") for heading, first in HEADINGS.items()]
    assert starts == sorted(starts)


def test_a_flag_of_the_ini_file_is_undone(pytester: pytest.Pytester) -> None:
    """For one run, by ``--no-quant-strict`` or ``--quant-with-latency``; of both on one line the last counts."""
    assert {row.undone_by for row in OPTIONS if row.kind is None} >= {"--no-quant-strict", "--quant-with-latency"}
    for option in (row for row in OPTIONS if row.kind is None):
        undone, on = option.undone_by, ("-o", f"{option.name}=true")
        given = {(): True, (undone,): False, (option.flag, undone): False, (undone, option.flag): True}
        for args, expected in given.items():
            assert option.value(pytester.parseconfig(*on, *args)) is expected


BAD = [
    ("quant_confidence", "nan", "strictly between 0 and 1"),
    ("quant_confidence", "high", "is not a level strictly between 0 and 1; write 0.95"),
    ("quant_max_time", "inf", "is not a time above 0"),
    ("quant_max_time", "soon", "is not a time above 0 in seconds; write 30"),
    ("quant_launches", "0", "write auto, or 1 to 100"),
    ("quant_simulate", "8.9", "is not a compute capability; write SM89"),
    ("quant_require", " ,", "is not a list of names with commas between them; write ort,trt"),
    ("quant_backend", " ", "is not a name, for example ort"),
    ("quant_json", ".", "is not the name of a file"),
    *(
        ("quant_workers", value, "is not workers of Dask; write local:2, or the address of a scheduler, tls://")
        for value in ("local:0", "local:x", "local", "tcp://host", "tcp://host:0", "http://host:8786")
    ),
    ("quant_workers", "tcp://me:secret@host:8786", "'tcp://***@host:8786' is not workers of Dask"),
]


def test_a_bad_value_is_a_usage_error(pytester: pytest.Pytester) -> None:
    """Before anything is collected, from the command line and from the ini file."""
    for name, value, words in BAD:
        with pytest.raises(pytest.UsageError, match=re.escape(words)):
            pytester.parseconfig(f"--{name.replace('_', '-')}={value}")
        with pytest.raises(pytest.UsageError, match=re.escape(words)):
            read_settings(pytester.parseconfig("-o", f"{name}={value}"))


CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--quant-ours")
"""


def test_a_misspelt_option_is_a_usage_error_that_names_the_nearest(pytester: pytest.Pytester) -> None:
    """One of the user's own conftest is none, whatever it begins with."""
    pytester.makeconftest(CONFTEST)
    assert pytester.parseconfig("--quant-ours=1", "--quant-strict").getoption("quant_strict")
    for wrong, nearest in (("--quant-htm", "html"), ("--quant-nolatency", "no-latency"), ("--no-quant-strt", "strict")):
        with pytest.raises(pytest.UsageError) as caught:
            pytester.parseconfig("--quant-ours=1", f"{wrong}=x")
        hint = f"  allowed: did you mean '--quant-{nearest}'?"
        assert str(caught.value).splitlines()[:2] == [f"there is no option {wrong}", hint]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--quant-columns=model,dropp", "*there is no column 'dropp'*did you mean 'drop'?*"),
        ("--quant-require=ort,otr", "ERROR: --quant-require: unknown backend 'otr'; did you mean 'ort'?*"),
        ("--quant-backend=otr", "ERROR: --quant-backend: unknown backend 'otr'; did you mean 'ort'?*"),
    ],
)
def test_an_unknown_name_is_a_usage_error_that_names_the_nearest(
    pytester: pytest.Pytester, option: str, words: str
) -> None:
    """A typing error ends the run before it begins."""
    result = pytester.runpytest_subprocess(option)  # numpy cannot be loaded twice in one process
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert fnmatchcase(" ".join(result.errlines), words)
