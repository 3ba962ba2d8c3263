"""One comment is kept up to date, on whatever page it stands, and however often the forge does not answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from pytest_quant.errors import ForgeError, UsageError
from pytest_quant.forge.comment import Comment, Posted, find, listed, named, post
from pytest_quant.forge.http import RefusedError

MARKER = "<!-- pytest-quant comment -->"
TEXT = f"{MARKER}\n**PASS**\n"


@dataclass
class InMemory:
    """A forge with pages of two comments; `faults` come before its answers, `late` after what they have done."""

    comments: list[Comment] = field(default_factory=list)
    faults: list[Exception | None] = field(default_factory=list)
    late: list[Exception | None] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    where = "me/models, pull request 12"

    def page(self, number: int) -> tuple[list[Comment], int | None]:
        """Return two comments."""
        self._fail(self.faults)
        start = 2 * (number - 1)
        return self.comments[start : start + 2], number + 1 if start + 2 < len(self.comments) else None

    def create(self, body: str) -> str:
        """Keep it."""
        self.comments.append(Comment(100 + len(self.comments), body, "new", mine=True))
        self.done.append("create")
        self._fail(self.late)
        return "new"

    def update(self, comment: Comment, body: str) -> str:
        """Replace it."""
        self.comments = [replace(one, body=body) if one.id == comment.id else one for one in self.comments]
        self.done.append(f"update {comment.id}")
        self._fail(self.late)
        return comment.address

    def _fail(self, faults: list[Exception | None]) -> None:
        error = faults.pop(0) if faults else None
        if error is not None:
            raise error


def a_comment(number: int, body: str, *, mine: bool = True) -> Comment:
    """A comment that is there."""
    return Comment(number, body, f"https://forge/{number}", mine)


def busy(wait_s: float | None = 1.0) -> RefusedError:
    """The error of a server that is busy."""
    return RefusedError("forge answers 503", status=503, wait_s=wait_s)


def done(forge: InMemory, slept: list[float] | None = None) -> Posted:
    """Post the text."""
    return post(forge, TEXT, (slept if slept is not None else []).append, lambda _: None)


def test_the_first_time_it_is_posted() -> None:
    """And from then on updated."""
    forge = InMemory([a_comment(number, "other") for number in range(5)])
    assert done(forge) == Posted("posted", "new")
    assert done(forge) == Posted("updated", "new")
    assert forge.done == ["create", "update 105"]


def test_it_is_found_on_the_last_page() -> None:
    """Whatever line ends the forge has made of ours."""
    forge = InMemory([*(a_comment(number, "other") for number in range(8)), a_comment(9, f"{MARKER}\r\nold")])
    assert done(forge) == Posted("updated", "https://forge/9")


def test_of_several_the_first_is_updated() -> None:
    """Each time the same."""
    forge = InMemory([a_comment(1, TEXT), a_comment(2, TEXT)])
    done(forge)
    assert forge.done == ["update 1"]


def test_a_comment_of_somebody_else_is_never_changed() -> None:
    """Anybody can copy the first line; who wrote the comment could change the report afterwards."""
    forge = InMemory([a_comment(1, TEXT, mine=False)])
    assert done(forge).did == "posted"


@pytest.mark.parametrize(
    "body", ["", "x\n" + TEXT, f" {TEXT}", "<!-- pytest-quant comment gpu -->\n", MARKER + " more"]
)
def test_only_the_first_line_counts(body: str) -> None:
    """A reply that quotes the report is another comment, and so is the report of another job."""
    assert find(InMemory([a_comment(1, body)]), MARKER) is None


def test_what_passes_is_waited_for() -> None:
    """As long as the forge says, and longer each time where it says little."""
    slept: list[float] = []
    forge = InMemory(faults=[busy(), busy(0.0), busy(30.0)])
    assert done(forge, slept).did == "posted"
    assert slept == [1.0, 2.0, 30.0]


def test_a_comment_whose_answer_was_lost_is_not_posted_twice() -> None:
    """It is looked for again, and found."""
    forge = InMemory(late=[busy()])
    assert done(forge).did == "updated"
    assert forge.done == ["create", "update 100"]


@pytest.mark.parametrize(
    ("error", "attempts"),
    [(busy(), 4), (busy(None), 1), (busy(600.0), 1), (ForgeError("no"), 1)],
    ids=["still busy", "no use", "too long", "other"],
)
def test_what_does_not_pass_is_told(error: Exception, attempts: int) -> None:
    """After four attempts, or at once."""
    forge = InMemory(faults=[error] * 10)
    with pytest.raises(ForgeError) as caught:
        done(forge)
    assert caught.value is error
    assert len(forge.faults) == 10 - attempts


def test_pages_without_end_are_an_error() -> None:
    """A server that always names a next page."""

    class Endless(InMemory):
        def page(self, number: int) -> tuple[list[Comment], int | None]:
            return [], number + 1

    with pytest.raises(ForgeError, match="more than 30000 comments"):
        done(Endless())


def test_a_name_is_part_of_the_first_line() -> None:
    """So that each job finds its own; a file of either command will do."""
    assert named(TEXT, "") == TEXT
    assert named(TEXT, "gpu-a10") == "<!-- pytest-quant comment gpu-a10 -->\n**PASS**\n"
    assert named("<!-- pytest-quant compare -->\r\nx\r\n", "").splitlines() == ["<!-- pytest-quant compare -->", "x"]


@pytest.mark.parametrize("text", ["", "# Report\n", "<!-- other -->\n", "<!-- pytest-quant comment --> x\n"])
def test_a_file_of_something_else_is_refused(text: str) -> None:
    """It could never be found again."""
    with pytest.raises(UsageError, match="no comment of pytest-quant") as caught:
        named(text, "")
    assert "--quant-markdown" in (caught.value.fix or "")


@pytest.mark.parametrize("name", ["a b", "-->", "x\ny"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    """It would end the marker."""
    with pytest.raises(UsageError, match="--name is no name"):
        named(TEXT, name)


@pytest.mark.parametrize("data", [{}, None, "x", [1], {"message": "x"}, [{"id": "x"}], [{}]])
def test_an_answer_that_is_no_list_is_told(data: object) -> None:
    """Another service may answer in JSON too."""
    with pytest.raises(ForgeError, match="no list of comments"):
        listed(data, "here")
