"""A wrong mark is an error at collection: clean text that names the nearest valid choice, also under xdist."""

from __future__ import annotations

import pytest

from tests.support.in_process import run_here

BAD = {
    "key": ("max_dropp=1.0", "did you mean 'max_drop'?"),
    "number": ("max_drop=float('nan')", "max_drop must be finite"),
    "share": ("min_accuracy=0.9", "write 90"),
    "backend": ("backend='otr'", "did you mean 'ort'?"),
    "metric": ("metric=len, max_drop=1.0", "Metric("),
    "not_offered": ("precision='int4', scheme='static'", "weight-only"),
    "option": ("options={'thread': 1}", "did you mean 'threads'?"),
    "positional": ("'ort'", "takes keys only"),
    "scores": ("scores='gsm8k', min_speedup=2.0", "leave min_speedup out"),
}
"""One mark for each step of the reading that may refuse it."""
SOURCE = "import pytest\n@pytest.mark.quant({mark})\ndef test_it(): pass\n"


def test_every_wrong_mark_is_told_at_collection(pytester: pytest.Pytester) -> None:
    """Each file has all its errors with the way out, nothing ran, nothing was written, and no traceback is shown."""
    for name, (mark, _) in BAD.items():
        source = SOURCE.format(mark=mark)
        pytester.makepyfile(**{f"test_{name}": source + source.replace("test_it", "test_again")})
    result = pytester.runpytest_subprocess("-n", "2")
    text = result.stdout.str() + result.stderr.str()
    errors, _, _ = text.partition(" short test summary info ")  # which repeats them whole where CI is set
    assert result.ret != 0
    result.assert_outcomes(errors=len(BAD))
    for name, (_, words) in BAD.items():
        section = errors.split(f" ERROR collecting test_{name}.py ")[1].split("ERROR collecting")[0]
        assert [f"test_{name}.py::test_{test}: " in section for test in ("it", "again")] == [True, True]
        assert section.count(words) == 2
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    assert "pytest_quant/" not in text
    assert not (pytester.path / ".quant").exists()


def test_a_wrong_ini_default_is_told_at_collection(pytester: pytest.Pytester) -> None:
    """The ini file waits for the first marked test, so that other runs load nothing."""
    pytester.makeini("[pytest]\nquant_backend = otr\n")
    pytester.makepyfile(test_marked=SOURCE.format(mark=""), test_plain="def test_it(): pass\n")
    marked = run_here(pytester)
    marked.assert_outcomes(errors=1)
    marked.stdout.fnmatch_lines(["*unknown backend 'otr'*", "*did you mean 'ort'?*"])
    run_here(pytester, "test_plain.py").assert_outcomes(passed=1)
    columns = run_here(pytester, "-o", "quant_backend=ort", "-o", "quant_columns=dropp")
    columns.assert_outcomes(errors=1)
    columns.stdout.fnmatch_lines(["*there is no column 'dropp'*", "*did you mean 'drop'?*"])
