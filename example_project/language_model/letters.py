"""A language model of one table: the score of each character after each other one, counted in a text.

It stands for a model in a runtime that no backend drives, or behind a server: all that is needed is a function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pydoc_data.topics import topics
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_quant import Dataset, Model

CHARACTERS = "\n" + "".join(map(chr, range(ord(" "), ord("~") + 1)))
LENGTH = 64
TEST_LINES = 300
ANSWER = 40


def text_lines() -> NDArray[np.int64]:
    """Return Python's own help, which is installed with it, as indices of characters (lines, LENGTH)."""
    text = "".join(letter for _, topic in sorted(topics.items()) for letter in topic if letter in CHARACTERS)
    indices = np.array([CHARACTERS.index(letter) for letter in text])
    return indices[: len(indices) // LENGTH * LENGTH].reshape(-1, LENGTH)


@dataclass(frozen=True)
class Letters:
    """The model: `table` (characters, characters) has a row of logits for what comes after each character."""

    table: NDArray[np.float32]

    def logits(self, indices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the logits (n, tokens, characters) of the character after each of `indices` (n, tokens)."""
        return self.table[indices]

    def answer(self, prompts: list[str]) -> Iterator[str]:
        """Yield the characters that follow a prompt, one by one, drawn with the same luck each time."""
        (prompt,) = prompts
        luck = np.random.default_rng(len(prompt))
        last = CHARACTERS.index(prompt[-1])
        for _ in range(ANSWER):
            # The highest of the logits with noise of Gumbel's kind is drawn with the chances that they stand for.
            last = int(np.argmax(self.table[last] + luck.gumbel(size=len(CHARACTERS))))
            yield CHARACTERS[last]

    def rounded(self, bits: int) -> Letters:
        """Return the model with the logits of each row rounded to `bits`, from its lowest to its highest one."""
        low = self.table.min(axis=1, keepdims=True)
        # A character that the text does not have has a row of equal logits.
        step = np.maximum(self.table.max(axis=1, keepdims=True) - low, 1e-6) / (2**bits - 1)
        return Letters((low + np.round((self.table - low) / step) * step).astype(np.float32))

    def as_function(self, *, streams: bool = False) -> Model:
        """Return what a mark takes. Its version is that of the weights, so that outputs are kept until they change."""
        version = hashlib.sha256(self.table.tobytes()).hexdigest()[:12]
        function: Any = self.answer if streams else self.logits
        return Model.from_callable(function, version=version, name="letters", streams=streams)


def train() -> Letters:
    """Count which character follows which, in all lines but those of the test."""
    counts = np.full((len(CHARACTERS), len(CHARACTERS)), 0.1)
    lines = text_lines()[:-TEST_LINES]
    np.add.at(counts, (lines[:, :-1], lines[:, 1:]), 1.0)
    return Letters(np.log(counts / counts.sum(axis=1, keepdims=True)).astype(np.float32))


def lines_of_test() -> Dataset:
    """Return the lines that were not trained on; the labels are the character after each."""
    lines = text_lines()[-TEST_LINES:]
    return Dataset.from_arrays(lines[:, :-1], lines[:, 1:])


def prompts() -> Dataset:
    """Return texts to be continued."""
    return Dataset.from_arrays(["The", "An", "If", "Return", "The name of", "Objects", "When", "See also"])
