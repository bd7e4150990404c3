"""Messages that nobody could read, kept with their bytes and the reason until a person has looked at them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from collectors.errors import Reason

_log = logging.getLogger(__name__)


class DeadLetterSettings(BaseModel):
    """Where dead letters are kept and how many."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path = Field(
        Path("dead-letters.jsonl"),
        description="File of dead letters; older ones stand beside it as .1, .2, ...",
    )
    max_bytes: int = Field(64 * 2**20, gt=0, description="Size at which the file is put aside, in bytes.")
    files: int = Field(4, ge=1, description="Files kept, the current one included; the oldest goes first.")
    kafka_topic: str | None = Field(
        None,
        min_length=1,
        description="Topic to keep them in instead, on the brokers of collectors.kafka; what it does not take goes to "
        "the file. Null keeps all in the file.",
    )


@dataclass(slots=True, frozen=True)
class DeadLetter:
    """One message that could not be read. `time` is Unix seconds; topic, partition and offset are Kafka's.

    >>> DeadLetter(0.0, "kafka", "not_otlp", "", b"x", "spans", 3, 41).id
    '02755e389dfb'
    """

    time: float
    source: str
    reason: str
    detail: str
    raw: bytes
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    @property
    def id(self) -> str:
        """Names the letter wherever it is kept: twelve hex digits of a hash of all of it."""
        return hashlib.sha256(_encode(self)).hexdigest()[:12]


@dataclass(slots=True, frozen=True)
class UnreadableLine:
    """A line of a dead-letter file that is no letter: cut off by a crash, or not ours. `line` counts from 1."""

    path: Path
    line: int
    detail: str

    def __str__(self) -> str:
        return f"{self.path} line {self.line} is no dead letter: {self.detail}"


class DeadLetterSink(Protocol):
    """Keeps what could not be read. Thread-safe."""

    def put(
        self,
        raw: bytes,
        reason: Reason,
        detail: str,
        source: str,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> bool:
        """Keep the message durably and answer True; answer False where it is lost (the disk is full, say).

        Never raises: one bad message must not stop the stream that it came by."""
        ...


class FileDeadLetters:
    """Dead letters as JSON lines, each on disk before `put` answers.

    When the file is full it is put aside as `.1`, what was `.1` as `.2`, and so on; the oldest file is deleted, and
    what it held is counted in `dropped`, as is a letter that could not be written.
    """

    def __init__(self, settings: DeadLetterSettings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """Letters that are no longer, or never were, in the files."""
        return self._dropped

    def put(
        self,
        raw: bytes,
        reason: Reason,
        detail: str,
        source: str,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> bool:
        """Append the message to the file. See `DeadLetterSink.put`."""
        letter = DeadLetter(self._clock(), source, reason, detail, raw, topic, partition, offset)
        line = _encode(letter)
        with self._lock:
            try:
                if len(line) > self._settings.max_bytes:
                    raise OSError(f"a letter of {len(line)} bytes, larger than the whole file may be")
                self._append(line)
            except OSError as error:
                self._dropped += 1
                _log.error("a dead letter from %s (%s) is lost: %s", source, reason, error)
                return False
        return True

    def _append(self, line: bytes) -> None:
        path = self._settings.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size + len(line) > self._settings.max_bytes:
            self._rotate()
        with path.open("ab", buffering=0) as file:
            if _ends_torn(path):
                line = b"\n" + line  # a crash cut the last line: end it, so that only that one is lost
            written = file.write(line)
            if written != len(line):
                raise OSError(f"only {written} of {len(line)} bytes were written")
            os.fsync(file.fileno())

    def _rotate(self) -> None:
        last = _aside(self._settings.path, self._settings.files - 1)
        if last.exists():
            with last.open("rb") as file:
                self._dropped += sum(1 for _ in file)
            last.unlink()
        for number in range(self._settings.files - 1, 0, -1):
            newer = _aside(self._settings.path, number - 1)
            if newer.exists():
                newer.rename(_aside(self._settings.path, number))


def read(path: Path) -> Iterator[DeadLetter | UnreadableLine]:
    """The letters of a file and of those put aside beside it, oldest first."""
    aside = [_aside(path, 0)]
    while (older := _aside(path, len(aside))).exists():
        aside.append(older)
    for file in reversed(aside):
        if file.exists():
            yield from _read_one(file)


def _read_one(path: Path) -> Iterator[DeadLetter | UnreadableLine]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield _decode(line)
            except (ValueError, TypeError, KeyError, binascii.Error) as error:
                yield UnreadableLine(path, number, f"{type(error).__name__}: {error}")


def _aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def _ends_torn(path: Path) -> bool:
    if path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _encode(letter: DeadLetter) -> bytes:
    members = {
        "time": letter.time,
        "source": letter.source,
        "reason": letter.reason,
        "detail": letter.detail,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "raw": base64.b64encode(letter.raw).decode(),
    }
    return json.dumps(members).encode() + b"\n"


def _decode(line: bytes) -> DeadLetter:
    members = json.loads(line)
    return DeadLetter(**members | {"raw": base64.b64decode(members["raw"], validate=True)})
