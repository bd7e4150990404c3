"""Dead letters in a Kafka topic: the raw bytes as the value, everything else in the headers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from kafka import TopicPartition
from kafka import errors as kafka_errors

from collectors.dead_letter import DeadLetter, DeadLetterSink
from collectors.errors import Reason
from collectors.kafka_client import producer, reader
from collectors.kafka_settings import KafkaConnectionSettings
from collectors.redrive import RedriveFailed

_log = logging.getLogger(__name__)

_MOST_BYTES = 64 * 2**20
"""Of one record; the broker's own cap is usually far lower, and what is over it goes to the file."""
_ANSWER_S = 10.0
_REST_S = 30.0
"""How long the file is used alone after the topic did not answer: each try would hold the reading thread up."""
_POLL_MS = 500
_REDRIVEN = "groundwatch-redriven"


@dataclass(slots=True, frozen=True)
class UnreadableRecord:
    """A record of the topic that is no dead letter of ours."""

    topic: str
    partition: int
    offset: int
    detail: str

    def __str__(self) -> str:
        return (
            f"{self.topic} partition {self.partition} offset {self.offset} is no dead letter: {self.detail}"
        )


class TopicLetters:
    """Keeps dead letters in a topic, each acknowledged by all replicas in sync before `put` answers; what the topic
    does not take (too large, no broker, no such topic) `other` keeps."""

    def __init__(
        self,
        connection: KafkaConnectionSettings,
        topic: str,
        other: DeadLetterSink,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._other = other
        self._clock = clock
        self._producer: Any = None
        self._rest_until = 0.0
        self._lock = threading.Lock()

    def start(self) -> None:
        """Nothing: the connection is made with the first letter, of which there may never be one."""

    def stop(self, deadline_s: float = 10.0) -> None:
        """Close the connection; a later letter makes a new one."""
        with self._lock:
            if self._producer is not None:
                self._producer.close(timeout=deadline_s)
                self._producer = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def put(
        self,
        raw: bytes,
        reason: Reason,
        detail: str,
        source: str,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> bool:
        """Send the message to the topic. See `DeadLetterSink.put`."""
        now = self._clock()
        letter = DeadLetter(now, source, reason, detail, raw, topic, partition, offset)
        with self._lock:
            if now >= self._rest_until and self._sent(letter, now):
                return True
        return self._other.put(raw, reason, detail, source, topic, partition, offset)

    def _sent(self, letter: DeadLetter, now: float) -> bool:
        try:
            if self._producer is None:
                self._producer = producer(self._connection, _MOST_BYTES)
            key = f"{letter.topic}/{letter.partition}/{letter.offset}".encode()
            sending = self._producer.send(self._topic, value=letter.raw, key=key, headers=_headers(letter))
            sending.get(timeout=_ANSWER_S)
        except kafka_errors.MessageSizeTooLargeError as error:
            _log.warning("a dead letter of %d bytes goes to the file: %s", len(letter.raw), error)
            return False
        except Exception as error:  # whatever the client raises, the stream goes on
            _log.error("dead letters go to the file for %g s: %s: %s", _REST_S, type(error).__name__, error)
            self._rest_until = now + _REST_S
            return False
        return True


def read_topic(connection: KafkaConnectionSettings, topic: str) -> Iterator[DeadLetter | UnreadableRecord]:
    """The letters that the topic holds now, partition by partition. Raises `OSError` where no broker answers."""
    client = reader(connection)
    try:
        partitions = [
            TopicPartition(topic, number) for number in sorted(client.partitions_for_topic(topic) or ())
        ]
        client.assign(partitions)
        ends = client.end_offsets(partitions)
        for partition in partitions:
            client.pause(*partitions)
            client.resume(partition)
            client.seek_to_beginning(partition)
            while client.position(partition) < ends[partition]:
                for record in client.poll(timeout_ms=_POLL_MS).get(partition, ()):
                    yield _letter(record)
    finally:
        client.close()


class TopicTarget:
    """Puts letters back into a topic, byte for byte: the given one, else that which each came from."""

    def __init__(self, connection: KafkaConnectionSettings, topic: str | None) -> None:
        self._topic = topic
        self._producer = producer(connection, _MOST_BYTES)

    def close(self) -> None:
        """Let go of the brokers."""
        self._producer.close()

    def send(self, letter: DeadLetter, _is_logs: bool) -> str:
        """Send one; gives where it went. Raises `RedriveFailed`."""
        topic = self._topic or letter.topic
        if topic is None:
            raise RedriveFailed("it came from no topic, and none was named")
        try:
            headers = [(_REDRIVEN, letter.id.encode())]
            found = self._producer.send(topic, value=letter.raw, headers=headers).get(timeout=_ANSWER_S)
        except Exception as error:
            raise RedriveFailed(f"{topic}: {type(error).__name__}: {error}") from error
        return f"{topic} partition {found.partition} offset {found.offset}"


def _headers(letter: DeadLetter) -> list[tuple[str, bytes]]:
    members = {
        "time": repr(letter.time),
        "source": letter.source,
        "reason": str(letter.reason),
        "detail": letter.detail,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
    }
    return [
        (name, str(value).encode("utf-8", "surrogatepass"))
        for name, value in members.items()
        if value is not None
    ]


def _letter(record: Any) -> DeadLetter | UnreadableRecord:
    found = {
        name: value.decode("utf-8", "replace") for name, value in record.headers or () if value is not None
    }
    try:
        return DeadLetter(
            float(found["time"]),
            found["source"],
            found["reason"],
            found["detail"],
            record.value or b"",
            found.get("topic"),
            int(found["partition"]) if "partition" in found else None,
            int(found["offset"]) if "offset" in found else None,
        )
    except (KeyError, ValueError) as error:
        detail = f"{type(error).__name__}: {error}"
        return UnreadableRecord(record.topic, record.partition, record.offset, detail)
