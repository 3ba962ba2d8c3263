"""The options of one run as one value."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_quant.plugin.settings import Settings, settings_of


def test_defaults(pytester: pytest.Pytester) -> None:
    """Nothing given: everything lies under the root, and nothing is required."""
    config = pytester.parseconfig()
    assert Settings.from_config(config) == Settings(
        backend="ort",
        strict=False,
        require=(),
        json_file=None,
        html_file=None,
        markdown_file=None,
        for_github=False,
        cache=pytester.path / ".quant" / "cache",
        history=str(pytester.path / ".quant" / "history.db"),
        compare=False,
        compare_base=None,
        against=None,
        against_env=None,
        against_limit_pct=None,
        against_equal=False,
        latency_off="",
        confidence=None,
        max_time_s=None,
        launches=None,
        diagnose_s=None,
        lock_timeout_s=None,
        pages="huge",
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
    args += ["--quant-against=v0.9", "--quant-against-env=python3", "--quant-against-limit=3%", "--quant-against-equal"]
    args += ["--quant-compare-base=v1.0", "--quant-lock-timeout=20", "--quant-step-timeout=0"]
    args += ["--quant-pages=small"]
    args += ["--quant-launches=auto", "--quant-html=page.html"]
    args += ["--quant-markdown=quant.md"]
    assert Settings.from_config(pytester.parseconfig(*args)) == Settings(
        backend="trt",
        strict=True,
        require=("ort", "trt"),
        json_file=pytester.path / "run.json",
        html_file=pytester.path / "page.html",
        markdown_file=pytester.path / "quant.md",
        for_github=False,
        cache=pytester.path / "c",
        history=str(pytester.path / "h.db"),
        compare=True,
        compare_base="v1.0",
        against="v0.9",
        against_env="python3",
        against_limit_pct=3.0,
        against_equal=True,
        latency_off="--quant-no-latency is set",
        confidence=0.9,
        max_time_s=3.0,
        launches="auto",
        diagnose_s=0.0,
        lock_timeout_s=20.0,
        pages="small",
        step_timeout_s=0.0,
        simulate="SM89",
        columns=("model", "drop"),
    )


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
