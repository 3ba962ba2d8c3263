"""The independent script as a process that answers, one request a line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SCRIPT = Path(__file__).with_name("independent.py")


class Independent:
    """``with Independent() as independent: independent.figures(request)``."""

    def __enter__(self) -> Self:
        """Start the process; nothing of ours is on its path."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process by the end of its input."""
        self._process.communicate()

    def figures(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask once and return the answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        answer: dict[str, Any] = json.loads(stdout.readline())
        return answer
