"""Workers of xdist that die in a check, at random or for want of memory: each check is named. Sessions are fakes."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from pytest_quant.history import open_store
from tests.integration.fake_session import PLUGIN, write_fake
from tests.support.example import ROOT

KEPT = 6
ENDED = "the process that ran this check ended with"
OUTPUTS = ("--quant-json=run.json", "--quant-markdown=run.md", "--quant-html=run.html")
DYING = """
import faulthandler, os, signal, threading, time

@pytest.fixture
def early_{number}():
    time.sleep({early})

@mark.quant(output="PASS")
def test_dying_{number}(early_{number}, quant):
    os.kill(os.getpid(), signal.{signal})
    time.sleep(60)
"""
IN_FIXTURE = DYING.replace("    time.sleep({early})", "    os.kill(os.getpid(), signal.{signal})\n    time.sleep(60)")
LATER = DYING.replace(
    "    os.kill(os.getpid(), signal.{signal})\n    time.sleep(60)",
    # Python's own handler prints the stacks of all threads first, and now and then ends with SIGSEGV over this one's.
    "    faulthandler.disable()\n"
    "    threading.Timer({early}, os.kill, (os.getpid(), signal.{signal})).start()\n    time.sleep(60)",
)
KEEPING = "@mark.quant(output='PASS')\ndef test_kept_{number}(): pass\n"


def run(folder: Path, *args: str, group: Path | None = None) -> str:
    """Run the project in processes of its own, within a cgroup where one is given, and return what it prints."""
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "-q", *OUTPUTS, *args]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    join = f"echo $$ > {group}/cgroup.procs; exec " if group else "exec "
    shell = ("sh", "-c", f'{join}"$@"', "sh", *command)
    done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600)
    return done.stdout


def statuses(folder: Path) -> dict[str, tuple[str, str]]:
    """Return status and first line of the message of each check, by the name of its test."""
    checks = json.loads((folder / "run.json").read_text())["checks"]
    return {
        check["nodeid"].partition("::")[2]: (check["status"], check["message"].partition("\n")[0]) for check in checks
    }


@pytest.mark.parametrize(("kills", "workers"), [(30, 2), (5, 1)])
def test_killed_checks_are_named_and_no_other_is_lost(tmp_path: Path, kills: int, workers: int) -> None:
    """In a fixture, in the body and some time into it, by any signal: in table, JSON, page, comment and history.

    Also with the one worker of which the guide says that it survives.
    """
    seed = time.time_ns() % 2**32
    draw = random.Random(seed)  # noqa: S311 - not for secrets
    ways = [draw.choice((DYING, IN_FIXTURE, LATER)) for _ in range(kills)]
    signals = [draw.choice(("SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM", "SIGBUS")) for _ in range(kills)]
    tests = [
        way.format(number=number, signal=signals[number], early=f"{draw.uniform(0.0, 0.3):.3f}")
        for number, way in enumerate(ways)
    ]
    tests += [KEEPING.format(number=number) for number in range(KEPT)]
    draw.shuffle(tests)
    write_fake(tmp_path, "".join(tests))
    said = run(tmp_path, f"-n{workers}", "--max-worker-restart=100")
    expected = {f"test_dying_{number}": ("ERROR", f"{ENDED} {name}") for number, name in enumerate(signals)}
    expected |= {f"test_kept_{number}": ("PASS", "") for number in range(KEPT)}
    assert statuses(tmp_path) == expected, f"seed {seed}"
    assert f"{kills + KEPT} checks: {KEPT} PASS, {kills} ERROR" in said
    for name in ("run.md", "run.html"):
        text = (tmp_path / name).read_text()
        missing = [test for test in expected if not re.search(rf"\b{test}\b", text)]
        assert missing == [], f"seed {seed}, {name}"
    (stored,) = open_store(tmp_path / ".quant" / "history.db").each_run()
    assert len(stored[1]) == kills + KEPT
    assert list(tmp_path.glob("pytest-quant-work-*/*-gw*")) == []


LIMIT_MB, HELD_MB = 1000, 600
HOLDING = """
import os, time
from pathlib import Path

@pytest.fixture
def memory(request):
    Path(request.node.name).touch()
    while os.environ["PYTEST_XDIST_WORKER_COUNT"] == "2" and len(list(Path().glob("test_*[12]"))) < 2:
        time.sleep(0.01)
    held = b"x" * ({held} * 10**6)
    time.sleep(2)
    yield held

@mark.quant(output="PASS")
def test_1(memory): pass

@mark.quant(output="PASS")
def test_2(memory): pass
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup of this process's own, with a limit on memory."""
    lines = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    own = {kind: path for _, kind, path in lines}
    top = Path("/sys/fs/cgroup/memory") if "memory" in own else Path("/sys/fs/cgroup")
    above = top / own.get("memory", own.get("", "/")).lstrip("/")
    place = (above if above.is_dir() else top) / f"quant-{uuid4().hex[:8]}"
    try:
        place.mkdir()
        limit = next(file for name in ("memory.max", "memory.limit_in_bytes") if (file := place / name).exists())
        limit.write_text(str(LIMIT_MB * 10**6))
    except (OSError, StopIteration) as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    yield place
    place.rmdir()


def test_a_check_that_the_system_ended_for_want_of_memory_says_so(tmp_path: Path, group: Path) -> None:
    """Of two that do not fit in together; as its next step says, they pass one after the other."""
    write_fake(tmp_path, HOLDING.format(held=HELD_MB))
    said = run(tmp_path, "-n2", group=group)
    words = sorted(statuses(tmp_path).values())
    assert words == [
        ("ERROR", f"{ENDED} SIGKILL, and the system ended 1 of this cgroup for want of memory meanwhile"),
        ("PASS", ""),
    ]
    for text in (said, (tmp_path / "run.md").read_text(), (tmp_path / "run.html").read_text()):
        assert "run fewer checks at once, -n 1" in text or "for want of memory" in text
    run(tmp_path, "-n1", group=group)
    assert {status for status, _ in statuses(tmp_path).values()} == {"PASS"}
