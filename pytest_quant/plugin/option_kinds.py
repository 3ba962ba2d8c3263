"""The kinds of values that options have: each reads a text, and says in words what it takes.

Every start of pytest imports this module, so that it imports nothing large and makes neither dataclass nor named tuple.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable
from typing import NamedTuple

_MOST_LAUNCHES = 100


class OptionKind(NamedTuple):
    """One kind of value.

    Parameters
    ----------
    metavar : as in `argparse`.
    value_of : returns the value of a text without blanks around it, of a type that xdist can send to its workers;
        ``None`` or a `ValueError` for another kind.
    words : the kind and an example, in the words that follow "is not".
    """

    metavar: str
    value_of: Callable[[str], object | None]
    words: str

    def __call__(self, text: str) -> object:
        """Return the value. Raises `argparse.ArgumentTypeError`, with a text that may be printed, for another kind."""
        try:
            value = self.value_of(text.strip())
        except ValueError:
            value = None
        if value is None:
            # Here, because its patterns take milliseconds of each start.
            from pytest_quant.printable import clean, redact

            raise argparse.ArgumentTypeError(clean(redact(f"{text!r} is not {self.words}")))
        return value


def _pattern_kind(metavar: str, pattern: str, words: str) -> OptionKind:
    return OptionKind(metavar, lambda text: text if re.fullmatch(pattern, text) else None, words)


def _number(metavar: str, is_allowed: Callable[[float], bool], words: str) -> OptionKind:
    return OptionKind(metavar, lambda text: number if is_allowed(number := float(text)) else None, words)


def _names_in(text: str) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in text.replace("\n", ",").split(",") if name.strip()) or None


def _launches(text: str) -> int | str | None:
    if text.lower() == "auto":
        return "auto"
    return int(text) if text.isdecimal() and 1 <= int(text) <= _MOST_LAUNCHES else None


NAME = _pattern_kind("NAME", r".+", "a name, for example ort")
NAMES = OptionKind("NAME[,NAME]", _names_in, "a list of names with commas between them; write ort,trt")
REVISION = _pattern_kind("REV", r".+", "a revision of git, for example main")
COMMAND = _pattern_kind("PYTHON_OR_COMMAND", r".+", "an interpreter or a command")
LEVEL = _number("LEVEL", lambda level: 0.0 < level < 1.0, "a level strictly between 0 and 1; write 0.95")
SECONDS = _number("SECONDS", lambda seconds: 0.0 < seconds < math.inf, "a time above 0 in seconds; write 30")
SECONDS_OR_NONE = _number(
    "SECONDS", lambda seconds: 0.0 <= seconds < math.inf, "a time in seconds; write 30, or 0 for none"
)
PERCENT = OptionKind(
    "PERCENT",
    lambda text: percent if 0.0 < (percent := float(text.removesuffix("%"))) < math.inf else None,
    "a percentage above 0; write 5",
)
LAUNCHES = OptionKind("N|auto", _launches, f"a number of launches; write auto, or 1 to {_MOST_LAUNCHES}")
PROCESSORS = _pattern_kind("KIND", "any|avx2|vnni", "a kind of processors; write any, avx2 or vnni")
SIZE_OF_PAGES = _pattern_kind("SIZE", "huge|small", "a size of pages; write small or huge")
TARGET = _pattern_kind("SMxx", r"SM\d{2,3}", "a compute capability; write SM89")
DEVICE = _pattern_kind(
    "DEVICE",
    r"cuda:\d{1,3}|(GPU|MIG)-[0-9a-f][0-9a-f-]*",
    "a GPU; write cuda:1, or a UUID, GPU-8932f937 or MIG-c7384736",
)
WORKERS = _pattern_kind(
    "local:N|tls://HOST:PORT|tcp://HOST:PORT",
    r"local:[1-9]\d{0,2}|(tcp|tls)://([\w.-]+|\[[\da-fA-F:]+\]):[1-9]\d{0,4}",
    "workers of Dask; write local:2, or the address of a scheduler, tls://10.0.0.5:8786",
)
FILE = OptionKind("FILE", lambda text: text if text and not os.path.isdir(text) else None, "the name of a file")  # noqa: PTH112 - `Path` raises for long names
DIRECTORY = _pattern_kind("DIR", r".+", "a folder")
LOCATION = _pattern_kind("FILE_OR_URL", r".+", "a file or a database URL")


def _read_bucket(text: str) -> str:
    """Return the address of a bucket; what is refused may hold a secret, which is not printed."""
    from importlib.util import find_spec

    from pytest_quant.printable import HIDDEN, clean, redact_address

    wrong, parts = "", re.fullmatch(r"(\w+)://([^/]*)(/.+)?", text)
    if parts is None or parts[1] not in ("s3", "gs", "az", "https", "file"):
        wrong = "is not the URL of a bucket; write s3://BUCKET/PREFIX, or one with gs:, az:, https: or file:"
    elif re.search(r"[@?#]", text):
        wrong = "holds credentials or parameters; they come from the environment, as AWS_ACCESS_KEY_ID does"
    elif not (parts[3] and not parts[2] if parts[1] == "file" else parts[2]):
        wrong = "names no bucket or folder; write s3://BUCKET/PREFIX, or file:///FOLDER with three slashes"
    elif find_spec("obstore") is None:
        wrong = 'needs a package: pip install "pytest-quant[remote]"'
    if wrong:
        shown = redact_address(text).partition("?")[0].partition("#")[0] or HIDDEN
        raise argparse.ArgumentTypeError(clean(f"{shown!r} {wrong}"))
    return text


BUCKET = OptionKind("URL", _read_bucket, "a URL")
