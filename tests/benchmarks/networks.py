"""Networks of the shapes that people quantize, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

PIXELS, TOKENS, VOCABULARY, CLASSES = 224, 128, 30_522, 1000


@dataclass(frozen=True, slots=True)
class Network:
    """A network: its name, how it is made, and how inputs of so many samples are drawn."""

    name: str
    make: Callable[[], nn.Module]
    draw: Callable[[np.random.Generator, int], NDArray[Any]]

    def module(self, weights: Path) -> nn.Module:
        """Return the module for inference, with the weights in that file, which the first call writes.

        Their normalizations are by what the layers of random weights give, so that nothing vanishes on the way.
        """
        torch.manual_seed(0)
        module = self.make()
        if weights.exists():
            module.load_state_dict(torch.load(weights))
            return module.eval()
        for each in module.modules():
            if isinstance(each, nn.BatchNorm2d):
                each.momentum = None
        with torch.no_grad():
            module.train()(torch.from_numpy(self.draw(np.random.default_rng(1), 8)))
        torch.save(module.state_dict(), weights)
        return module.eval()


def _convolution(width: int, out: int, size: int = 1, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(width, out, size, stride, size // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(out)]


class _Residual(nn.Module):
    """Adds what `body` computes to its input, by way of `shortcut` where shapes differ, and applies `after`."""

    def __init__(self, body: nn.Module, shortcut: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut, self.after = body, shortcut, after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.after(self.body(x) + self.shortcut(x))
        return result


def resnet50() -> nn.Module:
    """Return the layers of ResNet-50 (He et al. 2016, CVPR): four stages of bottlenecks, the stride in the 3 x 3."""
    layers = [*_convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for inner, count, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            stride = 1 if number else first_stride
            body = nn.Sequential(
                *_convolution(width, inner),
                nn.ReLU(),
                *_convolution(inner, inner, 3, stride),
                nn.ReLU(),
                *_convolution(inner, 4 * inner),
            )
            shortcut = nn.Identity() if number else nn.Sequential(*_convolution(width, 4 * inner, 1, stride))
            layers.append(_Residual(body, shortcut, nn.ReLU()))
            width = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


def mobilenet_v2() -> nn.Module:
    """Return the layers of MobileNetV2 (Sandler et al. 2018, CVPR, table 2)."""
    layers = [*_convolution(3, 32, 3, 2), nn.ReLU6()]
    width = 32
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for factor, out, count, first_stride in stages:
        for number in range(count):
            stride, inner = 1 if number else first_stride, factor * width
            widened = [*_convolution(width, inner), nn.ReLU6()] if factor > 1 else []
            deep = [*_convolution(inner, inner, 3, stride, groups=inner), nn.ReLU6()]
            body = nn.Sequential(*widened, *deep, *_convolution(inner, out))
            adds = stride == 1 and width == out
            layers.append(_Residual(body, nn.Identity(), nn.Identity()) if adds else body)
            width = out
    last = [*_convolution(width, 1280), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *last, nn.Linear(1280, CLASSES))


class _Encoder(nn.Module):
    """Six layers of 384 (the shape of MiniLM-L6), over token ids."""

    WIDTH, HEADS, LAYERS = 384, 12, 6

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, self.WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(TOKENS, self.WIDTH))
        self.norms = nn.ModuleList(nn.LayerNorm(self.WIDTH) for _ in range(2 * self.LAYERS))
        shapes = ((1, 3), (1, 1), (1, 4), (4, 1))
        products = [nn.Linear(self.WIDTH * wide, self.WIDTH * out) for wide, out in shapes * self.LAYERS]
        self.products = nn.ModuleList(products)
        self.head = nn.Linear(self.WIDTH, CLASSES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places
        for number in range(self.LAYERS):
            joint, out, wide, narrow = self.products[4 * number : 4 * number + 4]
            heads = joint(x).unflatten(-1, (3, self.HEADS, self.WIDTH // self.HEADS)).permute(2, 0, 3, 1, 4)
            attended = nn.functional.scaled_dot_product_attention(*heads.unbind(0))
            x = self.norms[2 * number](x + out(attended.transpose(1, 2).flatten(-2)))
            x = self.norms[2 * number + 1](x + narrow(nn.functional.gelu(wide(x))))
        result: torch.Tensor = self.head(x.mean(1))
        return result


def _pictures(draw: np.random.Generator, n: int) -> NDArray[Any]:
    return draw.normal(size=(n, 3, PIXELS, PIXELS)).astype(np.float32)


def _texts(draw: np.random.Generator, n: int) -> NDArray[Any]:
    return draw.integers(0, VOCABULARY, size=(n, TOKENS))


NETWORKS = {
    network.name: network
    for network in (
        Network("resnet50", resnet50, _pictures),
        Network("mobilenet_v2", mobilenet_v2, _pictures),
        Network("encoder", _Encoder, _texts),
    )
}
