"""What the machine, its libraries and the code under test are."""

from pytest_quant.environment.fingerprint import fingerprint
from pytest_quant.environment.git import GitState, git_state
from pytest_quant.environment.isa import has_vnni, isa_tier

__all__ = ["GitState", "fingerprint", "git_state", "has_vnni", "isa_tier"]
