"""What may be written for an option: each function takes its text and gives its value.

Each raises `argparse.ArgumentTypeError` where it may not. Nothing large is imported, because every start of pytest
imports this module.
"""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path

_MOST_LAUNCHES = 100


def name(text: str) -> str:
    """Return a name."""
    if not text.strip():
        raise argparse.ArgumentTypeError("write a name, for example ort")
    return text.strip()


def names(text: str) -> list[str]:
    """Return names, which commas or lines divide."""
    names = [name.strip() for name in text.replace("\n", ",").split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("write one name or several with commas between them, for example ort,trt")
    return names


def level(text: str) -> float:
    """Return a level strictly between 0 and 1."""
    level = _number(text, "0.95")
    if not 0.0 < level < 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not a level strictly between 0 and 1; write 0.95")
    return level


def seconds(text: str) -> float:
    """Return a time above 0."""
    seconds = _number(text, "30")
    if not (seconds > 0.0 and math.isfinite(seconds)):
        raise argparse.ArgumentTypeError(f"{text} is not a time above 0 in seconds; write 30")
    return seconds


def seconds_or_none(text: str) -> float:
    """Return a time, 0 among them."""
    seconds = _number(text, "30")
    if not (seconds >= 0.0 and math.isfinite(seconds)):
        raise argparse.ArgumentTypeError(f"{text} is not a time in seconds; write 30, or 0 for none")
    return seconds


def percent(text: str) -> float:
    """Return a percentage above 0."""
    percent = _number(text.strip().removesuffix("%"), "5")
    if not (percent > 0.0 and math.isfinite(percent)):
        raise argparse.ArgumentTypeError(f"{text} is not a percentage above 0; write 5")
    return percent


def launches(text: str) -> int | str:
    """Return ``auto`` or a number of launches."""
    asked = text.strip().lower()
    if asked != "auto" and not (asked.isdecimal() and 1 <= int(asked) <= _MOST_LAUNCHES):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of launches; write auto, or 1 to {_MOST_LAUNCHES}")
    return asked if asked == "auto" else int(asked)


def pages(text: str) -> str:
    """Return a size of pages."""
    if text.strip() not in ("huge", "small"):
        raise argparse.ArgumentTypeError(f"{text!r} is no size of pages; write small or huge")
    return text.strip()


def _number(text: str, example: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; write {example}") from None


def target(text: str) -> str:
    """Return a compute capability."""
    if not re.fullmatch(r"SM\d{2,3}", text.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a compute capability; write SM89")
    return text.strip()


def device(text: str) -> str:
    """Return a GPU."""
    if not re.fullmatch(r"cuda:\d{1,3}|(GPU|MIG)-[0-9a-f][0-9a-f-]*", text.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is no GPU; write cuda:1, or a UUID, GPU-8932f937 or MIG-c7384736")
    return text.strip()


def file(text: str) -> str:
    """Return the name of a file."""
    if not text.strip() or Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder or empty; write the name of a file")
    return text


def location(text: str) -> str:
    """Return a file, a folder or an address."""
    if not text.strip():
        raise argparse.ArgumentTypeError("write a file, a folder or a database URL")
    return text
