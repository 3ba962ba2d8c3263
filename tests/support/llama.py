"""What llama-perplexity prints, made with the formats of llama.cpp's ``tools/perplexity/perplexity.cpp``."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

TOKENS = 255
"""Of a chunk of 512 whose second half is scored."""

Losses: TypeAlias = NDArray[np.float64]


def losses(chunks: int, seed: int, more: float = 0.0) -> Losses:
    """-ln p of the tokens of each chunk (chunks, tokens); texts are hard or easy for all models alike."""
    hardness = np.random.default_rng(0).normal(1.8, 0.3, size=(chunks, 1))
    return hardness + more + np.random.default_rng(seed).normal(0.0, 0.2, size=(chunks, TOKENS))


def so_far(values: Losses) -> Losses:
    """The mean over all tokens up to the end of each chunk."""
    return np.cumsum(values.sum(axis=1)) / (TOKENS * np.arange(1, len(values) + 1))


def plain(values: Losses) -> str:
    """The output of a run for perplexity, of both streams."""
    means = np.exp(so_far(values))
    chunks = "".join(f"[{number}]{mean:.4f}," for number, mean in enumerate(means, 1))
    return (
        "build: 6500 (1a2b3c4d) for x86_64-linux-gnu\n"
        f"perplexity: calculating perplexity over {len(values)} chunks, n_ctx=512, batch_size=2048, n_seq=4\n"
        "perplexity: 0.61 seconds per pass - ETA 0.12 minutes\n"
        f"{chunks}\nFinal estimate: PPL = {means[-1]:.4f} +/- {0.0391:.5f}\n"
    )


def against_base(values: Losses, base: Losses, kld: Losses, top: Losses) -> str:
    """The output of a run with --kl-divergence."""
    columns = so_far(values), so_far(values) - so_far(base), so_far(kld), so_far(top)
    rows = "".join(
        f"\nchunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              \u0394p RMS"
        f"            Same top p\n{number:4d}    {np.exp(loss):9.4f} \u00b1 {0.1:9.4f}    {ratio:10.5f} \u00b1 "
        f"{float('nan'):10.5f}    {each:10.5f} \u00b1 {0.001:10.5f}    {5.0:6.3f} \u00b1 {0.5:6.3f} %    "
        f"{100 * same:6.3f} \u00b1 {1.5:6.3f} %\n"
        for number, (loss, ratio, each, same) in enumerate(zip(*columns, strict=True), 1)
    )
    return (
        f"kl_divergence: computing over {len(values)} chunks, n_ctx=512, batch_size=2048, n_seq=4\n{rows}\n"
        f"====== KL divergence statistics ======\nMean    KLD: {columns[2][-1]:10.6f} \u00b1 {0.0001:10.6f}\n"
        f"Same top p: {100 * columns[3][-1]:6.3f} \u00b1 {0.05:5.3f} %\n"
    )
