"""Architectures for pictures of 8 x 8: residual, depthwise, attention, mixing, gates, concatenation, decoding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import torch
from torch import nn

CLASSES, SIDE = 10, 8


def _convolution(width: int, out: int, size: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(width, out, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(out)]


class _Sum(nn.Module):
    """Adds what `body` computes to its input, and applies `after`."""

    def __init__(self, body: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.body, self.after = body, after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.after(self.body(x) + x)
        return result


class _Gate(nn.Module):
    """Multiplies channels by what a small network makes of their means (squeeze and excitation)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width // 4, 1), nn.ReLU(), nn.Conv2d(width // 4, width, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x * torch.sigmoid(self.gate(x))
        return result


def _head(width: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES)]


def residual(width: int = 16, blocks: int = 3, *, leaky: bool = False) -> nn.Module:
    """Return blocks of two convolutions with normalization and a sum."""
    act = (lambda: nn.LeakyReLU(0.1)) if leaky else nn.ReLU
    layers: list[nn.Module] = [*_convolution(1, width), act()]
    for _ in range(blocks):
        body = nn.Sequential(*_convolution(width, width), act(), *_convolution(width, width))
        layers += [_Sum(body, act())]
    layers += [*_convolution(width, 2 * width, stride=2), act()]
    return nn.Sequential(*layers, *_head(2 * width))


def depthwise(width: int = 16, blocks: int = 2) -> nn.Module:
    """Return inverted residuals with ReLU6."""
    layers: list[nn.Module] = [*_convolution(1, width), nn.ReLU6()]
    for _ in range(blocks):
        inner = 4 * width
        body = [*_convolution(width, inner, 1), nn.ReLU6(), *_convolution(inner, inner, 3, 1, inner), nn.ReLU6()]
        layers.append(_Sum(nn.Sequential(*body, *_convolution(inner, width, 1)), nn.Identity()))
    return nn.Sequential(*layers, *_convolution(width, 4 * width, 3, 2), nn.ReLU6(), *_head(4 * width))


def excited(width: int = 16) -> nn.Module:
    """Return convolutions with SiLU and gates of channels."""
    first = [*_convolution(1, width), nn.SiLU(), *_convolution(width, width), nn.SiLU(), _Gate(width)]
    second = [*_convolution(width, 2 * width, 3, 2), nn.SiLU(), _Gate(2 * width)]
    return nn.Sequential(*first, *second, *_head(2 * width))


def perceptron(width: int = 96) -> nn.Module:
    """Return three dense layers."""
    hidden = [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, width), nn.ReLU(), *hidden, nn.Linear(width, CLASSES))


def autoencoder(width: int = 16) -> nn.Module:
    """Return a picture from a quarter of its values, up by transposed convolution."""
    down = [*_convolution(1, width), nn.ReLU(), *_convolution(width, 2 * width, 3, 2), nn.ReLU(), nn.MaxPool2d(2)]
    squeeze = [nn.Conv2d(2 * width, 4, 1), nn.Conv2d(4, 2 * width, 1), nn.ReLU()]
    up = [nn.ConvTranspose2d(2 * width, width, 2, 2), nn.ReLU(), nn.Upsample(scale_factor=2)]
    last = [nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 1, 3, padding=1)]
    return nn.Sequential(*down, *squeeze, *up, *last)


class Dense(nn.Module):
    """Layers that read what all before them gave (concatenated)."""

    def __init__(self, growth: int = 12, layers: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(*_convolution(1 + growth * number, growth), nn.ReLU()) for number in range(layers)
        )
        self.head = nn.Sequential(nn.MaxPool2d(2), *_convolution(1 + growth * layers, 32), nn.ReLU(), *_head(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        result: torch.Tensor = self.head(x)
        return result


def _rows(x: torch.Tensor) -> torch.Tensor:
    """Cut pictures into sixteen parts of 2 x 2 pixels."""
    parts = x.unfold(2, 2, 2).unfold(3, 2, 2)
    return parts.reshape(-1, 16, 4)


class Transformer(nn.Module):
    """Attention between the parts of a picture, normalized before each step."""

    def __init__(self, width: int = 32, layers: int = 2, act: Callable[[], nn.Module] = nn.ReLU) -> None:
        super().__init__()
        self.width, self.heads = width, 4
        self.first = nn.Linear(4, width)
        self.places = nn.Parameter(0.02 * torch.randn(16, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.joint = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.wide = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 3 * width), act(), nn.Linear(3 * width, width)) for _ in range(layers)
        )
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        x = self.first(_rows(x)) + self.places
        for number, (joint, out, wide) in enumerate(zip(self.joint, self.out, self.wide, strict=True)):
            parts = joint(self.norms[2 * number](x)).reshape(-1, 16, 3, self.heads, self.width // self.heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            weights = torch.softmax(q @ k.transpose(-1, -2) * (self.width // self.heads) ** -0.5, -1)
            x = x + out((weights @ v).transpose(1, 2).reshape(-1, 16, self.width))
            x = x + wide(self.norms[2 * number + 1](x))
        result: torch.Tensor = self.head(self.last(x.mean(1)))
        return result


class Mixer(nn.Module):
    """Dense layers over parts and over channels in turn."""

    def __init__(self, width: int = 32, layers: int = 2, act: Callable[[], nn.Module] = nn.GELU) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.across = nn.ModuleList(self._pair(16, 32, act) for _ in range(layers))
        self.along = nn.ModuleList(self._pair(width, 2 * width, act) for _ in range(layers))
        self.head = nn.Linear(width, CLASSES)

    @staticmethod
    def _pair(width: int, inner: int, act: Callable[[], nn.Module]) -> nn.Module:
        return nn.Sequential(nn.Linear(width, inner), act(), nn.Linear(inner, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        x = self.first(_rows(x))
        for number, (across, along) in enumerate(zip(self.across, self.along, strict=True)):
            x = x + across(self.norms[2 * number](x).transpose(1, 2)).transpose(1, 2)
            x = x + along(self.norms[2 * number + 1](x))
        result: torch.Tensor = self.head(x.mean(1))
        return result


def export(module: nn.Module, path: Path) -> None:
    """Write the module as ONNX with a free batch axis, every node named."""
    program = torch.onnx.export(
        module,
        (torch.rand(3, 1, SIDE, SIDE),),
        input_names=["image"],
        output_names=["out"],
        dynamic_shapes=({0: "n"},),
        dynamo=True,
        opset_version=18,
        verbose=False,
    )
    assert program is not None
    program.save(path)
    model = onnx.load(path)
    for node in model.graph.node:
        node.name = node.name or f"node_of_{node.output[0]}"
    onnx.save(model, path)
