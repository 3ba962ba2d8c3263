"""Identification of the machine, its libraries and the code under test."""

from pytest_quant.environment.machine import ONEDNN_LIMIT, fingerprint, has_vnni, isa_tier, onednn_tier
from pytest_quant.environment.revision import (
    MAX_DISTANCE,
    Committed,
    GitState,
    Repository,
    ci_branch,
    ci_commit,
    ci_pull_request,
    ci_target,
    git_state,
    git_trouble,
)

__all__ = [
    "MAX_DISTANCE",
    "ONEDNN_LIMIT",
    "Committed",
    "GitState",
    "Repository",
    "ci_branch",
    "ci_commit",
    "ci_pull_request",
    "ci_target",
    "fingerprint",
    "git_state",
    "git_trouble",
    "has_vnni",
    "isa_tier",
    "onednn_tier",
]
