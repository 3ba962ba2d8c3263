"""Options on the command line and in the ini file, and what is made of them."""

from __future__ import annotations

import pytest

from pytest_quant.plugin.options import OPTIONS, Option, option_value


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


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.parse is None], ids=lambda one: one.name)
def test_a_flag_of_the_ini_file_is_undone_by_its_no(pytester: pytest.Pytester, option: Option) -> None:
    """For one run; of both on one line the last counts, and the ini file alone turns it on."""
    pytester.makeini(f"[pytest]\n{option.name} = true\n")
    undone = option.flag.replace("--", "--no-")
    given = {(): True, (undone,): False, (option.flag, undone): False, (undone, option.flag): True}
    for args, expected in given.items():
        assert option_value(pytester.parseconfig(*args), option.name) is expected


BAD = [
    ("quant_confidence", "0", "strictly between 0 and 1"),
    ("quant_confidence", "95", "strictly between 0 and 1"),
    ("quant_confidence", "nan", "strictly between 0 and 1"),
    ("quant_confidence", "high", "is not a number; write 0.95"),
    ("quant_max_time", "0", "is not a time above 0"),
    ("quant_max_time", "inf", "is not a time above 0"),
    ("quant_max_time", "soon", "is not a number; write 30"),
    ("quant_launches", "0", "write auto, or 1 to 100"),
    ("quant_launches", "some", "is no number of launches"),
    ("quant_simulate", "8.9", "is not a compute capability; write SM89"),
    ("quant_require", " ,", "write one name or several"),
    ("quant_columns", ",", "write one name or several"),
    ("quant_backend", " ", "write a name"),
    ("quant_json", ".", "is a folder or empty"),
    ("quant_markdown", ".", "is a folder or empty"),
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
