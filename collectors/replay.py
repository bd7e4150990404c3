"""Capture files to spans: for the demo, for backfill and for tests.

A capture is what the collector's file exporter writes and what people keep: `.json` (one document, or one request a
line), `.jsonl` (one request a line) or `.pb` (one protobuf request), each perhaps gzipped (by name or by content).
"""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, cast

from collectors.errors import Reason, Undecodable
from collectors.otlp import Limits, decode, decode_any_json
from collectors.span import SpanBatch

_log = logging.getLogger(__name__)

SOURCE = "replay"
_GZIP = b"\x1f\x8b"
_DEFAULTS = Limits()


class Format(StrEnum):
    """What a capture's name says of it."""

    JSON = "json"
    JSON_LINES = "jsonl"
    PROTOBUF = "pb"


@dataclass(slots=True, frozen=True)
class Capture:
    """One capture file. `size` is its size on disk in bytes; `format` is None where the name tells none."""

    path: Path
    size: int
    format: Format | None


@dataclass(slots=True, frozen=True)
class Skipped:
    """A message of a capture, or one span of it, that was not read. `line` counts from 1 and is 1 for a file of one
    document."""

    path: Path
    line: int
    reason: Reason | str
    detail: str


OnProgress = Callable[[int, int], None]
"""Called with the bytes read so far, and in all, of the files as they stand on disk."""


def captures(paths: Iterable[Path]) -> Iterator[Capture]:
    """The captures at the paths, in the order given: files as they are named, folders with all that they hold, sorted
    by path, as far as its names are those of captures. Raises `FileNotFoundError`."""
    for path in paths:
        if not path.is_dir():
            yield Capture(path, path.stat().st_size, _format(path))
            continue
        for inner in sorted(path.rglob("*")):
            if inner.is_file() and (form := _format(inner)) is not None:
                yield Capture(inner, inner.stat().st_size, form)


def read_batches(
    paths: Iterable[Path],
    on_progress: OnProgress | None = None,
    on_skipped: Callable[[Skipped], None] | None = None,
    limits: Limits = _DEFAULTS,
) -> Iterator[SpanBatch]:
    """The batches of spans in the captures, in order.

    What cannot be read (a bad line, a span, a file that is no capture, a request for metrics) is handed to
    `on_skipped`, or logged where there is none, and the rest is read all the same. Raises `FileNotFoundError` for a
    path that is not there, before anything is read.
    """
    found = list(captures(paths))
    report = on_skipped or _log_skipped
    total, done = sum(capture.size for capture in found), 0
    for capture in found:
        for line, raw, consumed in _messages(capture, limits, report):
            try:
                batch = _decoded(raw, capture, limits)
            except Undecodable as refused:
                report(Skipped(capture.path, line, refused.reason, refused.detail))
            else:
                for rejection in batch.rejected:
                    report(Skipped(capture.path, line, rejection.reason, f"a span alone: {rejection.detail}"))
                yield batch
            if on_progress is not None:
                on_progress(done + consumed, total)
        done += capture.size
        if on_progress is not None:
            on_progress(done, total)


def _log_skipped(skipped: Skipped) -> None:
    _log.warning("%s line %d: %s: %s", skipped.path, skipped.line, skipped.reason, skipped.detail)


def _format(path: Path) -> Format | None:
    """What the name says, with or without `.gz` behind it.

    >>> _format(Path("traces.jsonl.gz"))
    <Format.JSON_LINES: 'jsonl'>
    """
    suffixes = [suffix.lower().removeprefix(".") for suffix in path.suffixes]
    if suffixes and suffixes[-1] == "gz":
        suffixes.pop()
    return Format(suffixes[-1]) if suffixes and suffixes[-1] in list(Format) else None


def _decoded(raw: bytes, capture: Capture, limits: Limits) -> SpanBatch:
    read = decode if capture.format is Format.PROTOBUF else decode_any_json
    return replace(read(raw, limits), source=SOURCE)


def _messages(
    capture: Capture, limits: Limits, report: Callable[[Skipped], None]
) -> Iterator[tuple[int, bytes, int]]:
    """Each message with its line and how many bytes of the file were consumed for it."""
    if capture.format is None:
        report(
            Skipped(
                capture.path, 1, Reason.UNKNOWN_FORMAT, "neither .json, .jsonl nor .pb, with or without .gz"
            )
        )
        return
    line = 1
    with capture.path.open("rb") as file:
        try:
            for line, raw in _split(_unpacked(file), capture.format, limits):
                if len(raw) > limits.decompressed_bytes:
                    detail = f"more than {limits.decompressed_bytes} bytes"
                    report(Skipped(capture.path, line, Reason.TOO_LARGE, detail))
                elif raw.strip():
                    yield line, raw, file.tell()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            report(Skipped(capture.path, line, Reason.BAD_GZIP, str(error)))


def _unpacked(file: BinaryIO) -> BinaryIO:
    start = file.read(len(_GZIP))
    file.seek(0)
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if start == _GZIP else file


def _split(stream: BinaryIO, form: Format, limits: Limits) -> Iterator[tuple[int, bytes]]:
    """The messages of an unpacked capture; one that is over the cap comes as its first part, a byte over it."""
    most = limits.decompressed_bytes + 1
    if form is Format.PROTOBUF:
        yield 1, stream.read(most)
        return
    first = stream.readline(most)
    if form is Format.JSON and not _is_whole(first):
        yield 1, first + stream.read(most - len(first))  # one document over several lines
        return
    number, line = 1, first
    while line:
        yield number, line
        while not line.endswith(b"\n") and (line := stream.readline(most)):
            pass  # the rest of a line over the cap
        number, line = number + 1, stream.readline(most)


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
