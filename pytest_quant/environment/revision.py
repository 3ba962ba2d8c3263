"""The code under test: its commit and branch from git and the CI service."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath

from pytest_quant.errors import UsageError
from pytest_quant.host import quote

_BRANCH = (
    *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"),
    *("SYSTEM_PULLREQUEST_SOURCEBRANCH", "BUILD_SOURCEBRANCH", "BITBUCKET_BRANCH", "BUILDKITE_BRANCH"),
    *("CIRCLE_BRANCH", "CHANGE_BRANCH", "GIT_BRANCH"),
)
"""The more specific first: in a pull request of GitHub the second one is ``17/merge``."""

_TARGET = (
    *("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "SYSTEM_PULLREQUEST_TARGETBRANCH"),
    *("BITBUCKET_PR_DESTINATION_BRANCH", "CHANGE_TARGET", "BUILDKITE_PULL_REQUEST_BASE_BRANCH"),
)

_COMMIT = ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILD_SOURCEVERSION", "BITBUCKET_COMMIT", "GIT_COMMIT", "BUILDKITE_COMMIT")

_PULL_REQUEST = (
    *("CI_MERGE_REQUEST_IID", "SYSTEM_PULLREQUEST_PULLREQUESTNUMBER", "SYSTEM_PULLREQUEST_PULLREQUESTID"),
    *("BITBUCKET_PR_ID", "CHANGE_ID", "BUILDKITE_PULL_REQUEST"),
)
"""On Azure the first one is GitHub's number, and the second one that of Azure itself."""

_LINKS = (
    ("{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}", "#artifacts"),
    ("{CI_PIPELINE_URL}", "{CI_JOB_URL}/artifacts/browse"),
    ("{SYSTEM_COLLECTIONURI}{SYSTEM_TEAMPROJECT}/_build/results?buildId={BUILD_BUILDID}", "&view=artifacts"),
    ("{BITBUCKET_GIT_HTTP_ORIGIN}/pipelines/results/{BITBUCKET_BUILD_NUMBER}", ""),
)
"""Of a run, and of what it keeps: an address, or the end of it behind that of the run."""

_IN_QUEUE = re.compile(r"gh-readonly-queue/(?P<target>.+)/pr-(?P<number>\d+)-[0-9a-f]{40,64}")
"""The branch on which GitHub's merge queue tests a pull request; no variable names its target there."""


def ci_branch(environ: Mapping[str, str]) -> str | None:
    """Return the branch under test."""
    return first_variable(environ, _BRANCH)


def ci_target(environ: Mapping[str, str]) -> str | None:
    """Return the target branch of a pull request, in a merge queue too."""
    queue = _IN_QUEUE.fullmatch(ci_branch(environ) or "")
    return first_variable(environ, _TARGET) or (queue["target"] if queue else None)


def ci_pull_request(environ: Mapping[str, str]) -> str | None:
    """Return the number of the pull request or merge request."""
    on_github = re.fullmatch(r"refs/pull/(?P<number>\d+)/(?:merge|head)", environ.get("GITHUB_REF", ""))
    known = on_github or _IN_QUEUE.fullmatch(ci_branch(environ) or "")
    if known:
        return known["number"]
    number = first_variable(environ, _PULL_REQUEST)
    # Buildkite gives this where there is none.
    return None if number == "false" else number


