"""Giving dead letters a second chance: decode again, send what can be read now, remember what was sent.

A letter is never changed or removed. That it was sent is written down after its target has taken it, so that a crash
between the two sends it twice and loses it never; twice the same spans are one to who receives them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from collectors.dead_letter import DeadLetter
from collectors.errors import Undecodable
from collectors.otlp import Limits, decode

_DEFAULTS = Limits()


class RedriveFailed(Exception):  # noqa: N818 (an outcome)
    """The target did not take a letter; it stays as it is."""


class RedriveTarget(Protocol):
    """Where letters that can be read now are sent."""

    def send(self, letter: DeadLetter, is_logs: bool) -> str:
        """Send the letter's message, of log records or of spans; gives where it went, for people. Raises
        `RedriveFailed`."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class Result(StrEnum):
    """What became of one letter."""

    SENT = "sent"
    SENT_BEFORE = "sent before"
    EMPTY = "holds nothing to send"
    UNREADABLE = "still unreadable"
    FAILED = "not taken"


@dataclass(slots=True, frozen=True)
class Redriven:
    """One letter, what became of it, and where it went or why it did not."""

    letter: DeadLetter
    result: Result
    detail: str = ""


class Ledger:
    """Which letters were sent, as JSON lines beside the file of letters; each is on disk before `note` returns.

    A line that a crash cut off counts for nothing: its letter is sent again.
    """

    def __init__(self, letters: Path) -> None:
        self._path = letters.with_name(f"{letters.name}.redriven")

    def sent(self) -> dict[str, float]:
        """When (Unix seconds) each letter was sent last, by its id."""
        found: dict[str, float] = {}
        if not self._path.exists():
            return found
        for line in self._path.read_bytes().splitlines():
            try:
                entry = json.loads(line)
                found[str(entry["id"])] = float(entry["time"])
            except (ValueError, TypeError, KeyError):
                continue
        return found

    def note(self, letter: DeadLetter, where: str, now: float) -> None:
        """Remember that the letter was sent. Raises `OSError`."""
        line = json.dumps({"id": letter.id, "time": now, "where": where}).encode()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab", buffering=0) as file:
            file.write(b"\n" + line + b"\n")  # the first ends what a crash may have cut off
            os.fsync(file.fileno())


def redrive(
    letters: Iterable[DeadLetter],
    target: RedriveTarget,
    ledger: Ledger,
    clock: Callable[[], float],
    *,
    again: bool = False,
    limits: Limits = _DEFAULTS,
) -> Iterator[Redriven]:
    """Send each letter that can be read now, in order, and say what became of it; those that were sent before only
    where `again` is set."""
    sent = {} if again else ledger.sent()
    for letter in letters:
        if letter.id in sent:
            yield Redriven(letter, Result.SENT_BEFORE)
            continue
        outcome = _tried(letter, target, limits)
        if outcome.result is Result.SENT:
            now = clock()
            ledger.note(letter, outcome.detail, now)
            sent[letter.id] = now
        yield outcome


def _tried(letter: DeadLetter, target: RedriveTarget, limits: Limits) -> Redriven:
    try:
        batch = decode(letter.raw, limits)
    except Undecodable as refused:
        return Redriven(letter, Result.UNREADABLE, str(refused))
    if not batch.spans:
        return Redriven(
            letter, Result.EMPTY, f"{len(batch.rejected)} spans refused" if batch.rejected else ""
        )
    try:
        where = target.send(letter, any(span.is_log for span in batch.spans))
    except RedriveFailed as failed:
        return Redriven(letter, Result.FAILED, str(failed))
    return Redriven(letter, Result.SENT, where)
