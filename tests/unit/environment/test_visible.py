"""``CUDA_VISIBLE_DEVICES`` as CUDA reads it."""

from __future__ import annotations

import pytest

from pytest_quant.environment.cuda_driver import VISIBLE_VARIABLE
from pytest_quant.environment.visible import named_devices, only_with_prefix


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("", ()),
        ("0", (0,)),
        ("1,0", (1, 0)),
        ("0,2,-1,1", (0, 2)),
        ("-1", ()),
        ("1gpu2,2ampere", (1, 2)),
        ("nonsense", ()),
        ("0,nonsense,1", (0,)),
        ("1,1", ()),
        ("GPU-8932f937", ("GPU-8932f937",)),
        ("GPU-8932f937,GPU-b", ("GPU-8932f937", "GPU-b")),
        ("GPU-a,1", ("GPU-a",)),
        ("1,GPU-a", (1,)),
        ("GPU-a,GPU-a", ()),
        ("MIG-c7384736-a75d-5afc-978f-d2f1294409fd", ("MIG-c7384736-a75d-5afc-978f-d2f1294409fd",)),
        ("MIG-GPU-8932f937/1/0,GPU-a", ("MIG-GPU-8932f937/1/0",)),
    ],
)
def test_the_list_is_read_as_cuda_reads_it(
    value: str, named: tuple[int | str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list ends at the first device that is none; one named twice hides all. PyTorch reads the same."""
    assert named_devices(value) == named
    cuda = pytest.importorskip("torch.cuda", reason="PyTorch is not installed, whose reading is compared")
    monkeypatch.setenv(VISIBLE_VARIABLE, value)
    assert tuple(cuda._parse_visible_devices()) == named


def test_the_beginning_of_a_uuid_names_a_device_if_it_names_one_only() -> None:
    """Enough digits to tell it from the others, as the CUDA programming guide says."""
    uuids = ["GPU-8932f937", "GPU-8932ffff", "GPU-b"]
    assert only_with_prefix("GPU-b", uuids) == 2
    assert only_with_prefix("GPU-8932f", uuids) is None
    assert only_with_prefix("GPU-8932f9", uuids) == 0
    assert only_with_prefix("GPU-c", uuids) is None
