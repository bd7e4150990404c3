"""The broker's front that a production cluster has and the tests' broker lacks: TLS, client certificates and SASL.

It speaks the server's side of TLS, `SaslHandshake` and `SaslAuthenticate` (KIP-43, KIP-152; PLAIN of RFC 4616, SCRAM of
RFC 5802) for real, lets nothing else through before that, and then passes bytes on to the broker behind it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
_FLEXIBLE_AUTHENTICATE = 2
_OK, _UNSUPPORTED_MECHANISM, _FAILED = 0, 33, 58
_ITERATIONS = 4096


class Gateway:
    """Listens on a port of its own in front of a broker's. With `users`, a connection must say who it is by one of
    `mechanisms`; with `tls`, all of it is encrypted. `seen` lists the mechanisms that let somebody in, `refused` counts
    who was turned away."""

    def __init__(
        self,
        broker_port: int,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        users: dict[str, str] | None = None,
        mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    ) -> None:
        self._broker_port = broker_port
        self._tls = tls
        self._users = users
        self._mechanisms = mechanisms
        self.seen: list[str] = []
        self.refused = 0
        self._listening = socket.create_server(("127.0.0.1", port))
        self._open: list[socket.socket] = []

    def __enter__(self) -> Gateway:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listening, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, outside: socket.socket) -> None:
        try:
            if self._tls is not None:
                outside = self._tls.wrap_socket(outside, server_side=True)
            inside = socket.create_connection(("127.0.0.1", self._broker_port))
            self._open += [outside, inside]
            if self._users is None or self._authenticated(outside, inside):
                threading.Thread(target=_pump, args=(inside, outside), daemon=True).start()
                _pump(outside, inside)
        except (OSError, EOFError):
            self.refused += 1
        with suppress(OSError):
            outside.close()

    def _authenticated(self, outside: socket.socket, inside: socket.socket) -> bool:
        step: Callable[[bytes], tuple[bytes, bool]] | None = None
        mechanism = ""
        while True:
            frame = _frame(outside)
            key, version, correlation = struct.unpack_from(">hhi", frame)
            if key == API_VERSIONS:
                _send(inside, frame)
                _send(outside, _frame(inside))
                continue
            body = _after_header(
                frame, flexible=key == SASL_AUTHENTICATE and version >= _FLEXIBLE_AUTHENTICATE
            )
            if key == SASL_HANDSHAKE:
                mechanism = _string(body)
                known = mechanism in self._mechanisms
                step = self._step(mechanism) if known else None
                names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in self._mechanisms)
                error = _OK if known else _UNSUPPORTED_MECHANISM
                _send(outside, struct.pack(">ihi", correlation, error, len(self._mechanisms)) + names)
            elif key == SASL_AUTHENTICATE and step is not None:
                try:
                    answer, done = step(_auth_bytes(body, version))
                except (ValueError, KeyError):
                    self.refused += 1
                    _send(outside, _auth_response(correlation, version, _FAILED, b""))
                    return False
                _send(outside, _auth_response(correlation, version, _OK, answer))
                if done:
                    self.seen.append(mechanism)
                    return True
            else:
                self.refused += 1
                return False

    def _step(self, mechanism: str) -> Callable[[bytes], tuple[bytes, bool]]:
        assert self._users is not None
        if mechanism == "PLAIN":
            return self._plain
        return _Scram(self._users, mechanism).step

    def _plain(self, message: bytes) -> tuple[bytes, bool]:
        assert self._users is not None
        _, user, password = message.decode().split("\0")
        if self._users[user] != password:
            raise ValueError("wrong password")
        return b"", True


class _Scram:
    """The server's side of one SCRAM exchange."""

    def __init__(self, users: dict[str, str], mechanism: str) -> None:
        self._users = users
        self._hash = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        self._salt = os.urandom(16)
        self._first = ""

    def step(self, message: bytes) -> tuple[bytes, bool]:
        if not self._first:
            return self._begun(message.decode()), False
        return self._ended(message.decode()), True

    def _begun(self, message: str) -> bytes:
        bare = message.removeprefix("n,,")
        parts = dict(part.split("=", 1) for part in bare.split(","))
        self._password = self._users[parts["n"]].encode()
        nonce = parts["r"] + base64.b64encode(os.urandom(12)).decode()
        salt = base64.b64encode(self._salt).decode()
        answer = f"r={nonce},s={salt},i={_ITERATIONS}"
        self._first = f"{bare},{answer}"
        return answer.encode()

    def _ended(self, message: str) -> bytes:
        without_proof, proof = message.rsplit(",p=", 1)
        said = f"{self._first},{without_proof}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, self._salt, _ITERATIONS)
        client = hmac.digest(salted, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, client).digest(), said, self._hash)
        expected = bytes(left ^ right for left, right in zip(client, signature, strict=True))
        if not hmac.compare_digest(expected, base64.b64decode(proof)):
            raise ValueError("wrong proof")
        server = hmac.digest(salted, b"Server Key", self._hash)
        return b"v=" + base64.b64encode(hmac.digest(server, said, self._hash))


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _frame(source: socket.socket) -> bytes:
    return _exactly(source, struct.unpack(">i", _exactly(source, 4))[0])


def _send(target: socket.socket, frame: bytes) -> None:
    target.sendall(struct.pack(">i", len(frame)) + frame)


def _after_header(frame: bytes, *, flexible: bool) -> bytes:
    (length,) = struct.unpack_from(">h", frame, 8)
    return frame[10 + max(0, length) + (1 if flexible else 0) :]  # an empty list of tags is one byte


def _string(body: bytes) -> str:
    (length,) = struct.unpack_from(">h", body)
    return body[2 : 2 + length].decode()


def _auth_bytes(body: bytes, version: int) -> bytes:
    if version < _FLEXIBLE_AUTHENTICATE:
        (length,) = struct.unpack_from(">i", body)
        return body[4 : 4 + length]
    length, at = body[0] & 0x7F, 1
    if body[0] & 0x80:
        length |= body[1] << 7
        at = 2
    return body[at : at + length - 1]


def _auth_response(correlation: int, version: int, error: int, answer: bytes) -> bytes:
    if version < _FLEXIBLE_AUTHENTICATE:
        body = struct.pack(">ihhi", correlation, error, -1, len(answer)) + answer
        return body + (struct.pack(">q", 0) if version else b"")
    size = len(answer) + 1
    length = bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])
    return struct.pack(">ibhb", correlation, 0, error, 0) + length + answer + struct.pack(">qb", 0, 0)
