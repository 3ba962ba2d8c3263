"""``--quant-against``: real runs of real commits against each other, in worktrees of real repositories."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_quant.measure.lock import FOLDER_VARIABLE
from tests.support.example import ROOT, TIME_LIMIT_S, WITHOUT_PLUGINS, interruptible
from tests.support.history_project import DROPS, MISCALIBRATES, SLOWS
from tests.support.history_repository import WIDTH, Answer, Repository, make_repository, outside_ci

SHORT = ("--quant-max-time=3", "--quant-diagnose-time=0")
ACCURACY = ("--quant-no-latency", "--quant-diagnose-time=0")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The project of a user whose commits have known effects."""
    return make_repository(tmp_path_factory.mktemp("against") / "repository")


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """The folder for temporary files of the runs, which is empty when each has ended."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    yield folder
    assert list(folder.glob("pytest-quant-work-*/*")) == []


def command(*arguments: str) -> list[str]:
    """Return the command line of a run, from the module on."""
    return ["pytest", "-q", "-W", "ignore", *WITHOUT_PLUGINS, *arguments]


def variables(temporary: Path) -> dict[str, str]:
    """Return the environment of a run."""
    added = {"COLUMNS": str(WIDTH), "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    # What is slower here is three times as slow, so that nobody's timing beside it matters.
    return outside_ci() | added | {FOLDER_VARIABLE: str(temporary / "locks")}


def run(root: Path, temporary: Path, *arguments: str, ci_variables: Mapping[str, str] | None = None) -> Answer:
    """Run pytest in `root` to its end; `ci_variables` is what CI tells it."""
    environment = variables(temporary) | dict(ci_variables or {})
    done = subprocess.run(
        [sys.executable, "-m", *command(*arguments)], cwd=root, env=environment, capture_output=True, text=True,
        check=False, timeout=TIME_LIMIT_S,
    )  # fmt: skip
    return Answer(done.returncode, done.stdout, done.stderr)


def run_timed(root: Path, temporary: Path, *arguments: str) -> Answer:
    """Run again, at most twice, where too few pairs of processes count, which is what a busy machine is told."""
    for _ in range(3):
        answer = run(root, temporary, *arguments)
        if "pairs of processes do not count" not in answer.stdout:
            break
    return answer


def regressed(answer: Answer) -> list[str]:
    """Return the test of each row that regressed, with what did."""
    result, test = [], ""
    for line in answer.stdout.partition("quant against")[2].splitlines():
        words = line.split()
        if words and "::" in words[0] and not line.startswith(" "):
            test = words[0]
        elif words[:1] == ["regression"]:
            result.append(f"{test} {words[1]}")
    return result


def trees(repository: Repository) -> int:
    """Return the number of trees that git knows beside the checkout."""
    return repository.git("worktree", "list").count("\n")


def test_a_slower_engine_is_caught_and_nothing_else(repository: Repository, temporary: Path) -> None:
    """Code of the project calls the runtime three times from that commit on; the base's code stays what it was."""
    repository.checkout("main", repository.main[SLOWS - 1])
    result = run_timed(repository.root, temporary, *SHORT, "--quant-against=HEAD~1")
    assert regressed(result) == ["test_speed.py::test_speed p50"], result.stdout
    assert result.returncode == 1
    assert "--quant-against: 1 of 10 rows regressed" in result.stdout
    assert "pairs of processes" in result.stdout
    assert "the same engine on both sides: not timed" in result.stdout
    assert trees(repository) == 0
    assert repository.git("status", "--porcelain", "--untracked-files=no") == ""


def test_latency_alone_is_compared(repository: Repository, temporary: Path) -> None:
    """Where the run leaves accuracy out; the run of the base, which times nothing by itself, undoes that option."""
    repository.checkout("main", repository.main[SLOWS - 1])
    options = ("-o", "quant_only_latency=true", "--quant-against=HEAD~1", "test_speed.py")
    result = run_timed(repository.root, temporary, *SHORT, *options)
    assert regressed(result) == ["test_speed.py::test_speed p50"], result.stdout
    assert "--quant-against: 1 of 1 rows regressed" in result.stdout


