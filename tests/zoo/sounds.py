"""Sounds that are computed: speech-like syllables with pauses, and tones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RATE = 16000
FORMANTS_HZ = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410))
"""First three formants of five English vowels of a male speaker (Peterson and Barney 1952)."""

Signal = NDArray[np.float32]


def speech(rng: np.random.Generator, seconds: float) -> tuple[Signal, NDArray[np.bool_]]:
    """Vowels of a voice with vibrato, in groups with pauses between them; and where the voice is on.

    A vowel is a sum of harmonics of the pitch, each weighted by its distance from the vowel's formants.
    """
    n = int(seconds * RATE)
    sound, on = np.zeros(n), np.zeros(n, dtype=bool)
    at = int(rng.uniform(0.1, 0.5) * RATE)
    while at < n:
        for _ in range(int(rng.integers(3, 7))):
            length = min(int(rng.uniform(0.09, 0.22) * RATE), n - at)
            if length <= 0:
                break
            sound[at : at + length] = _vowel(rng, length)
            on[at : at + length] = True
            at += length
        at += int(rng.uniform(0.4, 0.9) * RATE)
    noise = rng.normal(0, 0.002, n)
    return (0.3 * sound + noise).astype(np.float32), on


def _vowel(rng: np.random.Generator, length: int) -> NDArray[np.float64]:
    time = np.arange(length) / RATE
    pitch = rng.uniform(95, 180) * (1 + 0.03 * np.sin(2 * np.pi * 5 * time))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    formants = np.array(FORMANTS_HZ[int(rng.integers(len(FORMANTS_HZ)))])
    total = np.zeros(length)
    for harmonic in range(1, 25):
        gains = np.exp(-(((harmonic * pitch.mean() - formants) / 130.0) ** 2))
        total += (gains.sum() + 0.02) / harmonic**0.5 * np.sin(harmonic * phase)
    envelope = np.minimum(1, np.minimum(time, time[::-1]) / 0.02)
    vowel: NDArray[np.float64] = envelope * total / max(1e-9, np.abs(total).max())
    return vowel


def tone(frequency_hz: float, seconds: float, rate: int = RATE) -> Signal:
    """Four harmonics that fall off as 1/k."""
    time = np.arange(int(seconds * rate)) / rate
    parts = [np.sin(2 * np.pi * frequency_hz * k * time) / k for k in range(1, 5)]
    signal: Signal = (0.25 * np.sum(parts, axis=0)).astype(np.float32)
    return signal


def spectrum(signal: Signal, window: int, hop: int) -> NDArray[np.float64]:
    """Power of windowed frames, (frames, window // 2 + 1)."""
    frames = np.lib.stride_tricks.sliding_window_view(signal.astype(np.float64), window)[::hop]
    power: NDArray[np.float64] = np.abs(np.fft.rfft(frames * np.hamming(window))) ** 2
    return power


def mel_bank(bands: int, window: int, rate: int = RATE, low_hz: float = 20.0) -> NDArray[np.float64]:
    """Triangular filters spaced evenly on the mel scale 1127 ln(1 + f / 700), (window // 2 + 1, bands)."""
    mel = np.linspace(1127 * np.log1p(low_hz / 700), 1127 * np.log1p(rate / 1400), bands + 2)
    edges = 700 * np.expm1(mel / 1127)
    bins = np.fft.rfftfreq(window, 1 / rate)[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    bank: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling))
    return bank
