"""Scores of texts, whole, by words and by characters, and of tagged tokens by their spans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from pytest_quant.errors import DataError, UsageError
from pytest_quant.metrics.classes import IGNORED, is_text
from pytest_quant.metrics.metric import RATIO_KEYS, Array, Metric

Texts = Sequence[str] | Array
"""One text of each sample: a list, or an array (n,) or (n, 1)."""

Span = tuple[int, int, str]
"""First token, the one behind the last, and the type."""


def _pairs(metric: str, texts: Texts, references: Texts) -> list[tuple[str, str]]:
    """Return each text with its reference. Raises `UsageError` unless both are texts, one for each sample."""
    sides = [side if isinstance(side, np.ndarray) else np.array(side, dtype=object) for side in (texts, references)]
    n = len(np.atleast_1d(sides[0]))
    if any(side.size != n or not is_text(side) for side in sides):
        raise UsageError(
            f"{metric} compares one text of each sample with its label",
            value=f"outputs {sides[0].dtype}{sides[0].shape}, labels {sides[1].dtype}{sides[1].shape}",
            fix="give the labels as a list of texts, or name another metric or output",
        )
    return list(zip(sides[0].ravel(), sides[1].ravel(), strict=True))


def exact_matches(outputs: Texts, labels: Texts) -> Array:
    """Return a mask (n,) of the texts that equal their labels but for space around them.

    Raises
    ------
    UsageError : outputs or labels are no texts, one for each sample.
    """
    return np.array([text.strip() == label.strip() for text, label in _pairs("exact_match", outputs, labels)], bool)


def word_errors(texts: Texts, references: Texts) -> dict[str, Array]:
    """Return the counts whose sums give the word error rate of a corpus.

    Errors are the fewest insertions, deletions and substitutions of words that make the text out of its reference
    (Levenshtein 1966). Words lie between white space. All of a text beside an empty reference are errors, of no words;
    two empty texts count for nothing.

    Parameters
    ----------
    texts, references : one text of each sample, a list, or an array (n,) or (n, 1).

    Returns
    -------
    ``numerator``, the errors of each sample, and ``denominator``, the words of its reference, each (n,).

    Raises
    ------
    UsageError : either side is no text for each sample.
    """
    return _by_name(word_counts(texts, references))


def character_errors(texts: Texts, references: Texts) -> dict[str, Array]:
    """Return the counts whose sums give the character error rate of a corpus; space around a text does not count.

    Everything else is as in `word_errors`, for characters.

    Raises
    ------
    UsageError : either side is no text for each sample.
    """
    return _by_name(character_counts(texts, references))


def _counts(metric: str, parts_of: Callable[[str], Sequence[str]], texts: Texts, references: Texts) -> Array:
    pairs = [(parts_of(ours), parts_of(theirs)) for ours, theirs in _pairs(metric, texts, references)]
    return np.array([(_edits(*pair), len(pair[1])) for pair in pairs], dtype=np.float64).reshape(-1, 2)


word_counts = partial(_counts, "wer", str.split)
character_counts = partial(_counts, "cer", str.strip)
"""(texts, references) -> errors, and words or characters of the reference, float64 (n, 2)."""


def _by_name(sums: Array) -> dict[str, Array]:
    return dict(zip(RATIO_KEYS, sums.T, strict=True))


def _edits(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Return the Levenshtein distance of two sequences, by rows of its table."""
    if ours == theirs:
        return 0
    codes: dict[str, int] = {}
    first, second = (np.array([codes.setdefault(part, len(codes)) for part in side]) for side in (ours, theirs))
    steps = np.arange(len(second) + 1)
    row = steps
    for number, code in enumerate(first, 1):
        without_insertion = np.minimum(row[1:] + 1, row[:-1] + (second != code))
        # An insertion costs one for each place to the right: the least of all that lie to the left, less their places.
        row = np.minimum.accumulate(np.concatenate([[number], without_insertion]) - steps) + steps
    return int(row[-1])


def span_f1(tags: Sequence[str]) -> Metric:
    """Return the metric of a model that tags tokens: F1 of the spans of all samples together, in percent.

    A span is right if its first and last token and its type are. F1 is 2 right / (predicted + true), which is micro F1.
    Spans are read as conlleval and seqeval's default do: a tag ``I-X`` without a span of X before it begins one.

    Parameters
    ----------
    tags : name of each tag by its index, ``["O", "B-PER", "I-PER"]``: ``O``, or B, I, E or S with the type.

    Returns
    -------
    A metric of outputs (n, tokens, tags), scores of each tag, or (n, tokens), indices of tags, and labels (n, tokens),
    indices of tags; -100 for a token that does not count.

    Raises
    ------
    UsageError : a tag does not begin with one of these letters.
    """
    if wrong := [tag for tag in tags if tag[:1] not in tuple("BIOES")]:
        allowed = "O, B-TYPE, I-TYPE, E-TYPE, S-TYPE"
        raise UsageError("span_f1: a tag has no place in a span", value=repr(wrong[0]), allowed=allowed)
    names = tuple(tags)

    def counts(outputs: Array, labels: Array) -> dict[str, Array]:
        tokens = (_tokens(*pair, len(names)) for pair in zip(outputs, labels, strict=True))
        spans = [(_spans(ours, names), _spans(theirs, names)) for ours, theirs in tokens]
        sums = [(2 * len(ours & theirs), len(ours) + len(theirs)) for ours, theirs in spans]
        return _by_name(np.array(sums, dtype=np.float64).reshape(-1, 2))

    return Metric(counts, better="higher", unit="%", scale=100, name="span_f1")


def _tokens(output: Array, label: object, n_tags: int) -> tuple[Array, Array]:
    """Return the predicted and true tag of each token of a sample that counts, as indices."""
    true = np.asarray(label)
    predicted = np.argmax(output, axis=-1) if output.shape == (*true.shape, n_tags) else output
    if predicted.shape == true.shape and predicted.dtype.kind in "iu" and true.dtype.kind in "iu" and true.ndim == 1:
        counted = true != IGNORED
        pair = predicted[counted], true[counted]
        if all(np.all((side >= 0) & (side < n_tags)) for side in pair):
            return pair
    sides = (f"{side.dtype}{side.shape} from {side.min()} to {side.max()}" for side in (output, true) if side.size)
    raise DataError(
        "span_f1 needs the index of a tag for each token",
        value=f"of a sample outputs and labels {', '.join(sides)}",
        allowed=f"scores (tokens, {n_tags}) or indices (tokens,) of 0 to {n_tags - 1}; as a label {IGNORED} too",
        fix=f"name as many tags as the model has scores, here {n_tags}, and pad labels to its tokens with {IGNORED}",
    )


def _spans(indices: Array, tags: Sequence[str]) -> set[Span]:
    """Return the spans of one sample, by the rules of conlleval."""
    named = [(tags[index][0], tags[index][1:].split("-", 1)[-1]) for index in indices]
    outside = ("O", "")
    spans, first = set[Span](), 0
    for place, (before, tag) in enumerate(pairwise([outside, *named, outside])):
        begins = tag[0] != "O" and (tag[0] in "BS" or before[0] in "OES" or tag[1] != before[1])
        if before[0] != "O" and (begins or tag[0] == "O"):
            spans.add((first, place, before[1]))
        if begins:
            first = place
    return spans
