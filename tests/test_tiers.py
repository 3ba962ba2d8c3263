"""Each test is in the tier that its folder says."""

from __future__ import annotations

import pytest

from tests.tiers import LONGEST, ROOT, TIERS, is_in

FILES = sorted(ROOT.rglob("test_*.py"))


def test_every_file_is_in_one_of_three_tiers() -> None:
    """What each commit runs, what a night runs, and what times: none is left out and none runs twice."""
    assert FILES
    tiers = ("all", "nightly", "benchmarks")
    assert [file for file in FILES if sum(is_in(tier, file) for tier in tiers) != 1] == []


def test_what_is_fast_is_in_all() -> None:
    """It is the part of it that has the unit tests, the contracts, README.md and one whole run."""
    fast = {file.relative_to(ROOT).as_posix() for file in FILES if is_in("fast", file)}
    assert fast <= {file.relative_to(ROOT).as_posix() for file in FILES if is_in("all", file)}
    assert {"test_contracts.py", "test_readme.py", "integration/test_history_limits.py"} <= fast
    assert fast >= {file.relative_to(ROOT).as_posix() for file in FILES if file.is_relative_to(ROOT / "unit")}
    assert len([name for name in fast if name.startswith("integration/")]) == 1


def test_the_longest_are_files() -> None:
    """Each is there, and once."""
    assert [name for name in LONGEST if not (ROOT / name).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)


@pytest.mark.parametrize("tier", TIERS)
def test_the_option_collects_the_tier_and_nothing_else(request: pytest.FixtureRequest, tier: str) -> None:
    """Files of other tiers are not even read."""
    config = request.config
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config.option, "tier", tier)
        read = [file for file in FILES if not config.hook.pytest_ignore_collect(collection_path=file, config=config)]
    assert read == [file for file in FILES if is_in(tier, file)]
