"""The Kafka collector on a real broker: what is read, what is committed, what a kill or a full sink costs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kafka.codec
import pytest
from broker import Broker, Record, free_port, recorded
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors import kafka_faults
from collectors.dead_letter import DeadLetter, DeadLetterSettings, FileDeadLetters, read
from collectors.errors import Reason
from collectors.events import NullEvents
from collectors.kafka import KafkaCollector, KafkaSettings
from collectors.replay import read_batches
from collectors.span import SpanBatch

ROOT = Path(__file__).resolve().parents[2]
PACKED = "packed" * 50
"""Long enough that a producer finds it worth compressing."""


class Sink:
    """Takes batches, and finishes each at once unless it is told to keep the receipts."""

    def __init__(self, keep: bool = False) -> None:
        self.full = False
        self.keep = keep
        self.batches: list[SpanBatch] = []
        self.fault: Exception | None = None

    def offer(self, batch: SpanBatch) -> bool:
        if self.fault is not None:
            raise self.fault
        if self.full:
            return False
        self.batches.append(batch)
        if not self.keep:
            assert batch.receipt is not None
            batch.receipt.release()
        return True

    @property
    def names(self) -> list[str]:
        return [span.name for batch in self.batches for span in batch.spans]


class Balky(Sink):
    """Is full every fifth time."""

    def __init__(self) -> None:
        super().__init__()
        self._offers = 0

    def offer(self, batch: SpanBatch) -> bool:
        self._offers += 1
        return self._offers % 5 != 0 and super().offer(batch)


class Noted(NullEvents):
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lags: dict[tuple[str, int], int] = {}
        self.commits: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        self.rebalances: list[tuple[int, int]] = []

    def received(self, source: str, spans: int) -> None:
        self.counts["received"] += spans

    def rejected(self, source: str, reason: str, count: int = 1) -> None:
        self.counts[reason] += count

    def held_back(self, source: str) -> None:
        self.counts["held back"] += 1

    def dead_lettered(self, source: str, reason: str) -> None:
        self.counts[f"dead {reason}"] += 1

    def lag(self, topic: str, partition: int, records: int) -> None:
        self.lags[topic, partition] = records

    def committed(self, topic: str, partition: int, offset: int) -> None:
        self.commits[topic, partition].append(offset)

    def rebalanced(self, assigned: int, revoked: int) -> None:
        self.rebalances.append((assigned, revoked))


class Bench:
    """Collectors of one group on one broker, and what they noted."""

    def __init__(self, broker: Broker, tmp_path: Path) -> None:
        self.broker = broker
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.path = tmp_path / "dead.jsonl"
        self.events = Noted()
        self.failures: list[BaseException] = []

    def collector(self, sink: Sink, *topics: str, **settings: Any) -> KafkaCollector:
        made = KafkaSettings(
            bootstrap_servers=(self.broker.bootstrap,),
            topics=topics,
            group_id=self.group,
            commit_interval_s=0.2,
            **settings,
        )
        letters = FileDeadLetters(DeadLetterSettings(path=self.path))
        return KafkaCollector(made, sink, letters, self.events, on_failure=self.failures.append)


@pytest.fixture
def bench(broker: Broker, tmp_path: Path) -> Bench:
    return Bench(broker, tmp_path)


def until(true: Callable[[], object], deadline_s: float = 25.0) -> None:
    ends = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < ends, "it did not come to be in time"
        time.sleep(0.05)


def message(*names: str) -> bytes:
    made = ExportTraceServiceRequest()
    scope = made.resource_spans.add().scope_spans.add()
    for number, name in enumerate(names, start=1):
        scope.spans.add(trace_id=b"\1" * 16, span_id=number.to_bytes(8, "big"), name=name)
    return made.SerializeToString()


@pytest.mark.part("shared")
def test_what_collectors_wrote_is_read_as_the_services_sent_it(bench: Bench, shared: Path) -> None:
    """Three forms of record, byte for byte, hold the spans that stand in the captures they were made from."""
    folders = sorted((shared / "fixtures/otlp/kafka").iterdir())
    topics = [bench.broker.topic(partitions=6) for _ in folders]
    records = [recorded(folder) for folder in folders]
    for topic, some in zip(topics, records, strict=True):
        bench.broker.produce(topic, some)
    sink = Sink()
    with bench.collector(sink, *topics):
        until(lambda: len(sink.batches) == sum(map(len, records)))
    captured = {
        (span.trace_id, span.span_id): span
        for batch in read_batches([shared / "fixtures/otlp"], on_skipped=lambda _: None)
        for span in batch.spans
    }
    seen = [span for batch in sink.batches for span in batch.spans]
    known = [(span, captured[key]) for span in seen if (key := (span.trace_id, span.span_id)) in captured]
    assert len(known) > 100
    for span, original in known:
        assert (span.name, span.parent_id) == (original.name, original.parent_id)
        assert (span.start_ns, span.end_ns) == (original.start_ns, original.end_ns)
        assert span.attributes == original.attributes
    assert bench.events.counts == {"received": len(seen)}
    assert {batch.source for batch in sink.batches} == {"kafka"}


def test_a_poisoned_partition_moves_on(bench: Bench) -> None:
    topic = bench.broker.topic()
    values = [
        message("a"),
        b"welcome techworld",
        None,
        b"",
        message("b"),
        b'{"operationName": "x"}',
        message("c"),
    ]
    bench.broker.produce(topic, [Record(0, value) for value in values])
    sink = Sink()
    with bench.collector(sink, topic):
        until(lambda: bench.events.commits[topic, 0][-1:] == [7])
        until(lambda: bench.events.lags.get((topic, 0)) == 0)
    assert sink.names == ["a", "b", "c"]
    letters = [letter for letter in read(bench.path) if isinstance(letter, DeadLetter)]
    assert [(letter.offset, letter.reason, letter.raw) for letter in letters] == [
        (1, Reason.NOT_OTLP, values[1]),
        (5, Reason.JAEGER_JSON, values[5]),
    ]
    assert {(letter.topic, letter.partition, letter.source) for letter in letters} == {(topic, 0, "kafka")}
    assert bench.events.counts == {"received": 3, "dead not_otlp": 1, "dead jaeger_json": 1}
    assert bench.broker.committed(bench.group, topic) == 7


def test_a_letter_that_cannot_be_kept_is_counted_and_the_partition_moves_on(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    bench.path = tmp_path / "file" / "dead.jsonl"
    topic = bench.broker.topic()
    bench.broker.produce(topic, [Record(0, b"welcome techworld"), Record(0, message("a"))])
    with bench.collector(Sink(), topic):
        until(lambda: bench.events.commits[topic, 0][-1:] == [2])
    assert bench.events.counts == {"received": 1, "not_otlp": 1}


def test_nothing_is_committed_beyond_the_oldest_unfinished_record(bench: Bench) -> None:
    topic = bench.broker.topic()
    bench.broker.produce(topic, [Record(0, message(name)) for name in "abcde"])
    sink = Sink(keep=True)
    with bench.collector(sink, topic):
        until(lambda: len(sink.batches) == 5)
        receipts = [batch.receipt for batch in sink.batches]
        assert all(receipts)
        for number in (0, 1, 3, 4):
            receipts[number].release()  # type: ignore[union-attr]
        until(lambda: bench.events.commits[topic, 0] == [2])
        until(lambda: bench.events.lags.get((topic, 0)) == 3)
    assert bench.broker.committed(bench.group, topic) == 2
    receipts[2].release()  # type: ignore[union-attr]
    again = Sink()
    with bench.collector(again, topic):
        until(lambda: len(again.batches) == 3)
    assert again.names == ["c", "d", "e"]
    assert bench.broker.committed(bench.group, topic) == 5


def test_a_full_sink_pauses_and_keeps_its_membership(bench: Bench) -> None:
    topic = bench.broker.topic(partitions=2)
    sink = Sink()
    with bench.collector(sink, topic):
        bench.broker.produce(topic, [Record(0, message("first"))])
        until(lambda: sink.names == ["first"])
        sink.full = True
        bench.broker.produce(topic, [Record(number % 2, message(str(number))) for number in range(200)])
        until(lambda: bench.events.counts["held back"] == 2)
        time.sleep(7.5)  # longer than the session that silence would end
        bench.broker.produce(topic, [Record(0, message("late"))])
        sink.full = False
        until(lambda: len(sink.batches) == 202)
    assert Counter(sink.names) == Counter(["first", "late", *map(str, range(200))])
    evens = [int(name) for name in sink.names if name.isdigit() and int(name) % 2 == 0]
    assert evens == sorted(evens), "a partition keeps its order"
    assert [assigned for assigned, _ in bench.events.rebalances if assigned] == [2], "joined once"
    assert [bench.broker.committed(bench.group, topic, number) for number in (0, 1)] == [102, 100]


def test_a_sink_that_is_full_again_and_again_stalls_no_partition(bench: Bench) -> None:
    """More was fetched than one poll gives: what the client holds of a paused partition must come when it goes on."""
    topic = bench.broker.topic(partitions=3)
    bench.broker.produce(topic, [Record(number % 3, message(str(number))) for number in range(300)])
    sink = Balky()
    with bench.collector(sink, topic, max_poll_records=7):
        until(lambda: len(sink.batches) == 300)
        until(lambda: all(bench.events.commits[topic, number][-1:] == [100] for number in range(3)))
    assert bench.events.counts["held back"] > 10
    assert Counter(sink.names) == Counter(map(str, range(300)))


def test_a_second_member_takes_its_share_and_nothing_is_lost(bench: Bench) -> None:
    topic = bench.broker.topic(partitions=2)
    first, second = Sink(keep=True), Sink()
    bench.broker.produce(topic, [Record(number % 2, message(str(number))) for number in range(20)])
    with bench.collector(first, topic):
        until(lambda: len(first.batches) == 20)
        with bench.collector(second, topic):
            until(lambda: len(second.batches) >= 10)
            assert len(bench.events.rebalances) >= 3
            # What the first still held is the second's now: that it finishes late commits nothing.
            for batch in first.batches[:20]:
                assert batch.receipt is not None
                batch.receipt.release()
            # What stays is still the first's to finish.
            until(
                lambda: [bench.broker.committed(bench.group, topic, number) for number in (0, 1)] == [10, 10]
            )
            bench.broker.produce(
                topic, [Record(number % 2, message(f"late {number}")) for number in range(20)]
            )
            first.keep = False
            until(lambda: {f"late {number}" for number in range(20)} <= {*first.names, *second.names})
    early = Counter(name for name in first.names if name.isdigit())
    assert early == Counter(str(number) for number in range(20)), (
        "what stays with its owner is not read again"
    )
    moved = {name for name in second.names if name.isdigit()}
    assert moved in ({str(number) for number in range(0, 20, 2)}, {str(number) for number in range(1, 20, 2)})
    assert bench.failures == []


_MEMBER = """
import sys, time
from pathlib import Path
from collectors.dead_letter import DeadLetterSettings, FileDeadLetters
from collectors.kafka import KafkaCollector, KafkaSettings

