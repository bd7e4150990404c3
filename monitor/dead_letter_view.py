"""Dead letters for people: one as a row, as fields, and its bytes as text or hex."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from collectors.dead_letter import DeadLetter
from collectors.errors import Undecodable
from collectors.otlp import decode, unwrap

_PREVIEW_BYTES, _PREVIEW_CHARACTERS = 512, 4_000

HEADINGS = ("ID", "TIME (UTC)", "REASON", "SOURCE", "TOPIC/PARTITION@OFFSET", "BYTES", "RE-DRIVEN (UTC)")


def row(*cells: str) -> str:
    """Cells under `HEADINGS`, in columns."""
    widths = (12, 20, 18, 9, 32, 9, 20)
    return "  ".join(
        cell.rjust(width) if number == 5 else cell.ljust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ).rstrip()


def letter_row(letter: DeadLetter, sent: float | None) -> str:
    """One letter; `sent` is when it was re-driven, in Unix seconds."""
    size = str(len(letter.raw))
    return row(
        letter.id, clock(letter.time), letter.reason, letter.source, _origin(letter), size, clock(sent) or "-"
    )


def fields(letter: DeadLetter) -> dict[str, Any]:
    """Everything about a letter but its bytes."""
    return {
        "id": letter.id,
        "time": clock(letter.time),
        "source": letter.source,
        "reason": letter.reason,
        "detail": letter.detail,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "bytes": len(letter.raw),
    }


def _origin(letter: DeadLetter) -> str:
    return "-" if letter.topic is None else f"{letter.topic}/{letter.partition}@{letter.offset}"


def clock(at: float | None) -> str:
    """Unix seconds as UTC; empty for none."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def today(letter: DeadLetter) -> str:
    """Whether the decoder of this release reads it."""
    try:
        batch = decode(letter.raw)
    except Undecodable as refused:
        return f"cannot be read: {refused}"
    refusals = Counter(rejection.reason for rejection in batch.rejected)
    told = "".join(f", {count} refused: {reason}" for reason, count in sorted(refusals.items()))
    return f"can be read: {len(batch.spans)} spans{told}"


def preview(raw: bytes) -> str:
    """The beginning of a message: JSON as text, whatever wrapped it, anything else as hex."""
    try:
        inner, is_json = unwrap(raw)
    except Undecodable:
        inner, is_json = raw, raw.lstrip()[:1] in (b"{", b"[")
    if is_json:
        text = inner.decode("utf-8", "backslashreplace")
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        return printable(text[:_PREVIEW_CHARACTERS]) + _rest(len(text) - _PREVIEW_CHARACTERS, "characters")
    lines = [_hex_line(at, raw[at : at + 16]) for at in range(0, min(len(raw), _PREVIEW_BYTES), 16)]
    return "\n".join(lines) + _rest(len(raw) - _PREVIEW_BYTES, "bytes")


def printable(text: str) -> str:
    """The text with control characters spelt out, which a terminal would obey.

    >>> printable("\x1b[2J")
    '\\\\x1b[2J'
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def _hex_line(at: int, part: bytes) -> str:
    """
    >>> _hex_line(16, b"traces\\x00")
    '00000010  74 72 61 63 65 73 00                             |traces.|'
    """
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
    return f"{at:08x}  {part.hex(' '):<47}  |{text}|"


def _rest(left: int, unit: str) -> str:
    return f"\n... {left} more {unit}; --raw writes all" if left > 0 else ""
