"""Real certificates for tests, of authorities that the tests make."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import trustme


class Identity(NamedTuple):
    """PEM files of one certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority with its files in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ca = trustme.CA()
        self.file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def issue(self, name: str = "localhost", *, expired: bool = False) -> Identity:
        """A certificate for the name and this machine's loopback address."""
        ended = datetime.now(UTC) - timedelta(days=1) if expired else None
        names = (name, "127.0.0.1", "localhost")
        issued = self._ca.issue_cert(*names, not_before=None, not_after=ended)
        stem = f"{name}-expired" if expired else name
        made = Identity(self._folder / f"{stem}.pem", self._folder / f"{stem}.key")
        issued.private_key_pem.write_to_path(str(made.key))
        made.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        return made


def client_context(ca: Path, identity: Identity | None = None) -> ssl.SSLContext:
    """How a client that trusts the authority speaks TLS, with its own certificate if it has one."""
    context = ssl.create_default_context(cafile=ca)
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context
