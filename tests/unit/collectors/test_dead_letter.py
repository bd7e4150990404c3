"""Dead letters survive crashes, rotation and full disks, or their loss is counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from collectors.dead_letter import DeadLetter, DeadLetterSettings, FileDeadLetters, UnreadableLine, read
from collectors.errors import Reason


def letters(path: Path, **settings: int) -> FileDeadLetters:
    return FileDeadLetters(DeadLetterSettings(path=path, **settings), clock=lambda: 1_700_000_000.5)


def test_a_letter_is_read_back_as_it_was_put(tmp_path: Path) -> None:
    path = tmp_path / "made" / "on-demand.jsonl"
    raw = bytes(range(256))
    sink = letters(path)
    assert sink.put(raw, Reason.NOT_OTLP, "wire type 7", "kafka", topic="otlp_spans", partition=3, offset=41)
    assert sink.put(b"", Reason.BAD_JSON, "nothing", "otlp_http")
    assert list(read(path)) == [
        DeadLetter(1_700_000_000.5, "kafka", "not_otlp", "wire type 7", raw, "otlp_spans", 3, 41),
        DeadLetter(1_700_000_000.5, "otlp_http", "bad_json", "nothing", b""),
    ]


def test_a_full_file_is_put_aside_and_what_goes_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    sink = letters(path, max_bytes=1_000, files=3)
    for number in range(40):
        assert sink.put(str(number).encode(), Reason.NOT_OTLP, "x" * 100, "kafka", offset=number)
    kept = [letter.offset for letter in read(path) if isinstance(letter, DeadLetter)]
    assert kept == list(range(40 - len(kept), 40))
    assert len(kept) + sink.dropped == 40
    assert sorted(file.name for file in tmp_path.iterdir()) == ["dead.jsonl", "dead.jsonl.1", "dead.jsonl.2"]
    assert all(file.stat().st_size <= 1_000 for file in tmp_path.iterdir())


def test_one_file_alone_is_kept_within_its_size(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    sink = letters(path, max_bytes=400, files=1)
    for number in range(10):
        assert sink.put(b"", Reason.NOT_OTLP, "x" * 100, "kafka", offset=number)
    kept = list(read(path))
    assert len(kept) + sink.dropped == 10
    assert path.stat().st_size <= 400


def test_a_line_cut_by_a_crash_loses_no_other(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    letters(path).put(b"before", Reason.NOT_OTLP, "", "kafka")
    path.write_bytes(path.read_bytes() + b'{"time": 1, "sour')
    letters(path).put(b"after", Reason.NOT_OTLP, "", "kafka")
    before, torn, after = read(path)
    assert isinstance(before, DeadLetter)
    assert before.raw == b"before"
    assert isinstance(torn, UnreadableLine)
    assert (torn.path, torn.line) == (path, 2)
    assert isinstance(after, DeadLetter)
    assert after.raw == b"after"


@pytest.mark.parametrize("line", [b"[]", b'"text"', b'{"raw": "?"}', b'{"raw": "", "new": 1}', b"\xff"])
def test_what_is_no_letter_is_told_by_its_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "dead.jsonl"
    path.write_bytes(line + b"\n")
    (found,) = read(path)
    assert isinstance(found, UnreadableLine)
    assert found.line == 1


def test_a_letter_that_cannot_be_kept_is_counted_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    nowhere = letters(tmp_path / "file" / "dead.jsonl")
    assert not nowhere.put(b"raw", Reason.NOT_OTLP, "", "kafka")
    assert nowhere.dropped == 1
    small = letters(tmp_path / "dead.jsonl", max_bytes=10)
    assert not small.put(b"raw", Reason.NOT_OTLP, "", "kafka")
    assert small.dropped == 1
    assert caplog.text.count("is lost") == 2


def test_a_letter_is_on_disk_when_put_has_answered(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    script = (
        "import os, signal; from pathlib import Path; from collectors.errors import Reason;"
        "from collectors.dead_letter import *;"
        f"FileDeadLetters(DeadLetterSettings(path=Path({str(path)!r}))).put(b'x', Reason.NOT_OTLP, '', 'kafka');"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).resolve().parents[3]
    ended = subprocess.run(
        [sys.executable, "-c", script], check=False, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}
    )
    assert ended.returncode == -signal.SIGKILL
    assert [letter.raw for letter in read(path) if isinstance(letter, DeadLetter)] == [b"x"]


def test_many_threads_may_put_at_once(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    sink = letters(path)

    def put(thread: int) -> None:
        for number in range(20):
            sink.put(b"x" * 5_000, Reason.NOT_OTLP, "", "kafka", partition=thread, offset=number)

    threads = [threading.Thread(target=put, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {(letter.partition, letter.offset) for letter in read(path) if isinstance(letter, DeadLetter)}
    assert found == {(thread, number) for thread in range(4) for number in range(20)}
