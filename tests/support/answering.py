"""A small HTTP server on loopback that answers badly, as asked by the first part of the path."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SENT = "Wed, 21 Oct 2026 07:28:00 GMT"
DUE = "Wed, 21 Oct 2026 07:29:30 GMT"  # 90 s later

# First part of the path -> status, headers, body.
ANSWERS: dict[str, tuple[int, dict[str, str], Any]] = {
    "429": (429, {"Retry-After": "7"}, {"error": {"message": "slow down"}}),
    "429-by-date": (429, {"Retry-After": DUE, "Date": SENT}, {}),
    "429-in-ms": (429, {"retry-after-ms": "250", "Retry-After": "1"}, {}),
    "429-spent": (429, {}, {"error": {"type": "insufficient_quota", "code": "insufficient_quota"}}),
    "429-limit": (
        429,
        {"Retry-After": "7"},
        {"error": {"details": {"error_code": "enforced_spend_limit_reached"}}},
    ),
    "500": (500, {}, {}),
    "501": (501, {}, {}),
    "503": (503, {"Retry-After": "120"}, {}),
    "400": (400, {}, {"error": {"code": "context_length_exceeded"}}),
    "403-later": (403, {"Retry-After": "60"}, {}),
    "404": (404, {}, {}),
}


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: AnsweringServer

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.close_connection = True
        wish = self.path.split("/")[1]
        if wish == "hangs":
            self.server.over.wait(30)
        elif wish == "closes":
            pass
        elif wish == "cuts":
            self._send(200, {"Content-Length": "1000"}, b"the begin")
        elif wish == "overloaded-in-stream":
            told = json.dumps({"type": "error", "error": {"type": "overloaded_error"}})
            stream = f"event: error\ndata: {told}\n\n".encode()
            self._send(200, {"Content-Type": "text/event-stream"}, stream)
        else:
            status, headers, body = ANSWERS[wish]
            text = json.dumps(body).encode()
            told = {"Content-Type": "application/json", "Content-Length": str(len(text))}
            self._send(status, told | headers, text)

    do_POST = do_GET

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in (headers | {"Connection": "close"}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class AnsweringServer(ThreadingHTTPServer):
    """``url`` is its root; ``over`` lets what hangs go."""

    daemon_threads = True

    def __init__(self, scheme: str = "http") -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.over = threading.Event()
        self.url = f"{scheme}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is what some tests are about."""


@contextmanager
def answering(certificate: Path | None = None) -> Iterator[AnsweringServer]:
    """The server while it runs; with the PEM file of a key and certificate it speaks TLS."""
    with AnsweringServer("https" if certificate else "http") as server:
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            # The handshake belongs to the connection's own thread.
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()


def write_certificate(path: Path) -> Path:
    """A key and a certificate for 127.0.0.1 that nobody signed but itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8
    path.write_bytes(
        key.private_bytes(pem, plain, serialization.NoEncryption()) + certificate.public_bytes(pem)
    )
    return path
