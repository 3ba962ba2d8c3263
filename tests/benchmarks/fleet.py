"""The figures of the guide `fleet`: ``python -m tests.benchmarks.fleet [ROW...]`` runs what measures each of them.

Servers are real ones on the loopback: S3 by moto, the workers of Dask, PostgreSQL, pgbouncer. The rows ``workers`` and
``history`` need a machine on which nothing else runs. The exit status is 1 where a row fails. A table of figures says
itself which of them are reached.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PYTEST = ("pytest", "-q", "-p", "no:cacheprovider")
ROWS = {
    "second-machine": (*_PYTEST, "tests/integration/test_shared_cache.py"),
    "stores-that-fail": ("tests.benchmarks.remote_cache", "20"),
    "workers": ("tests.benchmarks.workers",),
    "killed-workers": (*_PYTEST, "tests/nightly/test_killed_workers.py"),
    "lost-shard": (*_PYTEST, "tests/integration/test_shards.py"),
    "pool-and-role": (*_PYTEST, "tests/integration/test_history_fleet.py"),
    "history": ("tests.benchmarks.fleet_history",),
}


def main() -> int:
    """Run the rows that are named, or all, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}")
    named = parser.parse_args().rows
    if unknown := [row for row in named if row not in ROWS]:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    failed = []
    for row in named or ROWS:
        sys.stdout.write(f"\n## {row}\n\n")
        sys.stdout.flush()
        if subprocess.run((sys.executable, "-m", *ROWS[row]), cwd=ROOT, check=False).returncode:
            failed.append(row)
    sys.stdout.write(f"\n{len(failed)} rows failed{': ' if failed else ''}{', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
