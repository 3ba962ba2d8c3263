"""Object stores on the loopback: moto's S3 in a process of its own, and one of ours that breaks as it is told."""

from __future__ import annotations

import hashlib
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.request import Request, urlopen

BUCKET = "engines"

Fault = Literal["", "hangs", "answers 500", "answers 403", "cuts half way", "gives other bytes"]
FAULTS: tuple[Fault, ...] = ("hangs", "answers 500", "answers 403", "cuts half way", "gives other bytes")

_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "planted", "AWS_REGION": "us-east-1"}


def s3_environment(address: str) -> dict[str, str]:
    """Return the variables by which every S3 client finds the store at `address`."""
    return {**_CREDENTIALS, "AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true"}


@contextmanager
def moto_s3() -> Iterator[str]:
    """Give the address of moto's S3 server with an empty bucket, `BUCKET`; it ends with the block."""
    command = (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stderr is not None
            said = next(line for line in server.stderr if "Running on" in line)
            address = said.split()[-1]
            # The rest of what it says would fill the pipe, and stop it.
            threading.Thread(target=server.stderr.read, daemon=True).start()
            urlopen(Request(f"{address}/{BUCKET}", method="PUT")).close()  # noqa: S310 - of our own
            yield address
        finally:
            server.terminate()


class Store:
    """What a store of ours holds, how it breaks, and what it was asked for.

    Attributes
    ----------
    objects : bytes by path.
    fault : what is wrong with it now; empty for nothing. Only reading is cut or of other bytes.
    refuses_writes : whether it answers 403 to all that write.
    asked : method and path of each request.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.fault: Fault = ""
        self.refuses_writes = False
        self.asked: list[tuple[str, str]] = []
        self.closing = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def do_GET(self) -> None:
        """Give an object, or break."""
        if self._breaks():
            return
        body = self.store.objects.get(self.path)
        if body is None:
            self._answer(404)
        elif self.store.fault == "gives other bytes":
            self._answer(200, bytes(byte ^ 1 for byte in body))
        elif self.store.fault == "cuts half way":
            self._answer(200, body[: len(body) // 2], len(body))
            self.close_connection = True
        else:
            self._answer(200, body)

    def do_PUT(self) -> None:
        """Keep an object, or break."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self._breaks():
            return
        if self.store.refuses_writes:
            self._answer(403)
            return
        self.store.objects[self.path] = body
        self._answer(200)

    def _breaks(self) -> bool:
        self.store.asked.append((self.command, self.path))
        if self.store.fault == "hangs":
            self.store.closing.wait()
            self.close_connection = True
        elif self.store.fault.startswith("answers"):
            self._answer(int(self.store.fault[-3:]))
        else:
            return False
        return True

    def _answer(self, status: int, body: bytes = b"", length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("Last-Modified", self.date_time_string())
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as there
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that went away."""


@contextmanager
def our_store(certificate: Path | None = None) -> Iterator[tuple[Store, str]]:
    """Give a store of ours and its address: as S3 has it, or with a file of `write_certificate` over TLS."""
    store = Store()
    handler = type("Handler", (_Handler,), {"store": store})
    with _Server(("127.0.0.1", 0), handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield store, f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"
        finally:
            store.closing.set()
            server.shutdown()
            thread.join()


def write_certificate(file: Path) -> None:
    """Write a key and a certificate for the loopback, which whoever trusts this file accepts."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
