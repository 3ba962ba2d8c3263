"""A llama in ONNX Runtime's generative runtime: full precision against 4-bit weights, in process and behind a server.

The network is small, and trained here for seconds to go on with letters that repeat; transformers makes it, and the
runtime's own builder converts it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.integration.projects import run_project_apart

LETTERS = "abcdefghijklmnop"
STEPS = 400
TOKENS = 8

CONFTEST = """
import json
import urllib.request
import numpy as np
import onnxruntime_genai as genai
import pytest
from pytest_quant import Dataset, Model

FOLDER, PORT, LETTERS, TOKENS = {folder!r}, {port}, {letters!r}, {tokens}
DRAW = np.random.default_rng(7)
WORDS = ["".join(DRAW.choice(list(LETTERS), DRAW.integers(2, 6))) for _ in range(120)]
TEXTS = [(word * 16)[:24] for word in WORDS]


def generator(model, ids):
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=len(ids) + TOKENS, do_sample=False)
    made = genai.Generator(model, params)
    made.append_tokens(ids)
    return made


def streaming(name):
    model = genai.Model(f"{{FOLDER}}/{{name}}")
    tokenizer = genai.Tokenizer(model)

    def answer(prompts):
        made, stream = generator(model, tokenizer.encode(prompts[0])), tokenizer.create_stream()
        while not made.is_done():
            made.generate_next_token()
            yield stream.decode(made.get_next_tokens()[0])

    return Model.from_callable(answer, name=name, version="1", streams=True)


def scoring(name):
    model = genai.Model(f"{{FOLDER}}/{{name}}")

    def scores(ids):
        return np.concatenate([generator(model, row).get_output("logits") for row in ids])

    return Model.from_callable(scores, name=name, version="1")


