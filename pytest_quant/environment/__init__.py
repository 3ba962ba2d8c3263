"""What the machine, its libraries and the code under test are."""

from pytest_quant.environment.ci import ci_branch, ci_commit, ci_pull_request, ci_target
from pytest_quant.environment.git import MAX_DISTANCE, GitState, Repository, git_state
from pytest_quant.environment.machine import ONEDNN_LIMIT, fingerprint, has_vnni, isa_tier, onednn_tier

__all__ = [
    "MAX_DISTANCE",
    "ONEDNN_LIMIT",
    "GitState",
    "Repository",
    "ci_branch",
    "ci_commit",
    "ci_pull_request",
    "ci_target",
    "fingerprint",
    "git_state",
    "has_vnni",
    "isa_tier",
    "onednn_tier",
]
