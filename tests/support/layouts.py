"""Small ONNX models whose samples lie where nobody expects them, with answers that are known by construction.

Each classifies by the largest of its scores, and the scores are sums of its input, so that the right class and every
output follow from the data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support.models import parsed

_FIRST_FOUR = np.eye(8, 4, dtype=np.float32)


def time_major(path: Path, names: tuple[str, str] = ("T", "N")) -> Path:
    """(T, N, 8) -> (T, N, 4), each step by itself: the first four features times an identity matrix."""
    axes = ", ".join(names)
    return parsed(path, f"(float[{axes}, 8] x) => (float[{axes}, 4] y) {{ [scores] y = MatMul(x, w) }}", w=_FIRST_FOUR)


def to_time_major(path: Path) -> Path:
    """(N, T, 8) -> (T, N, 4), as an OCR recognizer for CTC does; the names of the output's axes say nothing."""
    graph = """(float[batch, width, 8] x) => (float[a, b, 4] y) {
        [scores] each = MatMul(x, w)
        [turned] y = Transpose <perm = [1, 0, 2]> (each)
    }"""
    return parsed(path, graph, w=_FIRST_FOUR)


def with_state(path: Path) -> Path:
    """Audio [1, 8], state [2, 1, 4] and the scalar rate -> y [1, 4] = audio w + state[1] + rate * 0, and the state."""
    graph = """(float[1, 8] audio, float[2, 1, 4] state, int64 rate) => (float[1, 4] y, float[2, 1, 4] state_out) {
        [scores] scores = MatMul(audio, w)
        [last] last = Gather <axis = 0> (state, one)
        [sum] sum = Add(scores, last)
        [cast] rate_float = Cast <to = 1> (rate)
        [nothing] nothing = Mul(rate_float, zero)
        [y] y = Add(sum, nothing)
        [kept] state_out = Identity(state)
    }"""
    return parsed(path, graph, w=_FIRST_FOUR, one=np.array(1), zero=np.array(0, np.float32))


def weights_as_input(path: Path) -> Path:
    """X (n, 8) times the input w [8, 4], which is one matrix for all samples."""
    return parsed(path, "(float[batch, 8] x, float[8, 4] w) => (float[batch, 4] y) { [scores] y = MatMul(x, w) }")


def accumulator(path: Path) -> Path:
    """One step: h_out = h_in / 2 + x w, y = h_out, for (n, 8) and states (n, 4)."""
    graph = """(float[batch, 8] x, float[batch, 4] h_in) => (float[batch, 4] y, float[batch, 4] h_out) {
        [scores] now = MatMul(x, w)
        [decay] lost = Mul(h_in, minus_half)
        [subtract] h_out = Sub(now, lost)
        [y] y = Identity(h_out)
    }"""
    return parsed(path, graph, w=_FIRST_FOUR, minus_half=np.array(-0.5, np.float32))


def noisy(path: Path) -> Path:
    """(n, 8) -> (n, 4) with noise as large as the scores, drawn anew in every run."""
    graph = """(float[batch, 8] x) => (float[batch, 4] y) {
        [scores] scores = MatMul(x, w)
        [noise] noise = RandomNormalLike <scale = 1.0> (scores)
        [add] y = Add(scores, noise)
    }"""
    return parsed(path, graph, w=_FIRST_FOUR)


def classifier(path: Path, features: int = 8) -> Path:
    """(n, features) -> (n, 4): the first four features are the scores."""
    graph = f"(float[batch, {features}] x) => (float[batch, 4] y) {{ [scores] y = MatMul(x, w) }}"
    return parsed(path, graph, w=np.eye(features, 4, dtype=np.float32))


def with_anchors(path: Path, batch: int = 4) -> Path:
    """(4, 8) -> scores (4, 4), and anchors (3, 2) that are the same whatever goes in."""
    graph = f"""(float[{batch}, 8] x) => (float[{batch}, 4] y, float[3, 2] anchors) {{
        [scores] y = MatMul(x, w)
        [anchors] anchors = Identity(table)
    }}"""
    return parsed(path, graph, w=_FIRST_FOUR, table=np.arange(6, dtype=np.float32).reshape(3, 2))


def layered_state(path: Path) -> Path:
    """One step with the state (1, n, 4), layers first: h_out = h_in / 2 + x w, y = h_out without its first axis."""
    graph = """(float[1, 8] x, float[1, 1, 4] h_in) => (float[1, 4] y, float[1, 1, 4] h_out) {
        [scores] now = MatMul(x, w)
        [decay] lost = Mul(h_in, minus_half)
        [subtract] h_out = Sub(now, lost)
        [y] y = Squeeze(h_out, first)
    }"""
    return parsed(path, graph, w=_FIRST_FOUR, minus_half=np.array(-0.5, np.float32), first=np.array([0]))
