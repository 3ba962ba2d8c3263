"""The models and samples that guides name. Models are small, and their answers are known by construction."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from tests.support.detectors import detector, pictures
from tests.support.example import EXAMPLE
from tests.support.harness import log_samples
from tests.support.layouts import accumulator, to_time_major
from tests.support.llama import against_base, losses, plain
from tests.support.models import parsed

VOCABULARY = 64
GOOD, BAD = ("fresh", "warm", "clever", "lovely"), ("stale", "cold", "dull", "tired")
UNKNOWN = "[UNK]"
NEUTRAL = ("the", "a", "film", "story", "cast", "and", "is", "very")


def _random(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _digits(path: Path) -> None:
    path.write_bytes((EXAMPLE / "digits.onnx").read_bytes())


def _digits_int8(path: Path) -> None:
    """The file of a vendor who keeps the float model."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(str(path.with_name("digits.onnx")), str(path), weight_type=QuantType.QUInt8)


def _digit_images(path: Path) -> None:
    digits = load_digits()
    np.savez(path, images=(digits.images[:, None] / 16).astype(np.float32), labels=digits.target)


def _two_inputs(path: Path) -> None:
    """The page and the user vote for one of four classes; the user's vote is half."""
    graph = """(float[n, 8] page, float[n, 8] user) => (float[n, 4] scores) {
        [page_head] by_page = MatMul(page, w)
        [user_head] by_user = MatMul(user, half)
        [vote] scores = Add(by_page, by_user)
    }"""
    weight = np.eye(8, 4, dtype=np.float32)
    parsed(path, graph, w=weight, half=weight / 2)


def _visits(path: Path) -> None:
    page, user = _random(240, 8), _random(240, 8, seed=1)
    np.savez(path, page=page, user=user, labels=(page[:, :4] + user[:, :4] / 2).argmax(axis=1))


def _detector(path: Path) -> None:
    """Pictures (n, 3, 16, 16) -> (n, 7, 64): four channels in hundreds of pixels, three scores of about one."""
    scale = np.array([100.0] * 4 + [0.1] * 3, np.float32)[:, None, None, None]
    graph = """(float[n, 3, 16, 16] images) => (float[n, 7, 64] output0) {
        [backbone] f = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (images, kernels)
        [relu] active = Relu(f)
        [head] map = Conv <kernel_shape = [1, 1]> (active, heads)
        [flat] output0 = Reshape(map, shape)
    }"""
    heads = _random(7, 16, 1, 1, seed=1) * scale
    parsed(path, graph, kernels=_random(16, 3, 3, 3) / 5, heads=heads, shape=np.array([0, 7, 64]))


def _pictures(path: Path) -> None:
    np.savez(path, images=np.random.default_rng(2).uniform(size=(80, 3, 16, 16)).astype(np.float32))


def _lines(path: Path) -> None:
    """Lines of 12 steps over a blank and three letters; the right one of each step leads by one."""
    letters = np.random.default_rng(3).integers(0, 4, size=(120, 12))
    features = np.random.default_rng(4).uniform(0.0, 0.4, size=(120, 12, 8)).astype(np.float32)
    np.put_along_axis(features, letters[..., None], 1.4, axis=2)
    np.savez(path, features=features, texts=np.array([_read(line) for line in letters]))


def _read(line: NDArray[Any]) -> str:
    return "".join("-abc"[s] for i, s in enumerate(line) if s and (i == 0 or s != line[i - 1]))


def _calls(path: Path) -> None:
    frames = _random(48, 6, 8, seed=5)
    state = np.zeros((48, 4))
    for step in range(frames.shape[1]):
        state = state / 2 + frames[:, step, :4]
    np.savez(path, frames=frames, labels=state.argmax(axis=1))


def _embedding() -> NDArray[np.float32]:
    return _random(VOCABULARY, VOCABULARY, seed=6)


