"""Captures are read whatever their form, and what cannot be read is named by file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.errors import Reason
from collectors.otlp import Limits
from collectors.replay import Format, Skipped, captures, read_batches


def request(name: str) -> str:
    span = {"traceId": "14579f4bb39f5fc9a9d864e82e16e3e2", "spanId": "0a967cd3225ac875", "name": name}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})


def protobuf(name: str) -> bytes:
    made = ExportTraceServiceRequest()
    made.resource_spans.add().scope_spans.add().spans.add(trace_id=b"\1" * 16, span_id=b"\2" * 8, name=name)
    return made.SerializeToString()


def names(*paths: Path, limits: Limits | None = None) -> tuple[list[str], list[Skipped]]:
    skipped: list[Skipped] = []
    batches = list(read_batches(paths, on_skipped=skipped.append, limits=limits or Limits()))
    assert {batch.source for batch in batches} <= {"replay"}
    return [span.name for batch in batches for span in batch.spans], skipped


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("a.jsonl", f"{request('a')}\n\n{request('b')}\n".encode(), ["a", "b"]),
        ("a.jsonl", f"{request('a')}\r\n{request('b')}".encode(), ["a", "b"]),
        ("a.json", request("a").encode(), ["a"]),
        ("a.json", json.dumps(json.loads(request("a")), indent=2).encode(), ["a"]),
        ("a.json", f"{request('a')}\n{request('b')}\n".encode(), ["a", "b"]),
        ("a.pb", protobuf("a"), ["a"]),
        ("A.PB", protobuf("a"), ["a"]),
        ("a.jsonl", b"", []),
        ("a.pb", b"", []),
    ],
)
def test_forms_plain_and_gzipped(tmp_path: Path, name: str, content: bytes, read: list[str]) -> None:
    for file, written in [
        (tmp_path / name, content),
        (tmp_path / f"{name}.gz", gzip.compress(content)),
        (tmp_path / f"unnamed-{name}", gzip.compress(content)),
    ]:
        file.write_bytes(written)
        assert names(file) == (read, [])


def test_folders_are_read_in_sorted_order_and_only_their_captures(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.jsonl").write_text(request("third"))
    (tmp_path / "b" / "1.pb.gz").write_bytes(gzip.compress(protobuf("second")))
    (tmp_path / "a.json").write_text(request("first"))
    (tmp_path / "notes.txt").write_text("not a capture")
    assert names(tmp_path) == (["first", "second", "third"], [])
    assert [capture.format for capture in captures([tmp_path])] == [
        Format.JSON,
        Format.PROTOBUF,
        Format.JSON_LINES,
    ]


def test_a_bad_line_is_named_and_its_neighbours_survive(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([request("a"), "{oops", request("c"), '{"resourceMetrics": []}', request("e")]))
    read, skipped = names(path)
    assert read == ["a", "c", "e"]
    assert [(skip.path, skip.line, skip.reason) for skip in skipped] == [
        (path, 2, Reason.BAD_JSON),
        (path, 4, Reason.METRICS),
    ]


def test_what_is_skipped_is_logged_where_nobody_asks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{oops")
    assert list(read_batches([path])) == []
    assert f"{path} line 1: bad_json" in caplog.text


def test_a_file_that_ends_in_the_middle_gives_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    whole = gzip.compress("\n".join(request(f"{number:0>5000}") for number in range(200)).encode(), 0)
    path.write_bytes(whole[: len(whole) // 2])
    read, skipped = names(path)
    assert 90 < len(read) < 101
    assert [skip.reason for skip in skipped] == [Reason.BAD_GZIP]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_line_over_the_cap_is_skipped_alone(tmp_path: Path, name: str) -> None:
    text = "\n".join([request("a"), request("b" * 1_000), request("c")]).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    read, skipped = names(path, limits=Limits(decompressed_bytes=300))
    assert read == ["a", "c"]
    assert [(skip.line, skip.reason) for skip in skipped] == [(2, Reason.TOO_LARGE)]


def test_a_document_over_the_cap_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "bomb.pb.gz"
    path.write_bytes(gzip.compress(bytes(100_000)))
    _, skipped = names(path, limits=Limits(decompressed_bytes=1_000))
    assert [skip.reason for skip in skipped] == [Reason.TOO_LARGE]


def test_a_named_file_of_unknown_form_is_told(tmp_path: Path) -> None:
    path = tmp_path / "traces.csv"
    path.write_text("a,b")
    assert names(path) == ([], [Skipped(path, 1, Reason.UNKNOWN_FORMAT, names(path)[1][0].detail)])


def test_a_missing_path_is_an_error_before_anything_is_read(tmp_path: Path) -> None:
    present = tmp_path / "a.jsonl"
    present.write_text(request("a"))
    with pytest.raises(FileNotFoundError):
        next(read_batches([present, tmp_path / "missing.jsonl"]))


def test_progress_rises_to_the_whole_size_on_disk(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join([request("a")] * 50))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress("\n".join([request("b")] * 50).encode()))
    seen: list[tuple[int, int]] = []
    assert (
        len(list(read_batches([tmp_path], on_progress=lambda done, total: seen.append((done, total))))) == 100
    )
    total = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert {of for _, of in seen} == {total}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (total, total)


@pytest.mark.part("shared")
def test_every_handed_capture_is_read_whole(shared: Path) -> None:
    folder = shared / "fixtures" / "otlp"
    manifest = json.loads((folder / "MANIFEST.json").read_text())["fixtures"]
    checked = 0
    for fixture in manifest.values():
        files = [folder / name for name in fixture["files"] if name.endswith(".requests.jsonl")]
        read, skipped = names(*files)
        assert (len(read), skipped) == (fixture["n_spans"], [])
        checked += len(files)
    assert checked == len(list(folder.glob("*.requests.jsonl")))


@pytest.mark.part("shared")
def test_a_capture_of_logs_is_read_beside_one_of_spans(shared: Path) -> None:
    path = shared / "fixtures" / "otlp" / "reference-multiservice.feedback-logs.json"
    read, skipped = names(path)
    assert read == ["gen_ai.evaluation.result"] * 4
    assert skipped == []
