"""`groundwatch dead-letters` as it is typed, on real files, a real broker and a real receiver."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml
from broker import Broker, Record, free_port
from certificates import Authority
from kafka import KafkaConsumer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sidecars import Running

from collectors.dead_letter import DeadLetter, DeadLetterSettings, FileDeadLetters, read
from collectors.errors import Reason
from collectors.kafka_letters import TopicLetters, UnreadableRecord, read_topic
from collectors.kafka_settings import KafkaSettings
from collectors.otlp_http import OtlpHttpReceiver, OtlpHttpSettings
from collectors.receiver_security import TlsSettings
from collectors.span import SpanBatch
from monitor.cli import main
from monitor.config import ConfigError, load

ROOT = Path(__file__).resolve().parents[2]


class Sink:
    def __init__(self) -> None:
        self.names: list[str] = []
        self.refusals = 0

    def offer(self, batch: SpanBatch) -> bool:
        if self.refusals:
            self.refusals -= 1
            return False
        self.names += [span.name for span in batch.spans]
        return True


def message(*names: str) -> bytes:
    made = ExportTraceServiceRequest()
    scope = made.resource_spans.add().scope_spans.add()
    for number, name in enumerate(names, start=1):
        scope.spans.add(trace_id=b"\1" * 16, span_id=number.to_bytes(8, "big"), name=name)
    return made.SerializeToString()


class Run(Protocol):
    """The command line: what it was given, what it said, how it ended."""

    def __call__(self, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]: ...


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """In this process, since an interpreter takes a second to start."""

    def typed(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
        command = ["dead-letters", *map(str, arguments)]
        try:
            status = main(command)
        except SystemExit as told:
            status = int(str(told.code))
        sys.stdout.flush()
        said, complained = capfdbinary.readouterr()
        return subprocess.CompletedProcess(command, status, said, complained)

    return typed


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """Three letters: one that nobody reads, one that a defect of yesterday did not, one of JSON."""
    path = tmp_path / "dead.jsonl"
    sink = FileDeadLetters(DeadLetterSettings(path=path), clock=lambda: 1_700_000_000.0)
    sink.put(b"welcome \x1b[2Jtechworld", Reason.NOT_OTLP, "wire type \x1b 7", "kafka", "spans", 0, 41)
    sink.put(gzip.compress(message("good")), Reason.DECODER_FAULT, "defect", "kafka", "spans", 1, 42)
    span = {"traceId": "01" * 16, "spanId": "02" * 8, "name": "json"}
    document = [{"scopeSpans": [{"spans": [span]}]}]
    sink.put(json.dumps(document).encode(), Reason.TOO_LARGE, "cap", "kafka", "spans", 2, 43)
    return path


def ids(path: Path) -> list[str]:
    return [letter.id for letter in read(path) if isinstance(letter, DeadLetter)]


def until(true: Callable[[], object], deadline_s: float = 25.0) -> None:
    ends = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < ends, "it did not come to be in time"
        time.sleep(0.05)


class TestFile:
    def test_as_a_program_of_its_own(self, letters: Path) -> None:
        command = [sys.executable, "-m", "monitor.cli", "dead-letters", "list", "--file", str(letters)]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True)
        assert len(listed.stdout.splitlines()) == 4

    def test_help_says_what_there_is(self, run: Run) -> None:
        assert b"redrive" in run("--help").stdout
        for command in ("list", "show", "redrive"):
            told = run(command, "--help")
            assert told.returncode == 0
            assert b"--config FILE" in told.stdout
        assert run().returncode == 2

    def test_list(self, run: Run, letters: Path) -> None:
        listed = run("list", "--file", letters)
        assert (listed.returncode, listed.stderr) == (0, b"")
        heading, *rows = listed.stdout.decode().splitlines()
        assert heading.split()[0] == "ID"
        kept = [letter for letter in read(letters) if isinstance(letter, DeadLetter)]
        assert [row.split() for row in rows] == [
            [letter.id, "2023-11-14T22:13:20Z", reason, "kafka", origin, str(len(letter.raw)), "-"]
            for letter, reason, origin in zip(
                kept,
                ("not_otlp", "decoder_fault", "too_large"),
                ("spans/0@41", "spans/1@42", "spans/2@43"),
                strict=True,
            )
        ]
        entries = run("list", "--file", letters, "--json", "--reason", "too_large").stdout.splitlines()
        (entry,) = map(json.loads, entries)
        assert (entry["id"], entry["offset"], entry["detail"]) == (ids(letters)[2], 43, "cap")

    def test_an_empty_file_is_no_failure(self, run: Run, tmp_path: Path) -> None:
        listed = run("list", "--file", tmp_path / "none.jsonl")
        assert (listed.returncode, listed.stdout) == (0, b"")
        assert b"no dead letters" in listed.stderr

    def test_a_broken_line_is_told_and_the_others_are_shown(self, run: Run, letters: Path) -> None:
        letters.write_bytes(b'{"time": 1\n' + letters.read_bytes())
        listed = run("list", "--file", letters)
        assert listed.returncode == 1
        assert b"line 1 is no dead letter" in listed.stderr
        assert len(listed.stdout.splitlines()) == 4

    def test_show(self, run: Run, letters: Path) -> None:
        first, second, third = ids(letters)
        shown = run("show", "--file", letters, first).stdout.decode()
        assert "cannot be read: not_otlp" in shown
        assert "77 65 6c 63 6f 6d 65 20" in shown
        assert "|welcome .[2Jtech|" in shown
        assert "\x1b" not in shown, "a terminal would obey it"
        assert "can be read: 1 spans" in run("show", "--file", letters, second[:6]).stdout.decode()
        assert '"name": "json"' in run("show", "--file", letters, third.upper()).stdout.decode()
        assert gzip.decompress(run("show", "--file", letters, second, "--raw").stdout) == message("good")

    @pytest.mark.parametrize("wanted", ["zzz", ""])
    def test_an_id_that_names_none_is_a_mistake(self, run: Run, letters: Path, wanted: str) -> None:
        shown = run("show", "--file", letters, wanted)
        assert shown.returncode == 2
        assert shown.stderr.startswith(b"groundwatch: no dead letters have an id")

    def test_redrive_sends_what_can_be_read_once_and_keeps_every_letter(
        self, run: Run, letters: Path
    ) -> None:
        before = letters.read_bytes()
        sink = Sink()
        with OtlpHttpReceiver(OtlpHttpSettings(port=0, retry_delay_s=0.1), sink) as receiver:
            to = ("--to", f"http://127.0.0.1:{receiver.port}")
            sink.refusals = 1  # a full receiver is asked again
            first = run("redrive", "--file", letters, "--all", *to)
            assert (first.returncode, first.stderr) == (1, b""), "one cannot be read"
            assert sink.names == ["good", "json"]
            assert b"1 still unreadable" in first.stdout
            second = run("redrive", "--file", letters, "--all", *to)
            assert second.returncode == 1
            assert b"2 sent before" in second.stdout
            assert sink.names == ["good", "json"]
            assert run("redrive", "--file", letters, ids(letters)[1], "--again", *to).returncode == 0
            assert sink.names == ["good", "json", "good"]
        assert letters.read_bytes() == before
        marked = [
            line.split()[-1] for line in run("list", "--file", letters).stdout.decode().splitlines()[1:]
        ]
        assert marked[0] == "-"
        assert "-" not in marked[1:]

    def test_redrive_of_what_nobody_takes_is_tried_again_later(self, run: Run, letters: Path) -> None:
        nobody = ("--to", f"http://127.0.0.1:{free_port()}")
        failed = run("redrive", "--file", letters, ids(letters)[1], *nobody)
        assert failed.returncode == 1
        assert b"not taken" in failed.stdout
        sink = Sink()
        with OtlpHttpReceiver(OtlpHttpSettings(port=0), sink) as receiver:
            to = ("--to", f"http://127.0.0.1:{receiver.port}")
            assert run("redrive", "--file", letters, ids(letters)[1], *to).returncode == 0
        assert sink.names == ["good"]

    def test_redrive_over_mutual_tls_with_a_token(
        self, run: Run, letters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        authority = Authority(tmp_path / "authority")
        server, client = authority.issue("server"), authority.issue("client")
        tls = TlsSettings(certificate=server.certificate, key=server.key, client_ca=authority.file)
        sink = Sink()
        settings = OtlpHttpSettings(port=0, tls=tls, bearer_token="s3cret")
        with OtlpHttpReceiver(settings, sink) as receiver:
            asked = (
                "redrive",
                "--file",
                letters,
                ids(letters)[1],
                "--to",
                f"https://localhost:{receiver.port}",
            )
            secured = ("--ca", authority.file, "--certificate", client.certificate, "--key", client.key)
            assert run(*asked).returncode == 1
            assert b"401" in run(*asked, *secured).stdout
            assert b"holds no token" in run(*asked, *secured, "--token-variable", "TOKEN").stderr
            monkeypatch.setenv("TOKEN", "s3cret")
            assert run(*asked, *secured, "--token-variable", "TOKEN").returncode == 0
        assert sink.names == ["good"]

    @pytest.mark.parametrize(
        ("arguments", "mistake"),
        [
            ((), b"name the letters"),
            (("abc", "--all"), b"name the letters"),
            (("--all", "--to", "localhost"), b"no http or https address"),
            (("--all", "--to-topic"), b"needs collectors.kafka"),
        ],
    )
    def test_mistakes_are_told(
        self, run: Run, letters: Path, arguments: tuple[str, ...], mistake: bytes
    ) -> None:
        told = run("redrive", "--file", letters, *arguments)
        assert told.returncode == 2
        assert mistake in told.stderr
        assert b"Traceback" not in told.stderr


class TestTopic:
    @pytest.fixture
    def connection(self, broker: Broker) -> KafkaSettings:
        return KafkaSettings(bootstrap_servers=(broker.bootstrap,))

    def test_a_letter_comes_back_as_it_was_put(
        self, broker: Broker, connection: KafkaSettings, tmp_path: Path
    ) -> None:
        topic = broker.topic(partitions=2)
        file = FileDeadLetters(DeadLetterSettings(path=tmp_path / "dead.jsonl"))
        raw = bytes(range(256))
        with TopicLetters(connection, topic, file, clock=lambda: 1_700_000_000.5) as letters:
            assert letters.put(raw, Reason.NOT_OTLP, "wire type 7 \ud800", "kafka", "spans", 3, 41)
            assert letters.put(b"", Reason.BAD_JSON, "nothing", "kafka")
        broker.produce(topic, [Record(0, b"a stranger's")])
        found = list(read_topic(connection, topic))
        strangers = [entry for entry in found if isinstance(entry, UnreadableRecord)]
        assert [entry.partition for entry in strangers] == [0]
        kept = {entry for entry in found if isinstance(entry, DeadLetter)}
        assert {(entry.reason, entry.raw, entry.offset, entry.time) for entry in kept} == {
            ("not_otlp", raw, 41, 1_700_000_000.5),
            ("bad_json", b"", None, 1_700_000_000.5),
        }
        consumer: Any = KafkaConsumer(topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
        records = [record for some in consumer.poll(5_000).values() for record in some]
        consumer.close()
        (headers,) = (dict(record.headers) for record in records if record.value == raw)
        assert {name: headers[name] for name in ("reason", "topic", "partition", "offset", "source")} == {
            "reason": b"not_otlp",
            "topic": b"spans",
            "partition": b"3",
            "offset": b"41",
            "source": b"kafka",
        }
        assert not (tmp_path / "dead.jsonl").exists()

    def test_what_the_topic_does_not_take_goes_to_the_file(self, tmp_path: Path) -> None:
        nobody = KafkaSettings(bootstrap_servers=(f"127.0.0.1:{free_port()}",))
        file = FileDeadLetters(DeadLetterSettings(path=tmp_path / "dead.jsonl"))
        with TopicLetters(nobody, "letters", file) as letters:
            began = time.monotonic()
            for number in range(20):
                assert letters.put(b"x", Reason.NOT_OTLP, "", "kafka", "spans", 0, number)
            assert time.monotonic() - began < 10, "a broker that is gone is not asked for each letter"
        kept = [letter.offset for letter in read(tmp_path / "dead.jsonl") if isinstance(letter, DeadLetter)]
        assert kept == list(range(20))

    def test_the_letters_of_a_sidecar_are_kept_in_a_topic_and_redriven_from_it(
        self, run: Run, broker: Broker, tmp_path: Path
    ) -> None:
        source, dead, repaired = broker.topic(), broker.topic(), broker.topic()
        kafka = {
            "bootstrap_servers": [broker.bootstrap],
            "topics": [source, repaired],
            "group_id": f"g-{uuid.uuid4().hex}",
            "commit_interval_s": 0.2,
        }
        sidecar = Running(
            tmp_path,
            collectors={"kafka": kafka, "otlp_http": {"enabled": False}},
            dead_letters={"path": str(tmp_path / "dead.jsonl"), "kafka_topic": dead},
        )
        config = tmp_path / "groundwatch.yaml"
        try:
            sidecar.start()
            broker.produce(
                source, [Record(0, value) for value in (b"welcome techworld", message("a"), b"\x0a\x05abc")]
            )
            sidecar.wait_for("messages dead-lettered", 2)
            until(lambda: broker.committed(kafka["group_id"], source) == 3)
            listed = run("list", "--config", config)
            assert listed.returncode == 0
            assert [row.split()[2] for row in listed.stdout.decode().splitlines()[1:]] == [
                "not_otlp",
                "truncated",
            ]
            assert not (tmp_path / "dead.jsonl").exists()
            # A letter that yesterday's release could not read, put there as it would have done.
            file = FileDeadLetters(DeadLetterSettings(path=tmp_path / "lost.jsonl"))
            connection = KafkaSettings(bootstrap_servers=(broker.bootstrap,))
            with TopicLetters(connection, dead, file) as letters:
                assert letters.put(message("b"), Reason.DECODER_FAULT, "", "kafka", source, 0, 7)
            before = sidecar.status()["counts"]["spans received"]
            again = run("redrive", "--config", config, "--all", "--to-topic", repaired)
            assert again.returncode == 1
            assert f"sent: {repaired} partition 0 offset 0".encode() in again.stdout
            sidecar.wait_for("spans received", before + 1)
            assert b"1 sent before" in run("redrive", "--config", config, "--all", "--to-topic").stdout
            own = run(
                "redrive", "--config", config, "--all", "--reason", "decoder_fault", "--again", "--to-topic"
            )
            assert (own.returncode, f"{source} partition 0 offset 3".encode() in own.stdout) == (0, True)
            sidecar.wait_for("spans received", before + 2)
            assert sidecar.terminate() == 0
        finally:
            sidecar.kill()

    @pytest.mark.parametrize(
        ("kafka", "mistake"),
        [
            (None, "needs collectors.kafka"),
            ({"topics": ["letters"]}, "would read its own dead letters"),
            ({"topic_pattern": "let.*"}, "would read its own dead letters"),
        ],
    )
    def test_a_topic_that_would_be_read_again_is_a_mistake_of_the_settings(
        self, tmp_path: Path, kafka: dict[str, Any] | None, mistake: str
    ) -> None:
        path = tmp_path / "groundwatch.yaml"
        path.write_text(
            yaml.safe_dump({"collectors": {"kafka": kafka}, "dead_letters": {"kafka_topic": "letters"}})
        )
        with pytest.raises(ConfigError, match=mistake):
            load(path)
