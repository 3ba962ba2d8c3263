"""A digit classifier in PyTorch: trained in float, then on with fake quantization (QAT)."""

from __future__ import annotations

from functools import cache

import torch
from digits_data import load_digits_split
from torch import Tensor, nn

from pytest_quant.backends.torch.quantize import convert_qat, prepare_qat

FLOAT_EPOCHS, QAT_EPOCHS, BATCH = 12, 2, 32


@cache
def digits_network() -> nn.Module:
    """Return the float network: (n, 1, 8, 8) to logits (n, 10)."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )
    train(network, FLOAT_EPOCHS, 3e-3)
    return network.eval()


@cache
def trained_qat_network() -> nn.Module:
    """Return the converted network: it starts from the float weights and learns with int8 rounding in the loop."""
    example = (load_digits_images()[:BATCH],)
    prepared = prepare_qat(digits_network(), example)
    train(prepared, QAT_EPOCHS, 3e-4)
    converted: nn.Module = convert_qat(prepared)
    return converted


def train(network: nn.Module, epochs: int, rate: float) -> None:
    """Run Adam over the training digits, in an order that is the same every time."""
    images, labels = load_digits_images(), torch.from_numpy(load_digits_split().train_labels)
    optimizer = torch.optim.Adam(network.parameters(), rate)
    order = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        shuffled = torch.randperm(len(images), generator=order)
        for rows in shuffled[: len(shuffled) // BATCH * BATCH].split(BATCH):
            optimizer.zero_grad()
            loss: Tensor = nn.functional.cross_entropy(network(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()


def load_digits_images() -> Tensor:
    """Return the training images, float32 (n, 1, 8, 8)."""
    return torch.from_numpy(load_digits_split().train_images)
