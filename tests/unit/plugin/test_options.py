"""Options on the command line and in the ini file, and what is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.plugin.options import OPTIONS, Option, Settings, option_value, settings_of


def test_every_option_is_in_the_help_twice(pytester: pytest.Pytester) -> None:
    """Once for the command line, once for the ini file, each with a text."""
    text = pytester.runpytest("--help").stdout.str()
    words = " ".join(text.split())
    for option in OPTIONS:
        assert f"  {option.flag}" in text
        assert f"  {option.name} (" in text
        assert words.count(" ".join(option.help.split())[:40]) == 2


def test_the_mark_is_documented(pytester: pytest.Pytester) -> None:
    """``--markers`` has every key."""
    text = pytester.runpytest("--markers").stdout.str()
    assert "@pytest.mark.quant(**keys):" in text
    assert "max_drop: loss against the reference" in text


def test_defaults(pytester: pytest.Pytester) -> None:
    """Nothing given: everything lies under the root, and nothing is required."""
    config = pytester.parseconfig()
    assert Settings.from_config(config) == Settings(
        backend="ort",
        strict=False,
        require=(),
        json_file=None,
        cache=pytester.path / ".quant" / "cache",
        cache_trust=(),
        history=str(pytester.path / ".quant" / "history.db"),
        compare=False,
        compare_base=None,
        latency_off="",
        confidence=None,
        max_time_s=None,
        diagnose_s=None,
        lock_timeout_s=None,
        lock_clocks=False,
        step_timeout_s=None,
        simulate=None,
        columns=(),
    )
    assert settings_of(config) is settings_of(config)


def test_every_option_is_read_from_the_command_line(pytester: pytest.Pytester) -> None:
    """Paths start where pytest was started."""
    args = ["--quant-backend=trt", "--quant-strict", "--quant-require=ort,trt", "--quant-json=run.json"]
    args += ["--quant-cache=c", "--quant-history=h.db", "--quant-no-latency", "--quant-confidence=0.9"]
    args += ["--quant-max-time=3", "--quant-diagnose-time=0", "--quant-columns=model,drop", "--quant-simulate=SM89"]
    args += ["--quant-compare-base=v1.0", "--quant-lock-timeout=20", "--quant-lock-clocks", "--quant-step-timeout=0"]
    assert Settings.from_config(pytester.parseconfig(*args)) == Settings(
        backend="trt",
        strict=True,
        require=("ort", "trt"),
        json_file=pytester.path / "run.json",
        cache=pytester.path / "c",
        cache_trust=(),
        history=str(pytester.path / "h.db"),
        compare=True,
        compare_base="v1.0",
        latency_off="--quant-no-latency is set",
        confidence=0.9,
        max_time_s=3.0,
        diagnose_s=0.0,
        lock_timeout_s=20.0,
        lock_clocks=True,
        step_timeout_s=0.0,
        simulate="SM89",
        columns=("model", "drop"),
    )


def test_folders_to_trust_are_read_from_the_ini_file(pytester: pytest.Pytester) -> None:
    """One in each line, relative to the file; there is no flag for them."""
    pytester.makeini("[pytest]\nquant_cache_trust =\n    shared/cache\n    /opt/engines\n")
    found = Settings.from_config(pytester.parseconfig()).cache_trust
    assert found == (pytester.path / "shared" / "cache", Path("/opt/engines"))


def test_every_option_is_read_from_the_ini_file(pytester: pytest.Pytester) -> None:
    """The names are the same, paths start at the root, and a list may take several lines."""
    pytester.makeini(
        """
        [pytest]
        quant_backend = trt
        quant_strict = true
        quant_require =
            ort
            trt
        quant_json = out/run.json
        quant_cache = c
        quant_history = sqlite:///elsewhere.db
        quant_no_latency = true
        quant_confidence = 0.9
        quant_max_time = 3
        quant_diagnose_time = 60
        quant_columns = model, drop
        quant_simulate = SM90
        """
    )
    found = Settings.from_config(pytester.parseconfig())
    assert (found.backend, found.strict, found.require) == ("trt", True, ("ort", "trt"))
    assert (found.json_file, found.cache) == (pytester.path / "out" / "run.json", pytester.path / "c")
    assert found.history == "sqlite:///elsewhere.db"
    assert (found.latency_off, found.confidence, found.max_time_s) == ("--quant-no-latency is set", 0.9, 3.0)
    assert found.diagnose_s == 60.0
    assert (found.columns, found.simulate) == (("model", "drop"), "SM90")


def test_the_command_line_wins_over_the_ini_file(pytester: pytest.Pytester) -> None:
    """What is written for one run counts."""
    pytester.makeini("[pytest]\nquant_backend = trt\nquant_cache = c\n")
    found = Settings.from_config(pytester.parseconfig("--quant-backend=ort", f"--quant-cache={Path('/x')}"))
    assert (found.backend, found.cache) == ("ort", Path("/x"))


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.parse is None], ids=lambda one: one.name)
def test_a_flag_of_the_ini_file_is_undone_by_its_no(pytester: pytest.Pytester, option: Option) -> None:
    """For one run; of both on one line the last counts, and the ini file alone turns it on."""
    pytester.makeini(f"[pytest]\n{option.name} = true\n")
    undone = option.flag.replace("--", "--no-")
    given = {(): True, (undone,): False, (option.flag, undone): False, (undone, option.flag): True}
    for args, expected in given.items():
        assert option_value(pytester.parseconfig(*args), option.name) is expected


def test_the_environment_names_a_history(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """It wins over the ini file, and the command line over both; a path starts where pytest was started."""
    pytester.makeini("[pytest]\nquant_history = ini.db\n")
    asked = [pytester.parseconfig(), pytester.parseconfig("--quant-history=told.db")]
    for told, expected in (("env.db", str(pytester.path / "env.db")), ("postgresql+psycopg://u@/h",) * 2):
        monkeypatch.setenv("PYTEST_QUANT_HISTORY", told)
        found = [Settings.from_config(config).history for config in asked]
        assert found == [expected, str(pytester.path / "told.db")]
    monkeypatch.delenv("PYTEST_QUANT_HISTORY")
    assert Settings.from_config(asked[0]).history == str(pytester.path / "ini.db")


def test_no_history_wins_over_a_history(pytester: pytest.Pytester) -> None:
    """Nothing is added anywhere."""
    assert Settings.from_config(pytester.parseconfig("--quant-no-history", "--quant-history=h.db")).history is None


@pytest.mark.parametrize("option", ["--benchmark-disable", "--benchmark-skip"])
def test_pytest_benchmarks_switches_turn_our_timing_off(pytester: pytest.Pytester, option: str) -> None:
    """The reason names the option."""
    assert Settings.from_config(pytester.parseconfig(option)).latency_off == f"{option} is set"


BAD = [
    ("quant_confidence", "0", "strictly between 0 and 1"),
    ("quant_confidence", "95", "strictly between 0 and 1"),
    ("quant_confidence", "nan", "strictly between 0 and 1"),
    ("quant_confidence", "high", "is not a number; write 0.95"),
    ("quant_max_time", "0", "is not a time above 0"),
    ("quant_max_time", "inf", "is not a time above 0"),
    ("quant_max_time", "soon", "is not a number; write 30"),
    ("quant_simulate", "8.9", "is not a compute capability; write SM89"),
    ("quant_require", " ,", "write one name or several"),
    ("quant_columns", ",", "write one name or several"),
    ("quant_backend", " ", "write a name"),
    ("quant_json", ".", "is a folder or empty"),
]


@pytest.mark.parametrize(("name", "value", "words"), BAD)
def test_a_bad_value_is_a_usage_error(pytester: pytest.Pytester, name: str, value: str, words: str) -> None:
    """Exit code 4 before anything is collected, from the command line and from the ini file."""
    on_line = pytester.runpytest(f"--{name.replace('_', '-')}={value}")
    in_ini = pytester.runpytest("-o", f"{name}={value}")
    for result in (on_line, in_ini):
        text = result.stdout.str() + result.stderr.str()
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert words in text
        assert "Traceback" not in text


def test_an_unknown_column_is_a_usage_error_that_names_the_nearest(pytester: pytest.Pytester) -> None:
    """The table at the end is too late to say so."""
    result = pytester.runpytest_subprocess("--quant-columns=model,dropp")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*there is no column 'dropp'*", "*did you mean 'drop'?*"])


@pytest.mark.parametrize("option", ["--quant-require=ort,otr", "--quant-backend=otr"])
def test_an_unknown_backend_is_a_usage_error_that_names_the_nearest(pytester: pytest.Pytester, option: str) -> None:
    """A typing error ends the run before it begins."""
    result = pytester.runpytest_subprocess(option)  # numpy cannot be loaded twice in one process
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {option.split('=')[0]}: unknown backend 'otr'; did you mean 'ort'?*"])
