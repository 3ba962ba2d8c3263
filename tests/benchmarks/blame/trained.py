"""Small networks of the usual kinds, trained here on scikit-learn's digits, seconds each, once on a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pytest_quant.files import temporary_folder
from tests.benchmarks.blame import modules
from tests.benchmarks.blame.networks import Half, Network, Samples, cache_folder, times

RECIPE = "1"
"""Raised when a name would be trained into something else."""

EPOCHS, BATCH = 14, 64
N_EVALUATION = 96

KINDS: dict[str, tuple[Half, Callable[[], nn.Module], int]] = {
    "residual": ("tuned", modules.residual, 0),
    "residual_wide": ("counted", partial(modules.residual, 24, 2, leaky=True), 1),
    "depthwise": ("tuned", modules.depthwise, 2),
    "depthwise_deep": ("counted", partial(modules.depthwise, 24, 3), 3),
    "transformer": ("tuned", modules.Transformer, 4),
    "transformer_gelu": ("counted", partial(modules.Transformer, 48, 3, nn.GELU), 5),
    "mixer": ("counted", modules.Mixer, 6),
    "mixer_relu": ("tuned", partial(modules.Mixer, 24, 3, nn.ReLU), 7),
    "perceptron": ("counted", modules.perceptron, 8),
    "excited": ("counted", modules.excited, 9),
    "dense": ("tuned", modules.Dense, 10),
    "autoencoder": ("counted", modules.autoencoder, 11),
}
"""Half, architecture and seed by name."""


def networks() -> Iterator[Network]:
    """Yield the digits of the example, and what is trained here."""
    example = Path(__file__).parents[3] / "example_project" / "digits.onnx"
    yield Network("digits", "tuned", lambda: example, partial(_digits, "image"), times(16))
    for name, (half, make, seed) in KINDS.items():
        yield Network(name, half, partial(_trained, name, make, seed), partial(_digits, "image"), times(16))


@cache
def _digits(name: str) -> Samples:
    """Even samples train and calibrate, odd ones evaluate; (n, 1, 8, 8) in 0..1."""
    images, labels = _images()
    return Samples({name: images[1::2][:N_EVALUATION].copy()}, {name: images[::2].copy()}, labels[::2].astype(np.int64))


@cache
def _images() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return (digits.images[:, None] / 16).astype(np.float32), digits.target.astype(np.int64)


def _trained(name: str, make: Callable[[], nn.Module], seed: int) -> Path:
    """Return the ONNX file of a trained network, which the first call writes."""
    path = cache_folder("trained") / f"{name}-{RECIPE}.onnx"
    if not path.is_file():
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        module = _train(make())
        with temporary_folder() as work:
            modules.export(module, work / "model.onnx")
            (work / "model.onnx").replace(path)
    return path


def _train(module: nn.Module) -> nn.Module:
    """Fit the digits, or the pictures themselves where the module gives pictures; Adam, one cosine."""
    images, labels = (torch.from_numpy(array[::2].copy()) for array in _images())
    steps = EPOCHS * -(-len(images) // BATCH)
    optimizer = torch.optim.Adam(module.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(images)).split(BATCH):
            given = module.train()(images[rows])
            loss = (
                nn.functional.mse_loss(given, images[rows])
                if given.ndim == 4
                else nn.functional.cross_entropy(given, labels[rows])
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return module.eval()
