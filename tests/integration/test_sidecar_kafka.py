"""A sidecar that reads Kafka, killed again and again in mid-stream: every request judged, none counted twice."""

from __future__ import annotations

import random
import time
import uuid
from pathlib import Path

import pytest
from broker import Broker, Record
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sidecars import Running

from monitor.store import Store

PARTITIONS = 3


def record(number: int) -> Record:
    """One message: a whole request of two spans, as an exporter sends it."""
    message = ExportTraceServiceRequest()
    scope = message.resource_spans.add().scope_spans.add()
    trace_id = (number + 1).to_bytes(16, "big")  # zero is no trace id
    for index, (kind, name) in enumerate([("CHAIN", "chat"), ("LLM", "llm")]):
        span = scope.spans.add(
            trace_id=trace_id, span_id=(2 * number + index + 1).to_bytes(8, "big"), name=name
        )
        if index:
            span.parent_span_id = (2 * number + 1).to_bytes(8, "big")
        span.start_time_unix_nano = 10**18 + number * 10**6
        span.end_time_unix_nano = span.start_time_unix_nano + 5 * 10**5
        for key, value in {
            "openinference.span.kind": kind,
            "input.value": f"question {number}",
            "output.value": f"answer {number}",
        }.items():
            span.attributes.add(key=key).value.string_value = value
    return Record(number % PARTITIONS, message.SerializeToString(), trace_id.hex().encode())


def request_id(number: int) -> str:
    """The id of that request's trace."""
    return f"{number + 1:032x}:{2 * number + 1:016x}"


def judged(sidecar: Running) -> list[str]:
    """The requests that were counted, by id."""
    with Store.open(sidecar.store) as store:
        return sorted(stored.finding.trace_id for stored in store.findings(since=0, check="latency"))


def survive(kills: int, requests: int, folder: Path, broker: Broker) -> None:
    rng = random.Random(kills)
    topic = broker.topic(partitions=PARTITIONS)
    kafka = {"bootstrap_servers": [broker.bootstrap], "topics": [topic], "group_id": f"g-{uuid.uuid4().hex}"}
    sidecar = Running(
        folder,
        collectors={"kafka": {**kafka, "commit_interval_s": 0.2}, "otlp_http": {"enabled": False}},
        assembly={"answered_wait_s": 0.2, "idle_wait_s": 0.4, "max_wait_s": 2.0},
    )
    batch = requests // (kills + 1)
    try:
        for kill in range(kills + 1):
            sidecar.start()
            broker.produce(topic, [record(number) for number in range(kill * batch, (kill + 1) * batch)])
            if kill < kills:
                before = sidecar.status()["counts"]["spans received"]
                ends = time.monotonic() + 60
                while sidecar.status()["counts"]["spans received"] == before:  # it has joined and reads
                    assert time.monotonic() < ends, sidecar.log.read_text()
                    time.sleep(0.05)
                time.sleep(rng.uniform(0.0, 0.6))
                sidecar.kill()
        total = (kills + 1) * batch
        expected = sorted(map(request_id, range(total)))
        ends = time.monotonic() + 90
        while judged(sidecar) != expected:
            assert time.monotonic() < ends, (len(judged(sidecar)), total, sidecar.log.read_text()[-2000:])
            time.sleep(0.5)
        done = [(total - partition + PARTITIONS - 1) // PARTITIONS for partition in range(PARTITIONS)]
        while [broker.committed(kafka["group_id"], topic, number) for number in range(PARTITIONS)] != done:
            assert time.monotonic() < ends
            time.sleep(0.5)
        assert sidecar.terminate() == 0
    finally:
        sidecar.kill()


def test_two_kills_lose_nothing_and_count_nothing_twice(tmp_path: Path, broker: Broker) -> None:
    survive(2, 300, tmp_path, broker)


@pytest.mark.long
def test_twenty_kills_lose_nothing_and_count_nothing_twice(tmp_path: Path, broker: Broker) -> None:
    survive(20, 4200, tmp_path, broker)


def test_nothing_that_was_judged_is_read_again_after_a_sigterm(tmp_path: Path, broker: Broker) -> None:
    """What the drain finishes is committed: each partition begins again at its first request without a judgement."""
    topic, group = broker.topic(partitions=PARTITIONS), f"g-{uuid.uuid4().hex}"
    kafka = {"bootstrap_servers": [broker.bootstrap], "topics": [topic], "group_id": group}
    sidecar = Running(
        tmp_path,
        # The clock alone would commit nothing of it: only the last step of stopping can.
        collectors={"kafka": {**kafka, "commit_interval_s": 3600.0}, "otlp_http": {"enabled": False}},
        assembly={"answered_wait_s": 0.2, "idle_wait_s": 0.4, "max_wait_s": 2.0},
    )
    total = 1_500
    try:
        sidecar.start()
        broker.produce(topic, [record(number) for number in range(total)])
        sidecar.wait_for("requests judged", 200)
        assert sidecar.terminate() == 0
        done = set(judged(sidecar))
        assert len(done) >= 200
        for partition in range(PARTITIONS):
            numbers = range(partition, total, PARTITIONS)
            left = [number for number in numbers if request_id(number) not in done]
            first = numbers.index(left[0]) if left else len(numbers)
            assert (broker.committed(group, topic, partition) or 0) == first
        sidecar.start()
        ends = time.monotonic() + 60
        while len(again := judged(sidecar)) < total:
            assert time.monotonic() < ends, (len(again), sidecar.log.read_text()[-2000:])
            time.sleep(0.3)
        assert again == sorted(map(request_id, range(total)))
        assert sidecar.terminate() == 0
    finally:
        sidecar.kill()
