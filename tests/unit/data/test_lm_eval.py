"""Runs of one side are of one model, run in one way: the results beside the samples tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_quant.data.score_pairs import read_scores
from pytest_quant.spec import Scores
from tests.unit.data.test_score_pairs import refused, sample, samples

MONDAY, TUESDAY = "2026-11-23T21-24-27.376241", "2026-11-24T21-24-27.376241"

PLAIN: dict[str, Any] = {
    "config": {
        "model": "hf",
        "model_args": {"pretrained": "org/m", "dtype": "float16"},
        "model_num_parameters": 84032,
        "model_dtype": "torch.float16",
        "model_revision": "main",
        "model_sha": "",
        "batch_size": "64",
        "batch_sizes": [],
        "device": "cuda:0",
        "use_cache": None,
        "limit": None,
        "bootstrap_iters": 100000,
        "gen_kwargs": {},
        "random_seed": 0,
        "numpy_seed": 1234,
        "torch_seed": 1,
        "fewshot_seed": 1234,
    },
    "configs": {"gsm8k": {"generation_kwargs": {"until": ["\n", "Q:"], "do_sample": True, "temperature": 0.3}}},
    "versions": {"gsm8k": 3.0},
    "n-shot": {"gsm8k": 5},
    "n-samples": {"gsm8k": {"original": 4, "effective": 4}},
    "git_hash": "7cbb46d8",
    "date": 1795845113.04,
    "pretty_env_info": "GPU 0: A",
    "transformers_version": "5.24.0",
    "lm_eval_version": "0.4.13",
    "chat_template_sha": None,
    "system_instruction_sha": None,
    "total_evaluation_time_seconds": "12.5",
}
"""What lm-eval 0.4.13 writes, without its long texts."""


def changed(place: str, value: object) -> dict[str, Any]:
    """The same results with another value at a place, whose parts are joined by dots."""
    results = json.loads(json.dumps(PLAIN))
    *parts, last = place.split(".")
    inner = results
    for part in parts:
        inner = inner[part]
    inner[last] = value
    return dict(results)


def log(folder: Path, time: str, results: dict[str, Any], right: int = 4, task: str = "gsm8k") -> None:
    """Write a run of four questions as lm-eval does, with its results beside it."""
    rows = [sample(place, int(place < right), resps=[[f"{time} {place}"]]) for place in range(4)]
    samples(folder, rows, time=time, task=task)
    (folder / "model" / f"results_{time}.json").write_text(json.dumps(results))


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("config.model", "vllm", ["different model\n", "hf in ", "vllm in "]),
        (
            "config.model_args",
            {"pretrained": "org/m", "dtype": "float16", "load_in_4bit": True},
            [
                "different model_args",
                "dtype=float16,pretrained=org/m in ",
                "dtype=float16,load_in_4bit=True,pretrained",
            ],
        ),
        ("config.model_args", {"pretrained": "org/m", "dtype": "float16", "kv_cache_dtype": "fp8"}, ["kv_cache_dtype"]),
        ("config.model_args", {"pretrained": "other/m", "dtype": "float16"}, ["pretrained=other/m"]),
        ("config.model_dtype", "torch.bfloat16", ["torch.float16 in ", "torch.bfloat16 in "]),
        ("config.gen_kwargs", {"temperature": 1.0}, ["different gen_kwargs", "temperature=1.0"]),
        ("configs.gsm8k.generation_kwargs", {"do_sample": False}, ["different generation_kwargs of gsm8k"]),
        ("versions.gsm8k", 2.0, ["different versions of gsm8k", "3.0 in ", "2.0 in "]),
        ("n-shot.gsm8k", 0, ["different n-shot of gsm8k", "5 in ", "0 in "]),
        ("n-samples.gsm8k", {"original": 9, "effective": 4}, ["different n-samples of gsm8k", "original=9"]),
        ("lm_eval_version", "0.4.9", ["different lm_eval_version", "0.4.13 in ", "0.4.9 in "]),
        ("chat_template_sha", "5f2a", ["different chat_template_sha", "5f2a in "]),
    ],
)
def test_runs_of_another_model_or_setting_are_named(
    tmp_path: Path, place: str, value: object, words: list[str]
) -> None:
    """Last week's run in the folder, of other arguments, is an error with both values and both files."""
    log(tmp_path, MONDAY, PLAIN)
    log(tmp_path, TUESDAY, changed(place, value))
    message = refused(Scores.from_lm_eval(None, tmp_path))
    wanted = [*words, f"samples_gsm8k_{MONDAY}.jsonl", f"samples_gsm8k_{TUESDAY}.jsonl", "name the file of the run"]
    assert [word for word in wanted if word not in message] == []


