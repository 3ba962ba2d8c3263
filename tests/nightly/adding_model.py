"""A small language model that adds, mostly rightly, and what ``lm_eval`` logs of its answers."""

from __future__ import annotations

import importlib
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tests.support.example import environment

SUMMANDS = 30
CHARACTERS = "0123456789+=\n"
PADDING = "<s>"
PROMPT = len("29+29=")

_STEPS = 240
"""Of training: some sums are learned by then and some are not."""

_TASK = """\
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {questions}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
target_delimiter: ""
generation_kwargs: {{until: ["\\n"], max_gen_toks: 3, {decoding}}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 1.0}}
"""
SAMPLED, GREEDY = "arithmetic", "arithmetic_greedy"
_ASKED = {SAMPLED: (40, "do_sample: true, temperature: 0.3"), GREEDY: (200, "do_sample: false")}


def make_model(folder: Path) -> None:
    """Train a model on sums for some seconds, and save it as Hugging Face's libraries read it."""
    transformers = importlib.import_module("transformers")
    torch.manual_seed(0)
    padding = len(CHARACTERS)
    config = transformers.LlamaConfig(
        vocab_size=len(CHARACTERS) + 1,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
        bos_token_id=padding,
        eos_token_id=CHARACTERS.index("\n"),
        pad_token_id=padding,
    )
    model = transformers.LlamaForCausalLM(config)
    sums = torch.tensor([_numbers_of(a, b) for a in range(SUMMANDS) for b in range(SUMMANDS)])
    optimizer = torch.optim.AdamW(model.parameters())
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=_STEPS)
    for _ in range(_STEPS):
        batch = sums[torch.randint(len(sums), (128,))]
        answers = batch.clone()
        answers[:, :PROMPT] = -100  # left out of the loss
        loss = model(input_ids=batch, labels=answers).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()
    model.save_pretrained(folder)
    names = {"bos_token": PADDING, "pad_token": PADDING, "eos_token": "\n"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=_tokenizer(), **names).save_pretrained(folder)


def round_weights(model: Path, rounded: Path, *, bits: int) -> None:
    """Copy a model with the weights of each row rounded to whole multiples of its largest one's share."""
    shutil.copytree(model, rounded)
    file = rounded / "model.safetensors"
    weights = load_file(file)
    for name, weight in weights.items():
        if weight.ndim > 1:
            step = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-9) / (2 ** (bits - 1) - 1)
            weights[name] = (weight / step).round() * step
    save_file(weights, file, metadata={"format": "pt"})


def write_tasks(folder: Path) -> None:
    """Write two tasks of ``lm_eval``: few sums that are answered by sampling, and many greedily."""
    folder.mkdir()
    for name, (questions, decoding) in _ASKED.items():
        chosen = random.Random(1).sample(range(SUMMANDS**2), questions)  # noqa: S311 - which sums are asked
        sums = [divmod(number, SUMMANDS) for number in chosen]
        rows = [{"question": f"{a:02}+{b:02}=", "answer": f"{a + b:02}"} for a, b in sums]
        file = folder / f"{name}.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (folder / f"{name}.yaml").write_text(_TASK.format(name=name, questions=file, decoding=decoding))


def run_lm_eval(model: Path, tasks: Path, output: Path, *, seed: int) -> None:
    """Log the samples of both tasks as a user does, without network; the `seed` is of sampling alone."""
    command = [sys.executable, "-m", "lm_eval", "--model=hf", f"--model_args=pretrained={model},dtype=float32"]
    command += ["--device=cpu", "--batch_size=64", f"--tasks={SAMPLED},{GREEDY}", f"--include_path={tasks}"]
    command += ["--log_samples", f"--output_path={output}", f"--seed=0,1234,{seed},1234"]
    offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1")
    env = environment() | offline | {"HF_HOME": str(tasks / "cache")}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def _numbers_of(first: int, second: int) -> list[int]:
    return [CHARACTERS.index(character) for character in f"{first:02}+{second:02}={first + second:02}\n"]


def _tokenizer() -> Tokenizer:
    """Return one token for each character."""
    vocabulary = {character: number for number, character in enumerate([*CHARACTERS, PADDING])}
    result = Tokenizer(models.WordLevel(vocabulary, unk_token=PADDING))
    result.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    result.decoder = decoders.Fuse()
    return result