def _decoder(path: Path) -> None:
    """Token ids (n, t) -> scores (n, t, vocabulary): an embedding and one product."""
    graph = f"""(int64[n, t] input_ids) => (float[n, t, {VOCABULARY}] logits) {{
        [embed] vectors = Gather(embedding, input_ids)
        [lm_head] logits = MatMul(vectors, head)
    }}"""
    parsed(path, graph, embedding=_embedding(), head=_random(VOCABULARY, VOCABULARY, seed=7))


def _texts(path: Path) -> None:
    """Ids in lines of 12, and the token that the float model expects after each."""
    ids = np.random.default_rng(8).integers(0, VOCABULARY, size=(60, 12))
    following = (_embedding()[ids] @ _random(VOCABULARY, VOCABULARY, seed=7)).argmax(axis=-1)
    np.savez(path, ids=ids, next=following)


def _exported(path: Path) -> None:
    """As an exporter writes a text classifier: the mean of the vectors under the mask, and a head of two classes.

    Good words lead to class 1 and bad ones to class 0.
    """
    words = _words()
    embedding = _random(len(words), 32, seed=9) / 10
    for word, id_ in words.items():
        embedding[id_, 0] += (word in GOOD) - (word in BAD)
    head = np.zeros((32, 2), np.float32)
    head[0] = (-4.0, 4.0)
    graph = """(int64[n, t] input_ids, int64[n, t] attention_mask) => (float[n, 2] logits) {
        [embed] vectors = Gather(embedding, input_ids)
        [as_float] mask = Cast <to = 1> (attention_mask)
        [widen] wide = Unsqueeze(mask, last)
        [keep] kept = Mul(vectors, wide)
        [sum] sum = ReduceSum <keepdims = 0> (kept, time)
        [dense] hidden = MatMul(sum, dense)
        [classifier] logits = MatMul(hidden, head)
    }"""
    dense = np.eye(32, dtype=np.float32) + _random(32, 32, seed=10) / 100
    parsed(path, graph, embedding=embedding, dense=dense, head=head, last=np.array([-1]), time=np.array([1]))


def _quantized(path: Path) -> None:
    """The export, as ONNX Runtime's own tool quantizes it."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(str(path.with_name("model.onnx")), str(path), weight_type=QuantType.QInt8, per_channel=True)


def _words() -> dict[str, int]:
    return {word: id_ for id_, word in enumerate(("[PAD]", UNKNOWN, *NEUTRAL, *GOOD, *BAD))}


def _tokenizer(path: Path) -> None:
    words = {"unk_token": UNKNOWN}
    tokenizer = Tokenizer(WordLevel(_words(), **words))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(path))


def _reviews(path: Path) -> None:
    """Three words with an opinion, all of one kind, among neutral ones."""
    random = np.random.default_rng(11)
    reviews = []
    for number in range(200):
        label = number % 2
        words = [*random.choice(NEUTRAL, 6), *random.choice(GOOD if label else BAD, 3)]
        reviews.append({"text": " ".join(random.permutation(words)), "label": label})
    path.write_text(json.dumps(reviews), "utf-8")


def _logged(path: Path) -> None:
    """Write what a first run of each task logs, and three by sampling."""
    model = "my-model-int4" if "int4" in path.name else "my-model"
    samples = path.name.endswith("-sampled")
    for task, seed in (("gsm8k", 1), ("gsm8k", 2), ("gsm8k", 3)) if samples else (("gsm8k", 1234), *_CHOICES):
        log_samples(path, model, task, seed=seed, samples=samples)


_CHOICES = ("arc_challenge", 1234), ("winogrande", 1234)


def _answers(path: Path) -> None:
    """Write a table as a harness of one's own does: 900 questions, of which few are lost by 4 bits."""
    rows = [
        f"q{number},{int(number % 4 > 0 and not ('int4' in path.name and number % 90 == 1))}" for number in range(900)
    ]
    path.write_text("\n".join(["question,right", *rows]) + "\n", "utf-8")


