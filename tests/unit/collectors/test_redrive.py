"""Dead letters get a second chance, are never lost by it, and are sent once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from collectors.dead_letter import DeadLetter
from collectors.otlp import Limits, unwrap
from collectors.otlp_sender import OtlpHttpTarget
from collectors.redrive import Ledger, RedriveFailed, Result, redrive

SPAN = b'{"traceId": "14579F4BB39F5FC9A9D864E82E16E3E2", "spanId": "CpZ9MiWshHU=", "name": "a"}'
READABLE = b'[{"scopeSpans": [{"spans": [' + SPAN + b"]}]}]"


class Target:
    """Takes letters, or fails as often as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.sent: list[bytes] = []

    def send(self, letter: DeadLetter, is_logs: bool) -> str:
        if self.failures:
            self.failures -= 1
            raise RedriveFailed("full")
        self.sent.append(letter.raw)
        return "there"

    def close(self) -> None: ...


def letter(raw: bytes, offset: int = 0) -> DeadLetter:
    return DeadLetter(1_700_000_000.0, "kafka", "decoder_fault", "defect", raw, "spans", 0, offset)


def driven(tmp_path: Path, target: Target, *letters: DeadLetter, **options: bool) -> list[Result]:
    ledger = Ledger(tmp_path / "dead.jsonl")
    return [done.result for done in redrive(letters, target, ledger, lambda: 42.0, **options)]


def test_what_can_be_read_is_sent_once_and_the_rest_remains(tmp_path: Path) -> None:
    letters = [letter(READABLE), letter(b"welcome techworld", 1), letter(READABLE, 2), letter(b"{}", 3)]
    target = Target()
    assert driven(tmp_path, target, *letters) == [Result.SENT, Result.UNREADABLE, Result.SENT, Result.EMPTY]
    assert target.sent == [READABLE, READABLE]
    before = [Result.SENT_BEFORE, Result.UNREADABLE, Result.SENT_BEFORE, Result.EMPTY]
    assert driven(tmp_path, target, *letters) == before
    assert target.sent == [READABLE, READABLE]
    assert driven(tmp_path, target, letters[0], again=True) == [Result.SENT]
    assert set(Ledger(tmp_path / "dead.jsonl").sent()) == {letters[0].id, letters[2].id}


def test_a_letter_that_stands_twice_is_sent_once(tmp_path: Path) -> None:
    target = Target()
    assert driven(tmp_path, target, letter(READABLE), letter(READABLE)) == [Result.SENT, Result.SENT_BEFORE]
    assert len(target.sent) == 1


def test_what_was_not_taken_is_tried_the_next_time(tmp_path: Path) -> None:
    target = Target(failures=1)
    assert driven(tmp_path, target, letter(READABLE)) == [Result.FAILED]
    assert driven(tmp_path, target, letter(READABLE)) == [Result.SENT]


def test_a_note_that_a_crash_cut_off_sends_again_and_spoils_no_other(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "dead.jsonl")
    ledger.note(letter(b"a"), "there", 1.0)
    ledger.note(letter(b"b"), "there", 2.0)
    path = tmp_path / "dead.jsonl.redriven"
    path.write_bytes(path.read_bytes()[:-12])
    assert set(ledger.sent()) == {letter(b"a").id}
    ledger.note(letter(b"c"), "there", 3.0)
    assert ledger.sent() == {letter(b"a").id: 1.0, letter(b"c").id: 3.0}


def test_the_notes_are_no_letters(tmp_path: Path) -> None:
    """They stand beside the file, where older letters stand too."""
    from collectors.dead_letter import read

    Ledger(tmp_path / "dead.jsonl").note(letter(b"a"), "there", 1.0)
    assert list(read(tmp_path / "dead.jsonl")) == []


@pytest.mark.parametrize(
    ("raw", "is_json"),
    [
        (READABLE, True),
        (gzip.compress(READABLE), True),
        (b"\0\0\0\0\x07" + READABLE, True),
        (b"\xef\xbb\xbf\n " + READABLE, True),
        (b"\n" + READABLE, True),
        (b"", False),
        (b"\0\0\0\0\x07\0" + b"\x0a\x00", False),
        (b"\x0a\x02\x12\x00", False),
    ],
)
def test_what_wrapped_a_message_is_taken_off(raw: bytes, is_json: bool) -> None:
    inner, found = unwrap(raw)
    assert found is is_json
    if is_json:
        assert json.loads(inner)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"] == "a"
    else:
        assert inner == raw[-len(inner) or len(raw) :]


def test_a_message_over_the_cap_is_not_unpacked() -> None:
    with pytest.raises(ValueError, match="decompression_cap"):
        unwrap(gzip.compress(bytes(1_000)), Limits(decompressed_bytes=999))


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://here", "http://", "file:///etc/passwd"])
def test_a_target_is_an_http_address(url: str) -> None:
    with pytest.raises(ValueError, match="no http or https address"):
        OtlpHttpTarget(url)
