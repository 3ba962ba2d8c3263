"""A run as a comment: its word agrees with the exit code, it is never too long, and foreign text in it never acts.

A renderer that is not ours is the judge of that.
"""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pytest_quant.printable import clean
from pytest_quant.record import Record
from pytest_quant.report.pull_request import (
    MAX_CHARACTERS,
    Table,
    code_block,
    document,
    fold,
    inline,
    plain,
    row,
    run_comment,
)
from pytest_quant.result import Status, Verdict
from tests.unit.record.examples import CAUSE, FAILED_DROP, RUN, a_pass, a_record, unavailable

_RENDERER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_ZERO_WIDTH_SPACE = "\u200b"


class _Shown(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep its name and its attributes."""
        self.tags.append(f"{tag}{attrs or ''}")

    def handle_data(self, data: str) -> None:
        """Keep it."""
        self.text += data


def shown(markdown: str) -> _Shown:
    """What a reader of the rendered text gets."""
    return _Shown(_RENDERER.render(markdown))


NAMES = (
    "<img src=x onerror=alert(1)>",
    "<!-- pytest-quant comment -->",
    "</details></td></table><script>x</script>",
    "[click](https://evil.example)",
    "![i](https://evil.example/i.png)",
    "[a]: https://evil.example",
    "[^1]: note",
    "[x] done",
    "https://evil.example www.evil.example mailto:a@b.example",
    "**bold** __bold__ _em_ *em* ~~gone~~ `code` $x$",
    "a|b|c \\| d",
    "&amp; &lt; &#64;",
    "# heading",
    "> quote",
    "- item",
    "1. item",
    "---",
    "```",
    "    code",
    "\\",
    "x\n\n# heading",
    "\x1b[31m\u202e",
)


@given(st.text(max_size=40) | st.sampled_from(NAMES))
@example("a__b__c_ _d")
@example("x[y](z)")
def test_any_text_is_shown_as_it_is(text: str) -> None:
    """In a line, an entry of a list, a cell, or the heading of a block a renderer shows its characters and no tag."""
    expected = clean(text).strip()
    for frame in ("{}", "- {}", "before\n{}\nafter", "1. x\n{}") if expected else ():
        result, other = shown(frame.format(plain(text, 1000))), shown(frame.format("word"))
        assert result.tags == other.tags
        assert expected in result.text.replace(_ZERO_WIDTH_SPACE, "")
    cells = shown("\n".join([row(("a", "b")), "|---|---|", row((inline(text, 1000), "end"))]))
    assert cells.tags.count("td") == 2
    assert not [tag for tag in cells.tags if tag not in ("table", "thead", "tbody", "tr", "th", "td")]
    assert cells.text.replace(_ZERO_WIDTH_SPACE, "").split("b", 1)[1].strip().removesuffix("end").strip() == expected
    block = shown(fold(text, ["inside"]))
    assert block.tags == ["details", "summary", "p"]


REFERENCES = (
    "@team",
    "#1",
    "!12",
    "~bug",
    "$3",
    "%4",
    '%"v 1"',
    "&5",
    ":heart:",
    "GH-6",
    "owner/name#7",
    "a@b.example",
    "[+1+]",
    "{-a-}",
)
"""What GitHub and GitLab look for in what was rendered."""


@pytest.mark.parametrize("reference", REFERENCES)
def test_what_a_forge_looks_for_in_the_rendered_text_is_broken(reference: str) -> None:
    """By a character without a width behind the one that begins it, which nobody sees."""
    result = shown(inline(f"x {reference} y")).text
    assert reference not in result
    assert reference in result.replace(_ZERO_WIDTH_SPACE, "")


@pytest.mark.parametrize("command", ["/merge", "/close", "/approve now"])
def test_no_line_begins_with_a_command_of_gitlab(command: str) -> None:
    """Which reads them where a line of the source begins with a slash."""
    assert not plain(command).startswith("/")
    assert not plain(f"  {command}").lstrip().startswith("/")


USUAL = (
    "tests/test_models.py::TestInt8::test_resnet[ort-int8-static] resnet18",
    "x2 -> x1.667",
    "-5.00 [-6.10, -3.90] pp",
    "+20.00 [+19.88, +20.12] %",
    "100.00 -> 95.00 %",
    "max_drop",
    "20 lost, 0 won of 400 samples; p 1.9e-06 before Holm",
    "p50 of candidate +20.00 %, reference 0.00 %; moved: candidate; 5 -> 5 launches; Some CPU, avx2",
    "7/10 passed",
    "--quant-json: out/run.json cannot be written",
)


@pytest.mark.parametrize("text", USUAL)
def test_what_usually_stands_there_is_left_as_it_is(text: str) -> None:
    """So that the source of a comment, an e-mail for one, can be read."""
    assert plain(text) == text


@pytest.mark.parametrize("text", ["plain", "``` and ```` within", "```\n# heading\n@team"])
def test_a_block_of_code_holds_all_of_a_text(text: str) -> None:
    """Whatever fences are in it."""
    result = shown(code_block(text))
    assert [tag for tag in result.tags if tag not in ("pre", "code[('class', 'language-text')]")] == []
    assert result.text.rstrip("\n") == text


def _table(rows: int, size: int = 50) -> Table:
    return ((), ("a",), [row(("x" * size,)) for _ in range(rows)])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3000), max_size=3), st.integers(0, 400), st.integers(1, 3000))
def test_a_document_fits_and_counts_what_it_leaves_out(rows: list[int], blocks: int, size: int) -> None:
    """Every row and every block is shown or counted, and no folded block is cut."""
    rest = [fold("more", ["y" * size])] * blocks
    text = document(["<!-- m -->", "**OK**"], [_table(number) for number in rows], rest)
    assert len(text) <= MAX_CHARACTERS
    left_out = sum(int(number) for number in re.findall(r"^(\d+) more are left out; `pytest-qu", text, re.M))
    assert text.count(f"| {'x' * 50} |") + text.count("<details>") + left_out == sum(rows) + blocks
    assert text.count("<details>") == text.count("</details>")


def _named(record: Record, number: int, name: str = "test_it") -> Record:
    return replace(record, nodeid=f"tests/test_it.py::{name}_{number}")


_FINE, _ABSENT = _named(a_pass(), 2), _named(unavailable(), 3)


def _rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| **")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_limits_that_fail_under_strict_only_are_rows_then() -> None:
    """A run that does not fail for them has no row."""
    open_limit = Verdict("max_drop", 1.0, 1.1, Status.INCONCLUSIVE, "too few samples")
    unsure = _named(a_record(status=Status.INCONCLUSIVE, verdicts=(open_limit,)), 1)
    lenient = run_comment(RUN, [unsure])
    assert lenient.splitlines()[1] == "**INCONCLUSIVE: 1 check: 1 INCONCLUSIVE**"
    assert _rows(lenient) == []
    strict = run_comment(RUN, [unsure], failed=True, broken=[unsure.nodeid])
    assert strict.splitlines()[1] == "**FAIL: 1 check: 1 INCONCLUSIVE**"
    assert [cells[0] for cells in _rows(strict)] == ["**INCONCLUSIVE**"]


def test_the_cause_stands_once_beside_the_limit_on_outputs() -> None:
    """One line of text in its row, none in that of a limit on the size, and two in the failure below."""
    size = Verdict("max_size_mb", 0.04, 0.0456, Status.FAIL, "0.0456 MB is above 0.04 MB")
    record = replace(a_record(verdicts=(size, FAILED_DROP)), cause=replace(CAUSE, text="`9` of @all <b>"))
    text = run_comment(RUN, [record], failed=True, broken=[record.nodeid])
    on_size, on_drop = (line for line in text.splitlines() if line.startswith("| **FAIL**"))
    assert "cause" not in on_size
    said = "cause: calibration, `9` of @all <b>; without it: max_drop 4.23 -> 0.30 pp on 64 of 1797 samples"
    assert said in shown(text).text.replace(_ZERO_WIDTH_SPACE, "")
    assert "cause: calibration" in on_drop
    assert text.count("  cause: calibration") == 1


def test_the_word_agrees_with_the_exit_code() -> None:
    """Whatever fails the run: a check, a fault, a comparison, or a test without a mark."""
    assert run_comment(RUN, [_FINE]).splitlines()[1] == "**PASS: 1 check: 1 PASS**"
    assert run_comment(RUN, [_FINE, _ABSENT]).splitlines()[1].startswith("**UNAVAILABLE: 2 checks")
    others = run_comment(RUN, [_FINE], failed=True).splitlines()[1]
    assert others == "**FAIL: 1 check: 1 PASS; pytest failed for another reason than a check**"
    fault = run_comment(RUN, [_FINE], failed=True, faults=["--quant-json: /x cannot be written"])
    assert fault.splitlines()[1] == "**FAIL: 1 check: 1 PASS**"
    assert "- --quant-json: /x cannot be written" in fault.splitlines()


def test_no_name_becomes_a_command_or_a_tag() -> None:
    """Of a test, a branch, a message or a limit."""
    nasty = "::error::x\n##[error]y\n/merge\n<img src=x>|@team"
    verdict = Verdict(nasty, 1.0, 4.0, Status.FAIL, nasty)
    record = replace(a_record(verdicts=(verdict,)), nodeid=nasty, model=nasty, message=nasty)
    run = replace(RUN, branch=nasty, commit="/merge now")
    text = run_comment(run, [record], failed=True, broken=[nasty], faults=[nasty])
    folded = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert "<img" not in folded
    assert "@team" not in folded
    for line in text.splitlines():
        assert not line.lstrip().startswith(("::", "/"))
        assert "##[" not in line
