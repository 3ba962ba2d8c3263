"""A cache in a fresh folder, and a builder that counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_quant.cache import Cache, JsonScalar

CONTENT = b"weights of a network " * 100


@dataclass
class Builder:
    """Writes two files, one in a subfolder; `calls` holds the folders it was given."""

    content: bytes = CONTENT
    facts: Mapping[str, JsonScalar] = field(default_factory=lambda: {"build_s": 1.25, "note": "né", "n": 3})
    calls: list[Path] = field(default_factory=list)

    def __call__(self, folder: Path) -> Mapping[str, JsonScalar]:
        """Write the files; the folder is empty before."""
        assert list(folder.iterdir()) == []
        self.calls.append(folder)
        (folder / "model.onnx").write_bytes(self.content)
        (folder / "external").mkdir()
        (folder / "external" / "data.bin").write_bytes(self.content[::-1])
        return self.facts


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A place for a cache; nothing is there yet."""
    return tmp_path / ".quant" / "cache"


@pytest.fixture
def said() -> list[str]:
    """Messages of the cache to its user."""
    return []


@pytest.fixture
def cache(root: Path, said: list[str]) -> Cache:
    """An empty cache."""
    return Cache(root, notify=said.append)


@pytest.fixture
def builder() -> Builder:
    """A builder of this test's own."""
    return Builder()


def never(folder: Path) -> Mapping[str, JsonScalar]:
    """A builder that must not be called."""
    raise AssertionError(f"built again in {folder}")


def temporary_names(root: Path) -> list[str]:
    """Whatever is half built or half removed below `root`."""
    return [path.name for path in root.glob("*/.*.tmp")]
