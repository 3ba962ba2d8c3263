"""Node ids without what our own lists add to them, so that a series outlives a new list."""

from __future__ import annotations


def series_nodeid(nodeid: str, variant_id: str | None) -> str:
    """Remove `variant_id` from the brackets of `nodeid`, and the brackets when nothing else is in them.

    ``test_a.py::test_a[cpu-ort-int8-static]`` with ``ort-int8-static`` becomes ``test_a.py::test_a[cpu]``.
    """
    if not variant_id or not nodeid.endswith("]"):
        return nodeid
    if nodeid.endswith(f"[{variant_id}]"):
        return nodeid.removesuffix(f"[{variant_id}]")
    if nodeid.endswith(f"-{variant_id}]"):
        return nodeid.removesuffix(f"-{variant_id}]") + "]"
    head, _, parameters = nodeid.partition("[")
    return f"{head}[{parameters.removeprefix(f'{variant_id}-')}"