def _log_lines(path: Path) -> None:
    """Write a line for each of 900 questions, as any harness may."""
    lost = "int4" in path.name
    rows = ({"question": f"q{n}", "passed": n % 4 > 0 and not (lost and n % 90 == 1)} for n in range(900))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def _spoken(path: Path) -> None:
    """Write the errors in sentences of 40 speakers."""
    words = np.random.default_rng(12).integers(4, 30, 400)
    errors = np.random.default_rng(13).binomial(words, 0.08) + ("int4" in path.name) * (np.arange(400) % 40 == 0)
    rows = (f"s{n},speaker{n % 40},{errors[n]},{words[n]}" for n in range(400))
    path.write_text("\n".join(["id,speaker,errors,words", *rows]) + "\n", "utf-8")


def _inspected(path: Path) -> None:
    """Write what is read of a log of inspect: 300 questions in two epochs."""
    random = np.random.default_rng(14 + ("int4" in path.name))
    samples = [
        {"id": n, "epoch": epoch, "input": f"{n}?", "target": "a", "scores": {"grades": {"value": "CI"[n % 5 == 0]}}}
        for n in range(300)
        for epoch in (1, 2)
    ]
    for sample in random.choice(np.array(samples), 4, replace=False):
        sample["scores"]["grades"]["value"] = "P"
    with zipfile.ZipFile(path, "w") as log:
        log.writestr("header.json", json.dumps({"status": "success", "eval": {"task": "questions"}}))
        log.writestr("summaries.json", json.dumps(samples))


def _perplexities(path: Path) -> None:
    """Write what llama-perplexity prints of 120 chunks, also with --kl-divergence."""
    values = losses(120, 1 if "fp16" in path.name else 2, more=0.0 if "fp16" in path.name else 0.01)
    same = (np.random.default_rng(15).random(values.shape) < 0.97).astype(float)
    text = (
        against_base(values, losses(120, 1), np.full_like(values, 0.02), same) if "kld" in path.name else plain(values)
    )
    path.write_text(text, "utf-8")


FILES: Mapping[str, Callable[[Path], object]] = {
    "digits.onnx": _digits,
    "digits.npz": _digit_images,
    "digits_int8.onnx": _digits_int8,
    "two_inputs.onnx": _two_inputs,
    "visits.npz": _visits,
    "detector.onnx": _detector,
    "pictures.npz": _pictures,
    "cells.onnx": detector,
    "cells.npz": pictures,
    "ocr.onnx": to_time_major,
    "lines.npz": _lines,
    "step.onnx": accumulator,
    "calls.npz": _calls,
    "decoder.onnx": _decoder,
    "texts.npz": _texts,
    "exported/model.onnx": _exported,
    "exported/model_quantized.onnx": _quantized,
    "exported/tokenizer.json": _tokenizer,
    "reviews.json": _reviews,
    "runs/fp16": _logged,
    "runs/int4": _logged,
    "runs/fp16-sampled": _logged,
    "runs/int4-sampled": _logged,
    "fp16.csv": _answers,
    "int4.csv": _answers,
    "fp16_log.jsonl": _log_lines,
    "int4_log.jsonl": _log_lines,
    "fp16_wer.csv": _spoken,
    "int4_wer.csv": _spoken,
    "inspect/fp16.eval": _inspected,
    "inspect/int4.eval": _inspected,
    "fp16.log": _perplexities,
    "q4.log": _perplexities,
    "q4_kld.log": _perplexities,
}
"""Who writes each file; what is made from another one comes after it."""

_ALWAYS = ("digits.onnx", "digits.npz")


def write_files(folder: Path, text: str) -> None:
    """Write the digits, and every other file whose name occurs in a text, as a user of it would have them."""
    for name, writer in FILES.items():
        # A folder's own name may be any word.
        if name in _ALWAYS or (Path(name).name if Path(name).suffix else name) in text:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            writer(path)
