"""CI systems tell what git cannot."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_quant.environment import ci_branch, ci_commit, ci_pull_request, ci_target

_SHA = "0123456789abcdef0123456789abcdef01234567"

_GITHUB = {
    "GITHUB_REF": "refs/pull/17/merge",
    "GITHUB_REF_NAME": "17/merge",
    "GITHUB_HEAD_REF": "topic",
    "GITHUB_BASE_REF": "main",
    "GITHUB_SHA": _SHA,
}
_GITLAB = {
    "CI_MERGE_REQUEST_IID": "17",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "topic",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
    "CI_COMMIT_SHA": _SHA,
}
_JENKINS = {
    "CHANGE_ID": "17",
    "CHANGE_TARGET": "main",
    "CHANGE_BRANCH": "topic",
    "GIT_BRANCH": "PR-17",
    "GIT_COMMIT": _SHA,
}
_BUILDKITE = {
    "BUILDKITE_PULL_REQUEST": "17",
    "BUILDKITE_BRANCH": "topic",
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main",
    "BUILDKITE_COMMIT": _SHA,
}


@pytest.mark.parametrize("environ", [_GITHUB, _GITLAB, _JENKINS, _BUILDKITE])
def test_a_pull_request_is_known_on_each_system(environ: Mapping[str, str]) -> None:
    """Its number, its branch, the branch it is for, and its commit."""
    assert ci_pull_request(environ) == "17"
    assert ci_branch(environ) == "topic"
    assert ci_target(environ) == "main"
    assert ci_commit(environ) == _SHA


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"GITHUB_REF": "refs/heads/main", "GITHUB_BASE_REF": ""},
        {"BUILDKITE_PULL_REQUEST": "false", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": ""},
    ],
)
def test_a_push_is_no_pull_request(environ: Mapping[str, str]) -> None:
    """Empty variables, and Buildkite's ``false``, mean none."""
    assert ci_pull_request(environ) is None
    assert ci_target(environ) is None


def test_a_commit_that_is_no_id_is_none() -> None:
    """Buildkite says ``HEAD`` before it has checked out."""
    assert ci_commit({"BUILDKITE_COMMIT": "HEAD"}) is None