def served(name):
    def ask(prompts):
        body = json.dumps({{"model": name, "prompt": prompts[0], "max_tokens": TOKENS, "stream": True}}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{{PORT}}/v1/completions", body)
        with urllib.request.urlopen(request, timeout=60) as answer:
            for line in answer:
                event = line.decode().strip().removeprefix("data: ")
                if event and event != "[DONE]":
                    yield json.loads(event)["choices"][0]["text"]

    return Model.from_callable(ask, name=name, version="1", streams=True)


@pytest.fixture
def questions():
    return Dataset.from_arrays([text[:-TOKENS] for text in TEXTS], [text[-TOKENS:] for text in TEXTS])


@pytest.fixture
def tokens():
    tokenizer = genai.Tokenizer(genai.Model(f"{{FOLDER}}/fp32"))
    ids = np.stack([tokenizer.encode(text) for text in TEXTS]).astype(np.int32)
    return Dataset.from_arrays(ids[:, :-1], ids[:, 1:])
"""
FIXTURE = """

@pytest.fixture
def {kind}_{name}():
    return {kind}({name!r})
"""
MARK = """
@pytest.mark.quant(
    backend="callable", model="{kind}_fp32", quantized="{kind}_{name}", precision="int4", {limits}
)
def test_{kind}_{name}(): pass
"""
STREAMED = 'data="questions", metric="exact_match", max_drop=30, max_ttft_ms=2000, max_tpot_ms=1000'
SCORED = 'data="tokens", metric="perplexity", min_ratio=0.7, min_agreement=75'
CHECKS = [
    ("streaming", "int4", STREAMED),
    ("streaming", "broken", STREAMED),
    ("scoring", "int4", SCORED),
    ("scoring", "broken", SCORED),
    ("served", "int4", STREAMED),
]


def _write_llama(folder: Path, steps: int) -> None:
    """Write a llama of two layers with a tokenizer of bytes, trained for so many steps."""
    torch, transformers = (import_module(name) for name in ("torch", "transformers"))
    models, before, after = (import_module(f"tokenizers.{name}") for name in ("models", "pre_tokenizers", "decoders"))
    special = ("<pad>", "<s>", "</s>")
    words = [*special, *sorted(before.ByteLevel.alphabet())]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = import_module("tokenizers").Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = before.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = after.ByteLevel()
    pad, begin, end = special
    names = {"pad_token": pad, "bos_token": begin, "eos_token": end}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    network = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(words),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    letters = torch.tensor(tokenizer.encode(LETTERS).ids)
    for step in range(steps):
        period = 2 + step % 5
        ids = letters[torch.randint(0, len(letters), (64, period))].repeat(1, 32)[:, :32]
        optimizer.zero_grad()
        network(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
    network.save_pretrained(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the engines: in full precision, with 4-bit weights, and one of 4 bits that nobody trained."""
    for package in ("torch", "transformers", "tokenizers", "onnxruntime_genai", "onnx_ir"):
        pytest.importorskip(package, reason=f"pip install {package.replace('_', '-')}")
    built = tmp_path_factory.mktemp("llama")
    for name, precision, steps in (("fp32", "fp32", STEPS), ("int4", "int4", STEPS), ("broken", "int4", 0)):
        _write_llama(built / f"{name} of torch", steps)
        command = (sys.executable, "-m", "onnxruntime_genai.models.builder", "-e", "cpu", "-p", precision)
        done = subprocess.run(
            [*command, "-i", built / f"{name} of torch", "-o", built / name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
    return built


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    """Serve both engines as OpenAI's completions are, token by token."""
    genai: Any = import_module("onnxruntime_genai")
    models = {name: genai.Model(str(folder / name)) for name in ("fp32", "int4")}

    class Completions(BaseHTTPRequestHandler):
        """``POST /v1/completions`` with ``stream``, as server-sent events."""

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            model = models[asked["model"]]
            tokenizer = genai.Tokenizer(model)
            ids = tokenizer.encode(asked["prompt"])
            params = genai.GeneratorParams(model)
            params.set_search_options(max_length=len(ids) + asked["max_tokens"], do_sample=False)
            generator, stream = genai.Generator(model, params), tokenizer.create_stream()
            generator.append_tokens(ids)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            while not generator.is_done():
                generator.generate_next_token()
                text = stream.decode(generator.get_next_tokens()[0])
                self._send(json.dumps({"choices": [{"text": text}]}))
            self._send("[DONE]")

        def _send(self, event: str) -> None:
            self.wfile.write(f"data: {event}\n\n".encode())
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Completions) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def _verdicts(check: Mapping[str, Any]) -> dict[str, str]:
    return {verdict["limit"]: verdict["status"] for verdict in check["verdicts"]}


def test_four_bits_pass_and_a_network_that_knows_nothing_fails(
    pytester: pytest.Pytester, folder: Path, port: int
) -> None:
    """Texts, scores and times of tokens, in process; behind the server the same texts, and the same verdicts."""
    conftest = CONFTEST.format(folder=str(folder), port=port, letters=LETTERS, tokens=TOKENS)
    names = sorted({(kind, name) for kind, other, _ in CHECKS for name in ("fp32", other)})
    pytester.makeconftest(conftest + "".join(FIXTURE.format(kind=kind, name=name) for kind, name in names))
    marks = [MARK.format(kind=kind, name=name, limits=limits) for kind, name, limits in CHECKS]
    pytester.makepyfile(test_llama="import pytest\n" + "\n".join(marks))
    result, checks = run_project_apart(pytester, "--quant-with-latency", "--quant-max-time=5")
    result.assert_outcomes(passed=3, failed=2)
    by_name = {check["nodeid"].partition("::test_")[2]: check for check in checks}
    for name, check in by_name.items():
        assert (check["precision"], check["scheme"], check["coverage"]["pct"]) == ("int4", "given", None)
        assert name.endswith("broken") == (check["status"] == "FAIL")
    for name in ("streaming_int4", "served_int4"):
        assert set(_verdicts(by_name[name]).values()) == {"PASS"}
        accuracy, latency = by_name[name]["accuracy"], by_name[name]["latency"]
        assert accuracy["reference"] > 50.0
        ttft, tpot = latency["tokens"]
        # A prompt of 16 tokens, and seven tokens after the first.
        whole_ms = latency["candidate_p50_ms"]
        assert ttft["candidate_ms"] + (TOKENS - 1) * tpot["candidate_ms"] == pytest.approx(whole_ms, rel=0.5)
    same = [by_name[name]["accuracy"] for name in ("streaming_int4", "served_int4")]
    assert same[0]["reference_correct"] == same[1]["reference_correct"]
    assert same[0]["candidate_correct"] == same[1]["candidate_correct"]
    scores = by_name["scoring_int4"]["accuracy"]
    assert 1.0 < scores["reference"] < 4.0
    assert 0.0 < scores["kl"] < 0.5 < by_name["scoring_broken"]["accuracy"]["kl"]
    assert _verdicts(by_name["scoring_broken"])["min_ratio"] == "FAIL"