def ci_links(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the addresses of this run of CI and of the files that it keeps."""
    for run, files in _LINKS:
        with suppress(KeyError):
            address, kept = (text.format_map(environ).replace(" ", "%20") for text in (run, files))
            links = address, kept if "://" in kept else f"{address}{kept}"
            return links if all(re.fullmatch(r"https?://[\w.:/#?=&%-]+", link) for link in links) else None
    return None


def first_variable(environ: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the first value that is there without blanks around it, and a branch without what git has before it."""
    values = [environ[name].strip() for name in names if environ.get(name, "").strip()]
    return values[0].removeprefix("refs/heads/") if values else None


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """The output of git; `code` is ``None`` when it is not installed, cannot be asked, or did not end in time."""

    code: int | None
    text: str
    error: str

    @property
    def ok(self) -> bool:
        """Whether git ended without an error."""
        return self.code == 0


def ask_git(root: Path, *arguments: str, timeout_s: float = 10.0, without: Collection[str] = ()) -> GitAnswer:
    """Run a git command in the repository around `root`; it takes no lock and never prompts.

    Parameters
    ----------
    root : a folder of the repository.
    arguments : of git.
    timeout_s : seconds until the command is ended.
    without : environment variables that the command is not given.
    """
    # A query must not take the lock that a git command of the user may need at this moment.
    environment = {name: value for name, value in os.environ.items() if name not in without}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        answer = subprocess.run(  # nosec B603 # noqa: S603 - a fixed program without a shell
            ("git", *arguments),  # noqa: S607 - the user's git is the one to ask
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except OSError as error:
        return GitAnswer(None, "", f"git cannot be started: {error.strerror or error}")
    except ValueError as error:
        # A name with a NUL, or one that no file system has; recorded runs of others may hold such commits and branches.
        return GitAnswer(None, "", f"git cannot be asked about such a name: {error}")
    except subprocess.TimeoutExpired:
        return GitAnswer(None, "", f"git did not answer within {timeout_s:g} s")
    text, error_text = (stream.decode(errors="replace").strip() for stream in (answer.stdout, answer.stderr))
    return GitAnswer(answer.returncode, text, error_text)


def main_branch(root: Path, remote: str = "origin") -> str:
    """Return the default branch of `remote`, else ``main`` or ``master``, else the branch that is checked out."""
    default = ask_git(root, "symbolic-ref", "--quiet", "--short", f"refs/remotes/{remote}/HEAD")
    if default.ok:
        return default.text.removeprefix(f"{remote}/")
    branches = ask_git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads").text.splitlines()
    # Before the first commit a branch is checked out, too, which has no reference yet.
    current = ask_git(root, "symbolic-ref", "--quiet", "--short", "HEAD").text
    return next((name for name in ("main", "master") if name in branches), current or "main")


_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=no")


@dataclass(frozen=True, slots=True)
class GitState:
    """The state of the working tree.

    Attributes
    ----------
    commit : in hex; ``None`` before the first one.
    branch : ``None`` when no branch is checked out and the CI service gives none.
    dirty : a tracked file differs from the commit.
    """

    commit: str | None
    branch: str | None
    dirty: bool


def ci_state(environ: Mapping[str, str]) -> GitState:
    """Return commit and branch under test as the CI service reports them.

    The commit is a full id: ``HEAD``, which Buildkite may give, does not count.
    """
    values = (environ.get(name, "") for name in _COMMIT)
    commit = next((commit for commit in values if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit)), None)
    return GitState(commit, ci_branch(environ) if commit else None, dirty=False)


def git_state(root: Path, timeout_s: float = 10.0) -> GitState | None:
    """Return the state of the working tree at `root`; ``None`` outside a repository, without git, or when git hangs."""
    answer = ask_git(root, *_STATUS, timeout_s=timeout_s)
    return parse_status(answer.text, os.environ) if answer.ok else None


_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:[^/]*@)?((?!\.)[^/:@]*)(?::\d+(?=/))?[:/]+([^?#]+?)(?:\.git)?/*(?:[?#].*)?", re.I
)
"""Of a remote, as a URL, as scp writes it, or a path: host and path, without user, password and port."""


def are_apart(names: Collection[str], others: Collection[str]) -> bool:
    """Whether two are names of different repositories: both have a first commit or an address, and share neither."""
    comparable = any(("/" in name) == ("/" in other) for name in names for other in others)
    return comparable and set(names).isdisjoint(others)


def find_checkout(folder: Path) -> Path | None:
    """Return the top folder of the checkout around a folder, by what lies there: git may refuse to answer."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def path_in_checkout(folder: Path, root: Path) -> PurePath | None:
    """Return a folder below the top of the checkout around `root`; ``None`` if either lies in no checkout.

    A checkout may be reached by a link. Links within it keep their names, for what they lead to has another one.
    """
    top = find_checkout(root.resolve())
    if top is None:
        return None
    named = next((each for each in (folder, *folder.parents) if each.resolve() == top), None)
    place, above = (folder, named) if named else (folder.resolve(), top)
    return place.relative_to(above) if place.is_relative_to(above) else None


def git_trouble(root: Path, timeout_s: float = 10.0) -> str:
    """Return why git does not answer about the repository around `root`, with what to do.

    It is empty where git does answer, and where there is no repository.

    In containers the user often does not own the checkout, which git then refuses to read.
    """
    inside = find_checkout(root)
    if inside is None:
        return ""
    answer = ask_git(root, *_STATUS, timeout_s=timeout_s)
    if answer.ok:
        return ""
    fix = "make 'git status' work there"
    if "dubious ownership" in answer.error:
        fix = f"git config --global --add safe.directory {quote(str(inside))}"
    elif answer.code is None and "started" in answer.error:
        fix = "install git"
    why = answer.error.partition("\n")[0] or f"git status ended with {answer.code}"
    return f"git does not name the commit of {inside}, so that no record of this run has one: {why}; next: {fix}"


def parse_status(text: str, environ: Mapping[str, str]) -> GitState:
    """Parse the output of ``git status --porcelain=v2 --branch``; `environ` gives the branch of a detached head."""
    lines = text.splitlines()
    header = dict(line.removeprefix("# ").split(" ", 1) for line in lines if line.startswith("# branch."))
    commit = header.get("branch.oid", "(initial)")
    branch: str | None = header.get("branch.head", "(detached)")
    if branch == "(detached)":
        branch = ci_branch(environ)
    dirty = any(not line.startswith("#") for line in lines)
    return GitState(None if commit == "(initial)" else commit, branch, dirty)


def has_untracked(root: Path, files: Collection[Path]) -> bool:
    """Whether git neither tracks nor ignores one of `files`, relative to `root`; a missing file does not count."""
    listing = ("ls-files", "--others", "--exclude-standard", "--", *map(str, files))
    answer = ask_git(root, "--literal-pathspecs", *listing)
    return bool(files) and answer.ok and bool(answer.text)


MAX_DISTANCE = 50
"""Number of first parents that are searched for records; older ones say little about a change."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit, and its tree, which is equal for commits of equal content; ``None`` if git does not have it."""

    id: str
    tree: str | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the commit and of its tree, by which its records are found."""
        return (self.id,) if self.tree is None else (self.id, self.tree)


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository around the folder `root`. Every method raises `UsageError` when git cannot answer."""

    root: Path

    def resolve(self, revision: str) -> str | None:
        """Return the full id of the commit that `revision` names, ``None`` when it names none."""
        # The suffix keeps a revision that looks like an option from being read as one.
        if (commit := self._verify(f"{revision}^{{commit}}")) is not None:
            return commit
        answer = ask_git(self.root, "rev-parse", "--git-dir")
        if not answer.ok:
            raise UsageError(
                f"git knows no repository at {self.root}",
                value=answer.error,
                fix="run it in a repository with a commit, which git init, git add and git commit make; only "
                "pytest-quant compare does without one, with two ids of pytest-quant history",
            )
        return None

    def merge_base(self, first: str, second: str) -> str | None:
        """Return the best common ancestor; ``None`` when there is none, or it was not fetched."""
        answer = ask_git(self.root, "merge-base", first, second)
        return answer.text.splitlines()[0] if answer.ok and answer.text else None

    def parents(self, commit: str) -> tuple[str, ...]:
        """Return the parents in their order; none for a root commit, or for a commit that was not fetched.

        The commit itself names them, so that they are known in a clone that ends there and does not have them.
        """
        answer = ask_git(self.root, "cat-file", "commit", commit)
        header = answer.text.partition("\n\n")[0].splitlines()
        return tuple(line.removeprefix("parent ") for line in header if line.startswith("parent ")) if answer.ok else ()

    def tree(self, commit: str) -> str | None:
        """Return the id of a commit's tree, equal for commits of equal content; ``None`` if git lacks the commit."""
        return self._verify(f"{commit}^{{tree}}")

    def _verify(self, name: str) -> str | None:
        answer = ask_git(self.root, "rev-parse", "--verify", "--quiet", name)
        return answer.text if answer.ok else None

    def first_parents(self, commit: str, limit: int = MAX_DISTANCE) -> tuple[Committed, ...]:
        """Return `commit` and up to `limit` first parents below it, nearest first.

        The last one may be a commit that was not fetched, which the one before names.
        """
        shown = ("--first-parent", f"--max-count={limit + 1}", "--format=%H %T")
        answer = ask_git(self.root, "-c", "log.showSignature=false", "log", *shown, commit, "--")
        if not answer.ok:
            raise UsageError(f"git cannot list the ancestors of {commit[:12]}", value=answer.error)
        line = [Committed(*shown.split()) for shown in answer.text.splitlines()]
        beyond = self.parents(line[-1].id)[:1] if line and len(line) <= limit else ()
        return (*line, *map(Committed, beyond))

    def is_checked_out(self, commit: str) -> bool:
        """Whether `commit` is what the working tree was made from."""
        return self._verify("HEAD") == commit

    def file_at(self, commit: str, name: str) -> str | None:
        """Return the text of a file of this folder as of a commit, empty if the commit did not have it.

        ``None`` where git does not have the commit.
        """
        if self._verify(f"{commit}^{{commit}}") is None:
            return None
        return ask_git(self.root, "show", f"{commit}:./{name}").text

    def names(self) -> tuple[str, ...]:
        """Return what it is known by: its first commit, and the address of ``origin``; outside of git nothing.

        Clones and forks have the first commit, unless they are shallow; clones of one server have the address.
        """
        first = ask_git(self.root, "rev-list", "--first-parent", "--max-parents=0", "HEAD")
        address = _ADDRESS.fullmatch(ask_git(self.root, "remote", "get-url", "origin").text)
        commits = first.text.split() if first.ok and not self.is_shallow() else []
        return (*commits, *([f"{address[1]}/{address[2]}".lower()] if address else []))

    def is_shallow(self) -> bool:
        """Whether only the last commits were fetched, as CI services do."""
        return ask_git(self.root, "rev-parse", "--is-shallow-repository").text == "true"

    def target(self) -> str | None:
        """Return the name of the target branch in this repository, ``None`` when none is known.

        It is CI's target of a pull request, else the default branch of ``origin``, else ``main`` or ``master``.

        Raises
        ------
        UsageError : CI names a branch that was not fetched.
        """
        branch = ci_target(os.environ)
        if branch is not None:
            return self._fetch_branch(branch)
        default = ask_git(self.root, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD")
        names = [*([default.text] if default.ok else []), "origin/main", "origin/master", "main", "master"]
        return next((name for name in names if self.resolve(name) is not None), None)

    def _fetch_branch(self, branch: str) -> str:
        for name in (f"origin/{branch}", branch):
            if self.resolve(name) is not None:
                return name
        # A branch of a stranger's pull request may be called anything that git takes, `x;reboot` among others.
        refspec = quote(f"{branch}:refs/remotes/origin/{branch}")
        fix = f"git fetch {'--unshallow ' if self.is_shallow() else ''}origin {refspec}"
        raise UsageError(f"CI says that this is to be merged into '{branch}', and that branch is not here", fix=fix)
