"""What services of CI say of the code under test: branch, target, pull request, commit, and the addresses of a run."""

from __future__ import annotations

import pytest

from pytest_quant.environment.revision import GitState, ci_branch, ci_links, ci_pull_request, ci_state, ci_target


def test_a_run_of_ci_has_an_address() -> None:
    """And its artifacts have one, on GitLab too (`tests/unit/cli/test_compare.py`); no name becomes another link."""
    variables = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "me/models", "GITHUB_RUN_ID": "7"}
    address = "https://github.com/me/models/actions/runs/7"
    assert ci_links(variables) == (address, f"{address}#artifacts")
    assert ci_links(variables | {"GITHUB_REPOSITORY": "me) [x](https://evil.example"}) is None
    assert ci_links({}) is None


@pytest.mark.parametrize(
    ("variables", "address", "files"),
    [
        (
            {
                "SYSTEM_COLLECTIONURI": "https://dev.azure.com/me/",
                "SYSTEM_TEAMPROJECT": "Edge Models",
                "BUILD_BUILDID": "7",
            },
            "https://dev.azure.com/me/Edge%20Models/_build/results?buildId=7",
            "&view=artifacts",
        ),
        (
            {"BITBUCKET_GIT_HTTP_ORIGIN": "https://bitbucket.org/me/models", "BITBUCKET_BUILD_NUMBER": "7"},
            "https://bitbucket.org/me/models/pipelines/results/7",
            "",
        ),
    ],
    ids=["Azure Pipelines", "Bitbucket"],
)
def test_a_run_of_other_systems_has_an_address(variables: dict[str, str], address: str, files: str) -> None:
    """A name with a blank is written as an address has it; an address with a bracket would end the link."""
    assert ci_links(variables) == (address, address + files)
    assert ci_links({name: f"{value})" for name, value in variables.items()}) is None


_SHA = "0123456789abcdef0123456789abcdef01234567"

SYSTEMS = {
    "GitHub": (
        "GITHUB_REF=refs/pull/17/merge GITHUB_REF_NAME=17/merge GITHUB_HEAD_REF=topic GITHUB_BASE_REF=main "
        f"GITHUB_SHA={_SHA}"
    ),
    "GitLab": (
        "CI_MERGE_REQUEST_IID=17 CI_MERGE_REQUEST_SOURCE_BRANCH_NAME=topic CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main "
        f"CI_COMMIT_SHA={_SHA}"
    ),
    "Jenkins": f"CHANGE_ID=17 CHANGE_TARGET=main CHANGE_BRANCH=topic GIT_BRANCH=PR-17 GIT_COMMIT={_SHA}",
    "Buildkite": (
        "BUILDKITE_PULL_REQUEST=17 BUILDKITE_BRANCH=topic BUILDKITE_PULL_REQUEST_BASE_BRANCH=main "
        f"BUILDKITE_COMMIT={_SHA}"
    ),
    "Azure Pipelines": (
        "SYSTEM_PULLREQUEST_PULLREQUESTID=17 SYSTEM_PULLREQUEST_SOURCEBRANCH=refs/heads/topic "
        "SYSTEM_PULLREQUEST_TARGETBRANCH=refs/heads/main BUILD_SOURCEBRANCH=refs/pull/17/merge "
        f"BUILD_SOURCEBRANCHNAME=merge BUILD_SOURCEVERSION={_SHA}"
    ),
    "Azure Pipelines, of a repository on GitHub": (
        "SYSTEM_PULLREQUEST_PULLREQUESTID=998877 SYSTEM_PULLREQUEST_PULLREQUESTNUMBER=17 BUILD_SOURCEBRANCHNAME=merge "
        f"SYSTEM_PULLREQUEST_SOURCEBRANCH=topic SYSTEM_PULLREQUEST_TARGETBRANCH=main BUILD_SOURCEVERSION={_SHA}"
    ),
    "Bitbucket": (
        f"BITBUCKET_PR_ID=17 BITBUCKET_BRANCH=topic BITBUCKET_PR_DESTINATION_BRANCH=main BITBUCKET_COMMIT={_SHA}"
    ),
    "a merge train of GitLab": (
        "CI_MERGE_REQUEST_IID=17 CI_MERGE_REQUEST_SOURCE_BRANCH_NAME=topic CI_MERGE_REQUEST_TARGET_BRANCH_NAME=main "
        f"CI_COMMIT_REF_NAME=refs/merge-requests/17/train CI_COMMIT_SHA={_SHA}"
    ),
}


@pytest.mark.parametrize("variables", SYSTEMS.values(), ids=SYSTEMS)
def test_a_pull_request_is_known_on_each_system(variables: str) -> None:
    """Its number, its branch, the branch it is for, and its commit."""
    environ = dict(variable.split("=", 1) for variable in variables.split())
    assert ci_pull_request(environ) == "17"
    assert ci_branch(environ) == "topic"
    assert ci_target(environ) == "main"
    assert ci_state(environ) == GitState(_SHA, "topic", dirty=False)


@pytest.mark.parametrize("target", ["main", "develop", "release/2.x", "pr-1-of-2"])
@pytest.mark.parametrize(
    "told",
    [
        "GITHUB_HEAD_REF= GITHUB_BASE_REF= GITHUB_REF=refs/heads/{} GITHUB_REF_NAME={} GITHUB_SHA={}",
        "BUILD_SOURCEBRANCH=refs/heads/{} BUILD_REASON=IndividualCI BUILD_SOURCEBRANCHNAME=pr BUILD_SOURCEVERSION={}",
        "BUILDKITE_BRANCH={} BUILDKITE_PULL_REQUEST=false BUILDKITE_COMMIT={}",
        "CIRCLE_BRANCH={}",
    ],
    ids=["GitHub", "Azure Pipelines", "Buildkite", "CircleCI"],
)
def test_a_merge_queue_names_its_target_and_its_pull_request(told: str, target: str) -> None:
    """No variable does, see CodSpeedHQ/action#126: the branch that GitHub makes for the queue has both in its name."""
    queue = f"gh-readonly-queue/{target}/pr-17-{_SHA}"
    environ = dict(variable.split("=", 1) for variable in told.format(*[queue] * told.count("{}")).split())
    assert ci_branch(environ) == queue
    assert (ci_target(environ), ci_pull_request(environ)) == (target, "17")


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"BUILD_SOURCEBRANCH": "refs/heads/feature/gh-readonly-queue", "BITBUCKET_BRANCH": "feature/x"},
        {"GITHUB_REF_NAME": f"gh-readonly-queue/main/pr-x-{_SHA}"},
        {"GITHUB_REF": "refs/heads/main", "GITHUB_BASE_REF": ""},
        {"BUILDKITE_PULL_REQUEST": "false", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": ""},
    ],
)
def test_a_push_is_no_pull_request(environ: dict[str, str]) -> None:
    """Empty variables, and Buildkite's ``false``, mean none; nor is its ``HEAD``, before a checkout, a commit."""
    assert ci_pull_request(environ) is None
    assert ci_target(environ) is None
    assert ci_state(environ | {"BUILDKITE_COMMIT": "HEAD"}).commit is None
