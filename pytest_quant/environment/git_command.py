"""One question to git."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """What git said; `code` is ``None`` when there is no git, or it did not answer in time."""

    code: int | None
    text: str
    error: str

    @property
    def ok(self) -> bool:
        """Whether git did what it was asked for."""
        return self.code == 0


def ask_git(root: Path, *arguments: str, timeout_s: float = 10.0) -> GitAnswer:
    """Ask git about the repository around `root`; it takes no lock and asks no question back."""
    # Looking must not take the lock that a git command of the user may want at this moment.
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        answer = subprocess.run(  # noqa: S603 - a fixed program without a shell
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
    except subprocess.TimeoutExpired:
        return GitAnswer(None, "", f"git did not answer within {timeout_s:g} s")
    text, told = (stream.decode(errors="replace").strip() for stream in (answer.stdout, answer.stderr))
    return GitAnswer(answer.returncode, text, told)
