"""A detector whose boxes and scores are outputs of their own, and pictures that it finds everything in."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.support import models

CELLS = 4
SIDE = 4 * CELLS


def detector(path: Path, width: float = 8.0) -> Path:
    """Write a net (n, 1, 16, 16) -> boxes (n, 16, 4) and scores (n, 16, 2).

    An object fills a cell with its brightness, which is its width over 8 and whose sign is its class; `width` is what
    the net takes in place of 8.
    """
    graph = f"""(float[n, 1, {SIDE}, {SIDE}] x) => (float[n, 16, 4] boxes, float[n, 16, 2] scores) {{
        [see] mean = Conv<strides = [4, 4]>(x, w)
        [signs] bright = Relu(mean)
        [box_head] size = Conv(bright, to_size)
        [boxes_last] sizes = Transpose<perm = [0, 2, 3, 1]>(size)
        [box_list] offsets = Reshape(sizes, box_shape)
        [at_corners] boxes = Add(offsets, corners)
        [score_head] raw = Conv(bright, to_scores, bias)
        [scores_last] last = Transpose<perm = [0, 2, 3, 1]>(raw)
        [score_list] listed = Reshape(last, score_shape)
        [to_shares] scores = Sigmoid(listed)
    }}"""
    corner = np.array([[4 * (cell % CELLS), 4 * (cell // CELLS)] * 2 for cell in range(CELLS**2)], np.float32)
    to_size = np.zeros((4, 2, 1, 1), np.float32)
    to_size[2:] = width
    return models.parsed(
        path,
        graph,
        w=(np.stack([np.ones((1, 4, 4)), -np.ones((1, 4, 4))]) / 16).astype(np.float32),
        to_size=to_size,
        to_scores=(12 * np.eye(2)[:, :, None, None]).astype(np.float32),
        bias=np.full(2, -3.0, np.float32),
        corners=corner[None],
        box_shape=np.array([-1, 16, 4]),
        score_shape=np.array([-1, 16, 2]),
    )


def pictures(path: Path) -> None:
    """Write 140 pictures with one to three objects each: boxes (n, 3, 4), and their classes (n, 3), -1 for none."""
    random = np.random.default_rng(0)
    images = random.normal(0, 0.02, (140, 1, SIDE, SIDE)).astype(np.float32)
    boxes, names = np.zeros((140, 3, 4)), np.full((140, 3), -1)
    for image, own, classes in zip(images, boxes, names, strict=True):
        for place, cell in enumerate(random.choice(CELLS**2, random.integers(1, 4), replace=False)):
            top, left, width = 4 * (cell // CELLS), 4 * (cell % CELLS), random.uniform(4, 8)
            classes[place] = random.integers(0, 2)
            image[0, top : top + 4, left : left + 4] += (1 - 2 * classes[place]) * width / 8
            own[place] = left, top, left + width, top + width
    np.savez(path, images=images, boxes=boxes, names=names)
