"""README.md as a package index shows it: a link within the repository leads nowhere there, and no picture is found.

The build calls it, by ``tool.hatch.metadata.hooks.custom`` of pyproject.toml. Nothing but hatchling is needed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n+", re.MULTILINE)
_GUIDE = re.compile(r"\[([^\]]+)\]\(pytest_quant/guides/([\w-]+)\.md\)")
_WITHIN = re.compile(r"\[([^\]]+)\]\((?!https?:|#)[^)]*\)")


def for_index(text: str) -> str:
    """Return README.md without pictures, with the topic of each guide in place of its link, and without other links."""
    named = _GUIDE.sub(r"\1 (`\2`)", _PICTURE.sub("", text))
    return _WITHIN.sub(r"\1", named)


class CustomMetadataHook(MetadataHookInterface):
    """What hatchling looks for."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the text of the package."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index(text)}
