"""Five architectures with random weights: what `Model.from_torch` has to bring to every runtime."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MobileNet(nn.Module):
    """Inverted residuals, after MobileNetV2 (Sandler et al. 2018): (n, 3, 32, 32) to (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU6())
        self.blocks = nn.ModuleList(_inverted(16) for _ in range(3))
        self.head = nn.Linear(16, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        states = self.stem(images)
        for block in self.blocks:
            states = states + block(states)
        logits: Tensor = self.head(states.mean((2, 3)))
        return logits


def _inverted(channels: int) -> nn.Sequential:
    wide = 4 * channels
    return nn.Sequential(
        *(nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()),
        *(nn.Conv2d(wide, wide, 3, 1, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()),
        *(nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels)),
    )


class UNet(nn.Module):
    """Down, up and a skip connection, after U-Net (Ronneberger et al. 2015): (n, 1, 32, 32) to (n, 2, 32, 32)."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1), nn.ReLU())
        self.deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, 1, 1), nn.ReLU())
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.out = nn.Sequential(nn.Conv2d(32, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 2, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Return a map of logits."""
        fine = self.down(images)
        logits: Tensor = self.out(torch.cat([fine, self.up(self.deep(fine))], 1))
        return logits


class Recurrent(nn.Module):
    """Two layers of LSTM over (n, 12, 16), the last state to (n, 5)."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(16, 32, num_layers=2, batch_first=True)
        self.head = nn.Linear(32, 5)

    def forward(self, steps: Tensor) -> Tensor:
        """Return logits."""
        states, _ = self.cells(steps)
        logits: Tensor = self.head(states[:, -1])
        return logits


class Attentive(nn.Module):
    """One block of self-attention over int64 tokens (n, 16), the mean to (n, 6)."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(100, 32)
        self.query, self.key, self.value, self.joined = (nn.Linear(32, 32) for _ in range(4))
        self.wide, self.narrow = nn.Linear(32, 64), nn.Linear(64, 32)
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)
        self.head = nn.Linear(32, 6)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits."""
        states = self.words(tokens)
        scores = self.query(states) @ self.key(states).transpose(1, 2) / 32**0.5
        states = self.first(states + self.joined(scores.softmax(-1) @ self.value(states)))
        states = self.second(states + self.narrow(torch.nn.functional.gelu(self.wide(states))))
        logits: Tensor = self.head(states.mean(1))
        return logits


class TwoHeads(nn.Module):
    """Classes (n, 4) and boxes (n, 4) of very different sizes from one trunk over (n, 3, 16, 16)."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.classes, self.boxes = nn.Linear(512, 4), nn.Linear(512, 4)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits, and boxes in pixels."""
        states = self.trunk(images)
        return self.classes(states), 300 * self.boxes(states)


ARCHITECTURES = {
    "mobilenet": MobileNet,
    "unet": UNet,
    "recurrent": Recurrent,
    "attentive": Attentive,
    "two_heads": TwoHeads,
}


def build(name: str) -> nn.Module:
    """Return the architecture in evaluation mode, with the same weights each time and statistics that matter."""
    torch.manual_seed(7)
    module = ARCHITECTURES[name]()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.3)  # type: ignore[union-attr] # the layer keeps statistics
            part.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return module.eval()


SHAPES = {
    "mobilenet": (3, 32, 32),
    "unet": (1, 32, 32),
    "recurrent": (12, 16),
    "attentive": (16,),
    "two_heads": (3, 16, 16),
}


def inputs(name: str, n: int, seed: int) -> Tensor:
    """Return `n` samples; their scale differs, so that ranges matter."""
    generator = torch.Generator().manual_seed(seed)
    if name == "attentive":
        return torch.randint(0, 100, (n, *SHAPES[name]), generator=generator)
    scales = torch.rand((n, *(1 for _ in SHAPES[name])), generator=generator) + 0.5
    return torch.randn((n, *SHAPES[name]), generator=generator) * scales
