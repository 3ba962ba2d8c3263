"""``--quant-cache-remote``: a second machine builds nothing, a store that breaks changes no verdict."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.projects import output, run_project, run_project_apart, write_project
from tests.support import models
from tests.support.in_process import run_here
from tests.support.object_store import BUCKET, FAULTS, moto_s3, our_store, s3_environment, write_certificate

URL = f"s3://{BUCKET}/main"
TWO_MARKS = """
import pytest


@pytest.mark.quant(max_drop=5.0)
def test_good(): pass


@pytest.mark.quant(max_size_mb=1e-6)
def test_broken_limit(): pass
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """Give the address of moto's S3 server."""
    with moto_s3() as address:
        yield address


def use(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Let the S3 clients of this process, and of those that it starts, find the store at `address`."""
    for name, value in s3_environment(address).items():
        monkeypatch.setenv(name, value)


def verdicts(checks: list[dict[str, Any]]) -> list[object]:
    """Return what was judged of each check."""
    return [(check["nodeid"], check["status"], check["accuracy"], check["verdicts"]) for check in checks]


def line_of(result: pytest.RunResult) -> str:
    """Return the line about the shared cache, which is there once."""
    (line,) = (line for line in result.outlines if "shared cache" in line)
    return line


@pytest.mark.parametrize("backend", ["ort", "openvino"])
def test_a_second_machine_builds_and_evaluates_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, s3: str, backend: str
) -> None:
    """Another checkout with an empty folder has every engine and every output from the bucket."""
    use(monkeypatch, s3)
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester, mark=f"backend={backend!r}, max_drop=5.0")
    _, first = run_project(pytester, f"--quant-cache-remote={URL}")
    assert first[0]["cache"] == {"engine": "built", "reference": "built"}
    other = pytester.path / "other"
    other.mkdir()
    for name in ("model.onnx", "conftest.py", "test_model.py"):
        shutil.move(pytester.path / name, other / name)
    result, second = run_project(
        pytester, f"--rootdir={other}", str(other), f"--quant-cache={other / 'cache'}", f"--quant-cache-remote={URL}"
    )
    assert second[0]["cache"] == {"engine": "hit", "reference": "hit"}
    assert second[0]["accuracy"] == first[0]["accuracy"]
    assert second[0]["resources"]["build_s"] == first[0]["resources"]["build_s"]
    result.stdout.fnmatch_lines(["0 engines built, 1 from cache; 0 references evaluated, 1 from cache"])
    assert "shared cache: 4 entries (" in line_of(result)
    assert line_of(result).endswith("s saved, 0 (0.00 MB) written")
    assert not list((other / "cache").glob("calibration/*"))


def test_a_store_that_breaks_changes_no_verdict(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passed and broken limits are those of a run without a store, and the summary has one line about it."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester)
    (pytester.path / "test_model.py").write_text(TWO_MARKS)
    _, alone = run_project(pytester, "--quant-cache=alone")
    assert [check["status"] for check in alone] == ["PASS", "FAIL"]
    with our_store() as (store, address):
        use(monkeypatch, address)
        run_project(pytester, "--quant-cache=first", f"--quant-cache-remote={URL}")
        assert store.objects
        for fault in FAULTS:
            store.fault = fault
            result, checks = run_project(pytester, f"--quant-cache={fault}", f"--quant-cache-remote={URL}")
            assert verdicts(checks) == verdicts(alone), fault
            assert checks[0]["cache"]["engine"] == "built", fault
            assert "0 entries (0.00 MB) read" in line_of(result), fault
            assert ("off in this run" in line_of(result)) is (fault != "gives other bytes"), fault


def test_workers_share_a_store(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under xdist the figures of all workers are one line, and a failure is told once."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester)
    (pytester.path / "test_model.py").write_text(TWO_MARKS)
    with our_store() as (store, address):
        use(monkeypatch, address)
        # Outputs of the reference are kept by the number of threads, which workers share.
        apart = (f"--quant-cache-remote={URL}", "-n", "2", "-p", "xdist")
        run_project_apart(pytester, "--quant-cache=first", *apart)
        shared, checks = run_project_apart(pytester, "--quant-cache=second", *apart)
        store.fault = "hangs"
        alone, same_checks = run_project_apart(pytester, "--quant-cache=third", *apart)
    for each in (checks, same_checks):
        assert [check["status"] for check in each] == ["PASS", "FAIL"]
    # Ranges are read only for a trial of another engine, as of one with eight bits where weights have seven.
    tries_eight_bits = "options={'reduce_range': False} keeps 8" in shared.stdout.str().replace("\n             ", "")
    (entries,) = re.findall(r"shared cache: (\d+) entries", line_of(shared))
    assert int(entries) == len(store.objects) - (not tries_eight_bits)
    assert "0 (0.00 MB) written" in line_of(shared)
    assert line_of(alone).endswith("; off in this run: no answer within 4 s")


@pytest.mark.parametrize("scheme", ["file", "https"])
def test_folders_and_servers_of_http_are_stores(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """A path on a shared disk, and a server over TLS that takes PUT."""
    models.select_first(pytester.path / "model.onnx")
    write_project(pytester)
    certificate = pytester.path / "certificate.pem"
    write_certificate(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with our_store(certificate) as (store, address):
        url = f"{address}/engines" if scheme == "https" else (pytester.path / "shared").as_uri()
        run_project(pytester, "--quant-cache=first", f"--quant-cache-remote={url}")
        _, checks = run_project(pytester, "--quant-cache=second", f"--quant-cache-remote={url}")
        assert bool(store.objects) is (scheme == "https")
    assert checks[0]["cache"] == {"engine": "hit", "reference": "hit"}


def test_outputs_of_functions_are_not_shared(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their key is a name and a version, which another project may give to another function."""
    write_project(pytester, mark="backend='callable', max_drop=5.0, quantized='smaller'")
    with (pytester.path / "conftest.py").open("a") as file:
        file.write(
            "\n\n@pytest.fixture\ndef quant_model():\n"
            "    from pytest_quant import Model\n"
            "    return Model.from_callable(lambda x: x[:, :4], version='1')\n"
            "\n\n@pytest.fixture\ndef smaller(quant_model):\n    return quant_model\n"
        )
    with our_store() as (store, address):
        use(monkeypatch, address)
        result, checks = run_project(pytester, f"--quant-cache-remote={URL}")
    assert (checks[0]["cache"], store.asked) == ({"reference": "built"}, []), result.outlines


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("engines/main", "is not the URL of a bucket; write s3://BUCKET/PREFIX"),
        ("ftp://host/engines", "is not the URL of a bucket"),
        ("http://host/engines", "is not the URL of a bucket"),
        ("s3://", "names no bucket"),
        ("file://engines", "with three slashes"),
        ("s3://AKIA:planted@engines", "holds credentials"),
        ("https://reader:planted@[host/engines", "holds credentials"),
        ("https://host/engines?X-Amz-Signature=planted", "holds credentials"),
        ("az://engines?sv=2026&sig=planted", "holds credentials"),
        ("AKIA:planted@engines", "is not the URL of a bucket"),
    ],
)
def test_what_is_no_url_of_a_bucket_is_refused(pytester: pytest.Pytester, url: str, says: str) -> None:
    """Before any test, and without the secrets in it."""
    assert_refused(run_here(pytester, f"--quant-cache-remote={url}"), says)


def test_the_url_of_an_ini_file_is_refused_alike(pytester: pytest.Pytester) -> None:
    """Without its secrets too."""
    pytester.makeini("[pytest]\nquant_cache_remote = s3://AKIA:planted@engines\n")
    assert_refused(run_here(pytester), "holds credentials")


def assert_refused(result: pytest.RunResult, says: str) -> None:
    """Look for the error, and for the secret."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert says in output(result)
    assert "planted" not in output(result)


def test_without_its_package_the_extra_is_named(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option says what to install."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *args: None if name == "obstore" else found(name, *args)
    )
    write_project(pytester)
    result = run_here(pytester, f"--quant-cache-remote={URL}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(['*needs a package: pip install "pytest-quant[[]remote[]]"'])


def test_a_start_without_checks_does_not_load_the_package(pytester: pytest.Pytester) -> None:
    """Naming a bucket costs a run without marked tests nothing."""
    pytester.makepyfile("import sys\n\n\ndef test_plain():\n    assert 'obstore' not in sys.modules\n")
    assert pytester.runpytest_subprocess(f"--quant-cache-remote={URL}").ret == pytest.ExitCode.OK
    assert not Path(pytester.path / ".quant").exists()
