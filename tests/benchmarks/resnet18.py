"""The layers of ResNet-18 (He et al. 2015, table 1) with random weights: its shapes are what is timed."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, channels: int, wide: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(channels, wide, 3, stride, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(),
        )  # fmt: skip
        self.second = nn.Sequential(nn.Conv2d(wide, wide, 3, 1, 1, bias=False), nn.BatchNorm2d(wide))
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != wide:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))

    def forward(self, images: Tensor) -> Tensor:
        """Map (n, channels, h, w) to (n, wide, h / stride, w / stride)."""
        return torch.relu(self.second(self.first(images)) + self.shortcut(images))


def resnet18() -> nn.Module:
    """Return the network: float32 (n, 3, 224, 224) to logits (n, 1000), the same every time."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for wide, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(channels, wide, stride), Block(wide, wide, 1)]
        channels = wide
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).eval()
