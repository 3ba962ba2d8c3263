"""Data for the models that read sounds and words: syllables with pauses, tones and letters, all computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.nightly.zoo.entry import Feeds, Samples

WORDS = (
    *("пароход", "самолёт", "подводник", "учитель", "перестройка", "безработный"),
    *("переписка", "выход", "заводской", "лесник", "городской", "писатель"),
    *("переход", "подснежник", "молоко", "водопад", "рыбак", "строитель"),
    *("читатель", "побережье", "приморский", "снегопад", "ледокол", "землетрясение"),
    *("работник", "вертолёт", "учебник", "школьник", "столовая", "домик"),
    *("морской", "речной", "беседка", "прогулка", "дорожка", "книжный"),
)
LETTERS = "абвгдеёжзийклмнопрстуфхцчшщъыьэюя"
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


def streams() -> Samples:
    """Four seconds of syllables and pauses in steps of 256 samples with 320 before; the label: steps with voice."""
    rng = np.random.default_rng(11)
    feeds: list[Feeds] = []
    labels: list[Any] = []
    for _ in range(4 + 8):
        signal, on = speech(rng, 4.0)
        padded = np.concatenate([np.zeros(320, np.float32), signal])
        steps = np.lib.stride_tricks.sliding_window_view(padded, 576)[::256]
        feeds.append({"audio_with_context": np.ascontiguousarray(steps)})
        labels.append((on[: len(steps) * 256].reshape(-1, 256).mean(axis=1) > 0.5).astype(np.int64))
    return Samples(feeds[:4], feeds[4:], labels[4:])


def _bands(signal: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log mel energies of 25 ms frames every 10 ms, five of them beside each other: (frames, 400)."""
    power = spectrum(signal * 32768, 400, 160) @ mel_bank(80, 400)
    logs = np.log(np.maximum(power, 1.0)).astype(np.float32)
    logs = (logs - np.float32(12)) / np.float32(4)
    five = np.lib.stride_tricks.sliding_window_view(logs, 5, axis=0).transpose(0, 2, 1)
    return np.ascontiguousarray(five.reshape(len(five), 400))


def streams_of_bands() -> Samples:
    """Ten chunks of 20 frames each."""
    rng = np.random.default_rng(12)
    feeds = []
    for _ in range(4 + 8):
        rows = _bands(speech(rng, 2.2)[0])[:200]
        feeds.append({"speech": rows.reshape(10, 20, 400)})
    return Samples(feeds[:4], feeds[4:])


def echoes() -> Samples:
    """Mel spectra of the far end, the microphone and the clip after echo removal, and a zero initial state."""
    rng = np.random.default_rng(13)
    bank = mel_bank(160, 512)
    feeds = []
    for _ in range(8 + 16):
        far, near = speech(rng, 2.0)[0], speech(rng, 2.0)[0]
        layers = []
        for signal in (far, near + 0.4 * far, near + rng.uniform(0, 0.2) * far):
            decibel = 10 * np.log10(np.maximum(spectrum(signal, 512, 256) @ bank, 1e-10))
            layers.append((np.maximum(decibel - decibel.max(), -80) + 40) / 40)
        feeds.append(
            {"input": np.stack(layers).astype(np.float32), "h0": np.zeros((4, 64), np.float32)},
        )
    return Samples(feeds[:8], feeds[8:])


def lossy_calls() -> Samples:
    """Log power spectra of speech with gaps, and the embedding of one rater."""
    rng = np.random.default_rng(14)
    feeds = []
    for _ in range(8 + 16):
        signal = speech(rng, 2.0)[0].copy()
        for start in rng.integers(0, len(signal) - 640, 3):
            signal[start : start + 640] = 0
        power = np.log(np.maximum(spectrum(signal, 512, 256), 1e-6)).astype(np.float32)
        feeds.append({"degraded_audio": power[None], "rater_embed": rng.normal(0, 1, 64).astype(np.float32)})
    return Samples(feeds[:8], feeds[8:])


def notes() -> Samples:
    """Two seconds of one note of the piano at 22050 Hz; the label is its key, 0 to 87."""
    rng = np.random.default_rng(16)
    feeds: list[Feeds] = []
    labels: list[Any] = []
    for key in (int(each) for each in rng.permutation(np.arange(24, 64))[: 8 + 12]):
        signal = tone(27.5 * 2 ** (key / 12), 2.0, 22050)[:43844]
        feeds.append({"serving_default_input_2:0": signal[:, None]})
        labels.append(key)
    return Samples(feeds[:8], feeds[8:], labels[8:])


def tones() -> Samples:
    """One second of a tone, and the range to look in; the label is the pitch in Hz."""
    rng = np.random.default_rng(17)
    feeds: list[Feeds] = []
    labels: list[Any] = []
    for _ in range(8 + 16):
        pitch = float(rng.uniform(90, 500))
        limits = {"fmin": np.float32(60), "fmax": np.float32(900)}
        feeds.append({"audio": tone(pitch, 1.0), **{name: np.asarray(value) for name, value in limits.items()}})
        labels.append(pitch)
    return Samples(feeds[:8], feeds[8:], labels[8:])


def russian_words() -> Samples:
    """Words letter by letter as numbers; equal lengths, the rest is padding."""
    rows = [[LETTERS.index(letter) + 4 for letter in word] for word in WORDS]
    feeds = [{"input_layer": np.array([*row, *[0] * (16 - len(row))], dtype=np.int32)} for row in rows]
    return Samples(feeds[:12], feeds[12:])


def settings() -> Samples:
    """Four numbers, the settings of a classifier."""
    rng = np.random.default_rng(18)
    feeds = [{"input": rng.uniform(0, 3, 4).astype(np.float32)} for _ in range(16)]
    return Samples(feeds[:4], feeds[4:])