class Slow:
    def offer(self, batch):
        time.sleep(0.01)
        for span in batch.spans:
            print(span.name, flush=True)
        batch.receipt.release()
        return True

bootstrap, topic, group, path = sys.argv[1:]
settings = KafkaSettings(
    bootstrap_servers=(bootstrap,), topics=(topic,), group_id=group, commit_interval_s=0.2, max_poll_records=10
)
letters = FileDeadLetters(DeadLetterSettings(path=Path(path)))
with KafkaCollector(settings, Slow(), letters, on_failure=print):
    time.sleep(60)
"""


def test_a_killed_member_loses_nothing(bench: Bench) -> None:
    topic = bench.broker.topic(partitions=2)
    everything = {str(number) for number in range(400)}
    bench.broker.produce(topic, [Record(number % 2, message(str(number))) for number in range(400)])
    arguments = [bench.broker.bootstrap, topic, bench.group, str(bench.path)]
    member = subprocess.Popen(
        [sys.executable, "-c", _MEMBER, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert member.stdout is not None
    killed: list[str] = []
    while len(killed) < 150:
        killed.append(member.stdout.readline().strip())
    member.kill()
    rest, _ = member.communicate()
    killed += rest.split()
    survivor = Sink()
    with bench.collector(survivor, topic):
        until(lambda: everything <= {*killed, *survivor.names})
        until(
            lambda: (
                bench.events.commits[topic, 0][-1:] == [200] and bench.events.commits[topic, 1][-1:] == [200]
            )
        )
    assert len(killed) < 400
    assert len(survivor.batches) < 400, "what was committed before the kill is not read again"


def test_a_member_by_name_comes_back_without_moving_a_partition(bench: Bench) -> None:
    topic = bench.broker.topic(partitions=2)
    sinks = [Sink(), Sink()]
    with bench.collector(sinks[0], topic, group_instance_id="pod-0"):
        with bench.collector(sinks[1], topic, group_instance_id="pod-1"):
            until(lambda: bench.events.rebalances.count((1, 0)) >= 1)
            bench.broker.produce(topic, [Record(number % 2, message(f"a{number}")) for number in range(10)])
            until(lambda: sum(len(sink.batches) for sink in sinks) == 10)
            until(lambda: all(sink.batches for sink in sinks))
        moved = len(bench.events.rebalances)
        with bench.collector(sinks[1], topic, group_instance_id="pod-1"):
            bench.broker.produce(topic, [Record(number % 2, message(f"b{number}")) for number in range(10)])
            until(lambda: sum(len(sink.batches) for sink in sinks) == 20)
            assert [len(sink.batches) for sink in sinks] == [10, 10]
        # The one that stopped gave up what it had, took it again, and gave it up: the other was never asked.
        assert len(bench.events.rebalances) - moved <= 3
    assert bench.failures == []


@pytest.mark.parametrize("early", [True, False])
def test_a_new_group_starts_at_a_time(bench: Bench, early: bool) -> None:
    """The time is that at which the broker had the record, one record a batch: so this broker keeps its index."""
    topic = bench.broker.topic(partitions=2)
    for name in ("0", "1"):
        bench.broker.produce(topic, [Record(0, message(name))])
    time.sleep(0.05)
    start_at = datetime.now(UTC)
    for name in ("2", "3") if early else ():
        bench.broker.produce(topic, [Record(0, message(name))])
    sink = Sink()
    with bench.collector(sink, topic, start_at=start_at):
        until(lambda: sum(assigned for assigned, _ in bench.events.rebalances) == 2)
        bench.broker.produce(topic, [Record(0, message("now")), Record(1, message("there"))])
        seen = {*(["2", "3"] if early else []), "now", "there"}
        until(lambda: set(sink.names) == seen)
        until(lambda: bench.events.commits[topic, 0][-1:] == [5 if early else 3])
    again = Sink()
    with bench.collector(again, topic, start_at=start_at - timedelta(days=1)):
        bench.broker.produce(topic, [Record(0, message("after"))])
        until(lambda: again.names == ["after"])


def test_a_new_group_may_start_at_the_latest(bench: Bench) -> None:
    topic = bench.broker.topic()
    bench.broker.produce(topic, [Record(0, message("before"))])
    sink = Sink()
    with bench.collector(sink, topic, auto_offset_reset="latest"):
        until(lambda: bench.events.rebalances)
        numbers = iter(range(1_000))

        def something_is_read() -> bool:  # the end is asked for some time after the partition is ours
            bench.broker.produce(topic, [Record(0, message(str(next(numbers))))])
            return bool(sink.names)

        until(something_is_read)
    assert "before" not in sink.names


def test_every_compression_of_producers_is_read(bench: Bench) -> None:
    topic = bench.broker.topic()
    codecs = ["gzip", "snappy", "lz4", "zstd"]
    for codec in codecs:
        bench.broker.produce(topic, [Record(0, message(codec * 100))] * 2, compression_type=codec)
    sink = Sink()
    with bench.collector(sink, topic):
        until(lambda: sink.names == [codec * 100 for codec in codecs for _ in range(2)])


def test_a_partition_that_no_codec_unpacks_waits_and_the_others_go_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = bench.broker.topic(partitions=2)
    monkeypatch.setattr(kafka_faults, "ASIDE_S", 1.0)
    bench.broker.produce(topic, [Record(0, message(PACKED))], compression_type="lz4")
    sink = Sink()
    with monkeypatch.context() as without:
        without.setattr(kafka.codec, "lz4", None)
        without.setattr(kafka.codec, "lz4f", None)
        without.setattr(kafka.codec, "lz4framed", None)
        with bench.collector(sink, topic):
            until(lambda: bench.events.counts["unreadable_batch"] >= 1)
            bench.broker.produce(topic, [Record(1, message(name)) for name in "abc"])
            until(lambda: sink.names == ["a", "b", "c"])
            until(lambda: bench.events.counts["unreadable_batch"] >= 2)
            until(lambda: bench.events.commits[topic, 1][-1:] == [3])
            assert bench.events.commits[topic, 0] == [], "nothing of it is skipped"
            without.undo()
            until(lambda: sink.names == ["a", "b", "c", PACKED])
    assert bench.failures == []
    assert bench.broker.committed(bench.group, topic, 0) == 1


def test_what_finishes_after_it_fell_quiet_is_committed_and_nothing_more_is_read(bench: Bench) -> None:
    topic = bench.broker.topic()
    bench.broker.produce(topic, [Record(0, message(name)) for name in "ab"])
    sink = Sink(keep=True)
    with bench.collector(sink, topic) as collector:
        until(lambda: len(sink.batches) == 2)
        collector.quiesce()
        collector.quiesce()
        time.sleep(0.5)
        bench.broker.produce(topic, [Record(0, message("late"))])
        time.sleep(1.0)
        assert sink.names == ["a", "b"]
        for batch in sink.batches:
            assert batch.receipt is not None
            batch.receipt.release()
    assert bench.broker.committed(bench.group, topic) == 2
    again = Sink()
    with bench.collector(again, topic):
        until(lambda: again.names == ["late"])
    assert bench.failures == []


def test_topics_by_pattern(bench: Bench) -> None:
    prefix = f"team-{uuid.uuid4().hex[:8]}"
    for name in ("a", "b"):
        topic = bench.broker.topic(name=f"{prefix}-{name}")
        bench.broker.produce(topic, [Record(0, message(name))])
    sink = Sink()
    with bench.collector(sink, topic_pattern=f"^{prefix}-.*"):
        until(lambda: sorted(sink.names) == ["a", "b"])


def test_a_broker_that_comes_up_later_is_waited_for(tmp_path: Path) -> None:
    late = Broker(free_port())
    bench = Bench(late, tmp_path)
    sink = Sink()
    with bench.collector(sink, "spans") as collector:
        time.sleep(0.5)
        with late:
            late.topic(name="spans")
            late.produce("spans", [Record(0, message("a"))])
            until(lambda: sink.names == ["a"])
            collector.stop()
    assert bench.failures == []


def test_a_broker_that_stays_away_is_asked_for_less_and_less_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(Broker(free_port()), tmp_path)

    def waits() -> list[str]:
        return [
            record.getMessage().rpartition("next try in ")[2]
            for record in caplog.records
            if "no broker at" in record.getMessage()
        ]

    with bench.collector(Sink(), "spans") as collector:
        until(lambda: len(waits()) >= 3)
        collector.stop()
    assert waits()[:3] == ["1 s", "2 s", "4 s"]


def test_a_collector_that_found_no_broker_stops_soon(tmp_path: Path) -> None:
    bench = Bench(Broker(free_port()), tmp_path)
    collector = bench.collector(Sink(), "spans")
    collector.start()
    began = time.monotonic()
    collector.stop(10)
    assert time.monotonic() - began < 8
    assert bench.failures == []


def test_an_unexpected_failure_is_told(bench: Bench) -> None:
    topic = bench.broker.topic()
    bench.broker.produce(topic, [Record(0, message("a"))])
    sink = Sink()
    sink.fault = ZeroDivisionError("defect")
    with bench.collector(sink, topic):
        until(lambda: bench.failures)
    assert bench.failures == [sink.fault]
    assert bench.broker.committed(bench.group, topic) is None


def test_starting_and_stopping_twice_is_harmless(bench: Bench) -> None:
    topic = bench.broker.topic()
    idle = bench.collector(Sink(), topic)
    idle.stop()
    collector = bench.collector(Sink(), topic)
    collector.start()
    collector.start()
    assert [thread.name for thread in threading.enumerate()].count("kafka") == 1
    collector.stop()
    collector.stop()
    assert bench.failures == []
