"""A stand-in for ``lm_eval`` where guides name it: it takes the same options and logs answers in the same form.

What the real one logs is judged by `tests.nightly.test_lm_eval`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

_SAMPLES = {"gsm8k": 1319, "arc_challenge": 1172, "winogrande": 1267}
_METRICS = {"gsm8k": ("exact_match", ("strict-match", "flexible-extract"))}
_OF_CHOICES = ("acc", ("none",))
_RIGHT, _CHANGED, _BY_LUCK = 0.7, 0.02, 0.02
"""Shares of the samples: right in float, answered in another way by 4 bits, and by each run of sampling."""


def log_samples(output: Path, model: str, task: str, *, seed: int, samples: bool) -> None:
    """Write what a run logs: ``<output>/<model>/samples_<task>_<time>.jsonl`` and the results beside it.

    Parameters
    ----------
    output, model, task : as the command line names them.
    seed : of sampling.
    samples : answers are drawn anew in each run.
    """
    n, (metric, filters) = _SAMPLES[task], _METRICS.get(task, _OF_CHOICES)
    right = np.random.default_rng(n).random(n) < _RIGHT
    for happens, share, of in (("int4" in model, _CHANGED, 1), (samples, _BY_LUCK, 2 + seed)):
        if happens:
            right = right ^ (np.random.default_rng([n, of]).random(n) < share)
    folder, time = output / model.replace("/", "__"), f"2026-01-05T09-{seed % 60:02}-00.000000"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "doc_id": place,
            "doc_hash": hashlib.sha256(f"{task} {place}".encode()).hexdigest(),
            "filter": name,
            "metrics": [metric],
            metric: float(is_right),
        }
        for name in filters
        for place, is_right in enumerate(right)
    ]
    file = folder / f"samples_{task}_{time}.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    results = {"higher_is_better": {task: {metric: True}}, "n-samples": {task: {"original": n, "effective": n}}}
    (folder / f"results_{time}.json").write_text(json.dumps(results), "utf-8")


def main(arguments: Sequence[str]) -> None:
    """Run the command line of a guide; an option that ``lm_eval`` has not is an error."""
    parser = argparse.ArgumentParser("lm_eval", allow_abbrev=False)
    for name in ("model", "model_args", "tasks", "output_path"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--log_samples", action="store_true", required=True)
    parser.add_argument("--gen_kwargs", default="")
    parser.add_argument("--seed", default="0,1234,1234,1234")
    given = parser.parse_args(arguments)
    _, _, seed, _ = map(int, given.seed.split(","))
    model = dict(pair.split("=") for pair in given.model_args.split(","))["pretrained"]
    for task in given.tasks.split(","):
        samples = "do_sample=True" in given.gen_kwargs.split(",")
        log_samples(Path(given.output_path), model, task, seed=seed, samples=samples)


if __name__ == "__main__":
    main(sys.argv[1:])
