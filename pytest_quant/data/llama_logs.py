"""Logs of llama.cpp's llama-perplexity, which prints after each chunk of a text the figures of all chunks so far."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_quant.data.score_files import ScoreRun, run_of
from pytest_quant.errors import DataError
from pytest_quant.files import file_errors, read_file

_NUMBER = r"(-?\d+\.\d+|-?nan|-?inf)"
_ROW = re.compile(r"^ *(\d+)" + rf" +{_NUMBER} +\S+ +{_NUMBER}(?: +%)?" * 5, re.MULTILINE)
"""Of ``llama-perplexity --kl-divergence``: a chunk and five figures, each with its error."""


def read_llama_log(path: Path, figure: str) -> tuple[ScoreRun, ScoreRun | None]:
    """Return a figure of each chunk for the model of a log, and for its base model; ``None`` if the log has none.

    All chunks have as many tokens, so that the figure of chunk i is i times that of the first i chunks less i - 1 times
    that of the first i - 1. The mean over all chunks is as exact as the log; the figure of one is i times less exact.

    Parameters
    ----------
    path : of what llama-perplexity printed.
    figure : ``perplexity``, then the mean of -ln p in nats; ``kld``, in nats; or ``same_top``, in percent.

    Raises
    ------
    DataError : the file cannot be read, or does not have the figure of all chunks.
    """
    with file_errors(DataError, f"{path} cannot be read", "look whether the run that writes it has ended"):
        text = read_file(path, 64_000_000).decode("utf-8", "replace")
    rows = _ROW.findall(text)
    chunks = rows or (re.findall(rf"\[(\d+)\]{_NUMBER},", text) if figure == "perplexity" else [])
    told = re.search(r"over (\d+) chunks", text)
    places = range(1, 1 + (int(told[1]) if told else len(chunks)))
    if not chunks or [int(chunk[0]) for chunk in chunks] != list(places):
        what, found = f"{path} does not have the {figure} of all chunks", f"{len(chunks)} of {len(places)}"
        allowed = "all that one run of llama-perplexity printed; kld, same_top: of llama-perplexity --kl-divergence"
        raise DataError(what, value=found, allowed=allowed, fix="run it again: llama-perplexity ... 2>&1 | tee FILE")
    columns = np.array([chunk[1:] for chunk in chunks], np.float64).T
    if figure == "perplexity":
        with np.errstate(invalid="ignore", divide="ignore"):
            so_far = np.log(columns[0])
        return _run(path, so_far), _run(path, so_far - columns[2]) if rows else None
    # The digits that the log leaves out may put a chunk beyond 0 or 100 %.
    ours, base, least, most = (columns[4], 0.0, -np.inf, np.inf) if figure == "kld" else (columns[8], 100.0, 0.0, 100.0)
    return _run(path, ours, least, most), _run(path, np.full(len(places), base))


def _run(path: Path, so_far: NDArray[np.float64], least: float = -np.inf, most: float = np.inf) -> ScoreRun:
    """Return the figures of single chunks."""
    figures = np.diff(so_far * np.arange(1, len(so_far) + 1), prepend=0.0).clip(least, most).tolist()
    rows = ((f"{path.name}, chunk {n}", {"id": n, "score": figure}) for n, figure in enumerate(figures, 1))
    return run_of(path.name, rows, "id", "score")
