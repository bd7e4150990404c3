"""Who may speak to a receiver: TLS, client certificates (mTLS) and a bearer token."""

from __future__ import annotations

import hmac
import logging
import re
import ssl
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

_log = logging.getLogger(__name__)

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""`b64token` of RFC 6750, section 2.1."""


class TlsSettings(BaseModel):
    """TLS of a receiver; all files are PEM. They are read again when they change, so that certificates may be renewed
    while it runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    certificate: Path = Field(
        description="Our certificate, with those between it and its authority behind it."
    )
    key: Path = Field(description="The private key of our certificate.")
    client_ca: Path | None = Field(
        None,
        description="Authorities whose clients may connect (mTLS); null asks clients for no certificate.",
    )

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        for path in self.files:
            if not path.is_file():
                raise ValueError(f"{path} is no file")
        return self

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.certificate, self.key, *([self.client_ca] if self.client_ca is not None else []))


class TlsFiles:
    """The files of `TlsSettings`, and whether they have changed.

    A file that cannot be read, or a certificate that does not fit its key, as in the middle of a renewal, leaves what
    was read before in force. Raises `OSError` (an `ssl.SSLError` is one) from the constructor.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._stamps = self._stamped()
        self.context = self._read()

    @property
    def settings(self) -> TlsSettings:
        return self._settings

    def renewed(self) -> bool:
        """Whether the files have changed and are whole; `context` then holds them."""
        try:
            stamps = self._stamped()
            if stamps == self._stamps:
                return False
            self.context = self._read()
        except OSError as error:
            _log.warning("TLS files are not usable yet, the old ones stay in force: %s", error)
            return False
        self._stamps = stamps
        return True

    def _stamped(self) -> tuple[tuple[int, int], ...]:
        stats = (path.stat() for path in self._settings.files)
        return tuple((stat.st_mtime_ns, stat.st_ino) for stat in stats)

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._settings.certificate, self._settings.key)
        if self._settings.client_ca is not None:
            context.load_verify_locations(self._settings.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


class BearerToken:
    """Judges an `Authorization` header; without a token every caller is let in.

    >>> BearerToken(SecretStr("s3cret")).allows("bearer s3cret")
    True
    >>> BearerToken(SecretStr("s3cret")).allows("Basic s3cret")
    False
    """

    def __init__(self, token: SecretStr | None) -> None:
        self._token = None if token is None else token.get_secret_value().encode()

    def allows(self, authorization: str | bytes | None) -> bool:
        """Whether the header bears the token; takes as long for a wrong one as for the right one."""
        if self._token is None:
            return True
        if isinstance(authorization, str):
            authorization = authorization.encode("utf-8", "surrogateescape")
        scheme, _, given = (authorization or b"").partition(b" ")
        return hmac.compare_digest(given.strip(), self._token) and scheme.lower() == b"bearer"


class ReceiverSecurity(BaseModel):
    """What every receiver's settings have of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tls: TlsSettings | None = Field(
        None, description="TLS, and client certificates; null speaks in the clear."
    )
    bearer_token: SecretStr | None = Field(
        None, description="Token that senders must bear (`Authorization: Bearer`); null asks for none."
    )

    @field_validator("bearer_token")
    @classmethod
    def _is_a_token(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and not _TOKEN.fullmatch(token.get_secret_value()):
            raise ValueError("a token is letters, digits and -._~+/ with perhaps = at its end (RFC 6750)")
        return token