def test_naming_the_file_is_a_way_out(tmp_path: Path) -> None:
    """The advice of the message works: the file of the run that is meant, beside the other one."""
    log(tmp_path, MONDAY, PLAIN)
    log(tmp_path, TUESDAY, changed("config.model_args", "pretrained=org/m,load_in_4bit=True"), right=3)
    (paired,) = read_scores(Scores.from_lm_eval(None, tmp_path / "model" / f"samples_gsm8k_{TUESDAY}.jsonl"))
    assert paired.candidate.tolist() == [[1.0, 1.0, 1.0, 0.0]]


def test_another_task_of_another_run_is_of_the_same_model_too(tmp_path: Path) -> None:
    """Today's run had one task alone; the file of the other task is last week's, of other arguments."""
    log(tmp_path, MONDAY, changed("config.model_args", "pretrained=org/m"), task="arc")
    log(tmp_path, TUESDAY, changed("config.model_args", "pretrained=org/m,load_in_4bit=True"))
    message = refused(Scores.from_lm_eval(None, tmp_path))
    assert [word for word in ("different model_args", "samples_arc_", "samples_gsm8k_") if word not in message] == []
    assert len(read_scores(Scores.from_lm_eval(None, tmp_path, task="gsm8k"))) == 1


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("config.torch_seed", 2),
        ("config.random_seed", None),
        ("config.model_args", {"dtype": "float16", "pretrained": "org/m", "seed": 7, "device_map_option": "auto"}),
        ("config.model_args", "pretrained=org/m,dtype=float16,gpu_memory_utilization=0.8,tensor_parallel_size=2"),
        ("config.model_args", "pretrained=org/m/,dtype=float16,token=hidden,download_dir=/mnt/models"),
        ("config.gen_kwargs", {"seed": 3}),
        (
            "configs.gsm8k.generation_kwargs",
            {"temperature": 0.3, "do_sample": True, "until": ["\n", "Q:"], "seed": 3},
        ),
        ("config.model_sha", "9f8a6b"),
        ("config.batch_size", "auto"),
        ("config.batch_sizes", [8]),
        ("config.device", "cpu"),
        ("config.use_cache", "/tmp/cache"),  # noqa: S108 - a name
        ("git_hash", "other"),
        ("date", 1.0),
        ("pretty_env_info", "GPU 0: B"),
        ("transformers_version", "5.23.0"),
        ("total_evaluation_time_seconds", "99"),
    ],
)
def test_runs_that_differ_in_seed_time_place_or_hardware_are_runs_of_one_model(
    tmp_path: Path, place: str, value: object
) -> None:
    """Nothing of these tells models apart; a hash that one run did not look up does not either."""
    log(tmp_path, MONDAY, PLAIN)
    log(tmp_path, TUESDAY, changed(place, value))
    (paired,) = read_scores(Scores.from_lm_eval(None, tmp_path))
    assert paired.candidate.shape == (2, 4)


@pytest.mark.parametrize(
    "paths",
    [
        ("/job/1/my-model", "/job/2/my-model/"),
        (r"C:\job\1\my-model", r"D:\my-model"),
        ("~/a/my-model", "../b/my-model"),
    ],
)
def test_a_model_at_another_path_is_the_same(tmp_path: Path, paths: tuple[str, str]) -> None:
    """A list of folders is runs of one model, which each job of CI has elsewhere."""
    for number, path in enumerate(paths):
        log(tmp_path / str(number), MONDAY, changed("config.model_args", f"pretrained={path}"))
    (paired,) = read_scores(Scores.from_lm_eval(None, [tmp_path / "0", tmp_path / "1"]))
    assert paired.candidate.shape == (2, 4)


def test_the_sides_have_other_models_by_design(tmp_path: Path) -> None:
    """What is compared within a side may differ between the sides."""
    log(tmp_path / "fp16", MONDAY, PLAIN)
    log(tmp_path / "int4", TUESDAY, changed("config.model_args", "pretrained=org/m,load_in_4bit=True"))
    assert len(read_scores(Scores.from_lm_eval(tmp_path / "fp16", tmp_path / "int4"))) == 1


def test_a_secret_argument_is_not_printed(tmp_path: Path) -> None:
    """A token among the arguments is no part of the message about others that differ."""
    log(tmp_path, MONDAY, changed("config.model_args", "pretrained=org/m,token=hf_42"))
    log(tmp_path, TUESDAY, changed("config.model_args", "pretrained=org/n,token=hf_42"))
    message = refused(Scores.from_lm_eval(None, tmp_path))
    assert "pretrained=org/n" in message
    assert "hf_42" not in message
