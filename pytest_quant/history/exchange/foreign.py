"""Results of other benchmark tools as runs whose records have a latency only.

==================  ================================================  ==============================================
here                pytest-benchmark, ``--benchmark-json``            asv, ``results/MACHINE/COMMIT-ENVIRONMENT.json``
==================  ================================================  ==============================================
run id              its time and a digest of the file                 its time and a digest of the file
started_at          ``datetime``                                      ``date`` of the commit: asv measures old
                                                                      commits late, and a series is in their order
commit, branch      ``commit_info`` ``id``, ``branch``                ``commit_hash``, none
dirty               ``commit_info.dirty``                             never
identity            ``machine_info``: cpu, cores, os, arch            ``params``: cpu, num_cpu, os, arch
context             Python and its implementation                     Python, requirements, environment
nodeid              ``fullname``                                      the benchmark, and the parameters in brackets
backend             ``pytest-benchmark``                              ``asv``
candidate p50       ``stats.median``, seconds                         ``result``, seconds, of ``time_`` benchmarks
round medians       ``stats.data``, evenly spaced                     ``samples``, evenly spaced
==================  ================================================  ==============================================

There is no reference, so no speedup; model is ``-``, precision ``unknown``, status PASS as nothing was judged.
"""

from __future__ import annotations

from pytest_quant.history.exchange import asv, pytest_benchmark
from pytest_quant.record import Record, Run


def foreign_run(document: object) -> tuple[Run, tuple[Record, ...]] | None:
    """Return the run in a document of pytest-benchmark or asv; ``None`` for any other document.

    Raises
    ------
    HistoryError : it is one of them, and a field is missing or has the wrong type.
    """
    if not isinstance(document, dict):
        return None
    if "machine_info" in document and "benchmarks" in document:
        return pytest_benchmark.read(document)
    if "result_columns" in document and "commit_hash" in document:
        return asv.read(document)
    return None