def test_worse_answers_are_caught_and_nothing_else(repository: Repository, temporary: Path, tmp_path: Path) -> None:
    """Paired on the same samples, with workers of xdist for the user's own run; it alone reports, and has a page."""
    ci_variables = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    repository.checkout("main", repository.main[MISCALIBRATES - 1])
    page = tmp_path / "page.html"
    options = ("-n", "2", "--quant-against", "HEAD~1", f"--quant-html={page}")
    result = run(repository.root, temporary, *ACCURACY, *options, ci_variables=ci_variables)
    summary = (tmp_path / "summary").read_text().splitlines()
    assert summary.count("<!-- pytest-quant comment -->") == 1
    assert summary[1].startswith("**FAIL: ")
    assert "REGRESSION: 1 regression" in summary[1]
    assert len([line for line in summary if line.startswith("| **regression** | test_quality.py::test_ranges")]) == 1
    assert regressed(result) == ["test_quality.py::test_ranges accuracy"], result.stdout
    assert "24 lost, 0 won of 200 samples" in result.stdout
    assert "24 lost, 0 won of 200 samples" in page.read_text()
    assert result.returncode == 1


def test_a_commit_that_changes_nothing_changes_nothing(repository: Repository, temporary: Path) -> None:
    """Against the commit before, which is the base of a checkout of the target branch; nothing of it is recorded."""
    repository.checkout("main", repository.main[MISCALIBRATES])
    result = run(repository.root, temporary, *ACCURACY, "--quant-history=own.db", "--quant-against")
    assert regressed(result) == []
    assert result.returncode == 0, result.stdout
    assert f"base {repository.main[MISCALIBRATES - 1][:12]}: the commit before" in result.stdout
    stored = repository.command("own.db", "history")
    assert len([line for line in stored.stdout.splitlines() if "PASS" in line]) == 1, stored.stdout


def test_tests_that_are_new_gone_or_renamed_are_named(repository: Repository, temporary: Path) -> None:
    """None of them is a regression."""
    repository.checkout("main", repository.main[DROPS - 1])
    (repository.root / "test_more.py").write_text(
        'import pytest\n\n@pytest.mark.quant(model="steady.onnx", data="narrow_data")\ndef test_more(): pass\n'
    )
    try:
        result = run(repository.root, temporary, *ACCURACY, f"--quant-against={repository.main[2]}")
    finally:
        (repository.root / "test_more.py").unlink()
    assert "added (1):\n    test_more.py::test_more steady" in result.stdout, result.stdout
    assert "removed (1):\n    test_names.py::test_dropped" in result.stdout
    assert "test_names.py::test_named -> test_names.py::test_renamed" in result.stdout


def test_a_base_that_cannot_be_collected_says_why_and_the_rest_goes_on(repository: Repository, temporary: Path) -> None:
    """One file of it does not parse; the tests of the others are compared."""
    repository.checkout("main", repository.main[2])
    file = repository.root / "test_quality.py"
    whole = file.read_text()
    file.write_text("import no_such_module\n")
    repository.git("commit", "-qam", "broken")
    file.write_text(whole)
    try:
        result = run(repository.root, temporary, *ACCURACY, "--quant-against=HEAD")
    finally:
        repository.git("reset", "-q", "--hard", repository.main[2])
    assert "the base: the test is uncollected there: ModuleNotFoundError: No module named" in result.stdout
    assert "3 without a baseline" in result.stdout, result.stdout
    assert "4 unchanged" in result.stdout
    assert "the head is the working tree, with uncommitted changes" in result.stdout
    assert result.returncode == 0


def test_a_shallow_clone_needs_the_one_commit_only(repository: Repository, temporary: Path, tmp_path: Path) -> None:
    """Without it the message has the command that brings it."""
    repository.checkout("main", repository.main[MISCALIBRATES - 1])
    before = repository.main[MISCALIBRATES - 2]
    repository.git("config", "uploadpack.allowAnySHA1InWant", "true")
    clone = Repository(tmp_path / "clone", (), ())
    repository.git("clone", "-q", "--depth=1", f"file://{repository.root}", str(clone.root))
    lacking = run(clone.root, temporary, *ACCURACY, f"--quant-against={before}")
    assert (lacking.returncode, f"git fetch --depth=1 origin {before}" in lacking.stderr) == (4, True), lacking.stderr
    assert "git fetch --unshallow origin" in run(clone.root, temporary, *ACCURACY, "--quant-against=HEAD~1").stderr
    clone.git("fetch", "-q", "--depth=1", "origin", before)
    result = run(clone.root, temporary, *ACCURACY, f"--quant-against={before}")
    assert regressed(result) == ["test_quality.py::test_ranges accuracy"], result.stdout
    assert trees(clone) == 0


