"""What CI systems tell about the code under test, in environment variables.

GitHub Actions, GitLab CI, Jenkins (multibranch pipelines) and Buildkite; branches also of Azure and CircleCI.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_BRANCH = (
    "GITHUB_HEAD_REF",
    "GITHUB_REF_NAME",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME",
    "CI_COMMIT_REF_NAME",
    "BUILD_SOURCEBRANCHNAME",
    "BUILDKITE_BRANCH",
    "CIRCLE_BRANCH",
    "CHANGE_BRANCH",
    "GIT_BRANCH",
)
"""The more telling first: in a pull request of GitHub the second one is ``17/merge``."""

_TARGET = (
    "GITHUB_BASE_REF",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",
    "CHANGE_TARGET",
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH",
)

_COMMIT = ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILDKITE_COMMIT")

_PULL_REQUEST = ("CI_MERGE_REQUEST_IID", "CHANGE_ID", "BUILDKITE_PULL_REQUEST")


def ci_branch(environ: Mapping[str, str]) -> str | None:
    """Return the branch under test."""
    return _first(environ, _BRANCH)


def ci_target(environ: Mapping[str, str]) -> str | None:
    """Return the branch that a pull request is to be merged into."""
    return _first(environ, _TARGET)


def ci_commit(environ: Mapping[str, str]) -> str | None:
    """Return the commit under test, in full; ``HEAD``, which Buildkite may say, is none."""
    found = (environ.get(name, "") for name in _COMMIT)
    return next((commit for commit in found if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit)), None)


def ci_pull_request(environ: Mapping[str, str]) -> str | None:
    """Return the number of the pull request or merge request."""
    on_github = re.fullmatch(r"refs/pull/(\d+)/(?:merge|head)", environ.get("GITHUB_REF", ""))
    if on_github:
        return on_github[1]
    # Buildkite says "false" where there is none.
    return next((environ[name] for name in _PULL_REQUEST if environ.get(name, "false") != "false"), None)


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)