def test_an_interrupt_while_the_base_runs_leaves_nothing(
    repository: Repository, temporary: Path, tmp_path: Path
) -> None:
    """The base's conftest says that it runs, and then waits; its process ends too."""
    repository.checkout("main", repository.main[2])
    file = repository.root / "conftest.py"
    whole = file.read_text()
    started = tmp_path / "started"
    os.mkfifo(started)
    file.write_text(f"import os, time\nopen({str(started)!r}, 'w').write(str(os.getpid()))\ntime.sleep(3600)\n")
    repository.git("commit", "-qam", "waits")
    file.write_text(whole)
    try:
        with subprocess.Popen(
            interruptible(*command(*ACCURACY, "test_names.py", "--quant-against=HEAD")), cwd=repository.root,
            env=variables(temporary), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as process:  # fmt: skip
            child = int(started.read_text())
            assert trees(repository) == 1
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=TIME_LIMIT_S)
    finally:
        repository.git("reset", "-q", "--hard", repository.main[2])
    assert process.returncode == 2, output
    assert "3 checks" in output
    assert trees(repository) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_path_that_was_taken_for_the_revision_is_explained(repository: Repository, temporary: Path) -> None:
    """An option with a value that may be left out takes what comes next."""
    result = run(repository.root, temporary, "--quant-against", "test_names.py")
    assert result.returncode == 4
    assert "--quant-against=merge-base test_names.py" in result.stderr


def test_other_dependencies_are_said_and_get_an_environment_of_their_own(
    repository: Repository, temporary: Path, tmp_path: Path
) -> None:
    """A command makes it for the base's folder; without one both sides run here, and one that makes none is a fault."""
    repository.checkout("main", repository.main[2])
    (repository.root / "requirements.txt").write_text("something==1\n")
    repository.git("add", "requirements.txt")
    repository.git("commit", "-qm", "asks for something")
    script = tmp_path / "make.py"
    script.write_text(f"import sys, pathlib\npathlib.Path({str(tmp_path / 'for')!r}).write_text(sys.argv[1])\n"
                      f"print('made')\nprint({sys.executable!r})\n")  # fmt: skip
    arguments = (*ACCURACY, "test_names.py", "--quant-against=HEAD~1")
    own = f"--quant-against-env={sys.executable} {script} {{worktree}}"
    try:
        plain = run(repository.root, temporary, *arguments)
        apart = run(repository.root, temporary, *arguments, own)
        written = [f"--quant-{kind}={tmp_path / 'quant'}.{kind}" for kind in ("markdown", "html")]
        broken = run(repository.root, temporary, *arguments, f"--quant-against-env={sys.executable} -c 1", *written)
    finally:
        repository.git("reset", "-q", "--hard", repository.main[2])
    assert "requirements.txt differ, and both sides ran in this environment" in plain.stdout, plain.stdout
    assert "the base ran in the environment of --quant-against-env: requirements.txt differ" in apart.stdout, (
        apart.stdout
    )
    assert Path((tmp_path / "for").read_text()).name == "base-tree"
    assert "3 unchanged: 3 accuracy" in apart.stdout
    assert "its last line names no interpreter: nothing" in broken.stdout
    assert (plain.returncode, apart.returncode, broken.returncode) == (0, 0, 1)
    comment = (tmp_path / "quant.markdown").read_text()
    assert comment.splitlines()[1].startswith("**FAIL: ")
    assert "- --quant-against: " in comment
    assert "its last line names no interpreter" in comment
    assert "its last line names no interpreter" in (tmp_path / "quant.html").read_text()


def test_a_selection_runs_only_those_tests_of_the_base(repository: Repository, temporary: Path) -> None:
    """By node id; the others are neither compared nor called removed."""
    repository.checkout("main", repository.main[2])
    result = run(repository.root, temporary, *ACCURACY, "test_names.py::test_steady", "--quant-against=HEAD~1")
    section = result.stdout.partition("quant against")[2]
    assert "1 unchanged: 1 accuracy" in section, result.stdout
    assert "removed" not in section
