"""Spans from Kafka topics, at least once: an offset is committed when everything below it is finished.

One thread polls, decodes, offers and commits. What is held back stays paused while the thread keeps polling, so that
membership of the group is kept. A record that cannot be read goes to the dead letters and the offset moves on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from kafka import ConsumerRebalanceListener, TopicPartition
from kafka import errors as kafka_errors

from collectors.dead_letter import DeadLetterSink
from collectors.errors import Reason, Undecodable
from collectors.events import CollectorEvents, NullEvents, count_taken
from collectors.kafka_client import FORBIDDEN, NOT_THERE_YET, consumer, metadata
from collectors.kafka_faults import Records, SetAside, mended
from collectors.kafka_settings import KafkaSettings
from collectors.otlp import Limits, decode
from collectors.span import Receipt, SpanBatch, SpanSink
from collectors.watermark import Watermark

__all__ = ["KafkaCollector", "KafkaSettings"]

_log = logging.getLogger(__name__)

SOURCE = "kafka"
_POLL_MS, _HELD_POLL_MS = 200, 50
_COMMIT_MS = 5_000
_RECONNECT_S, _RECONNECT_MOST_S = 1.0, 15.0


class KafkaCollector:
    """Reads a consumer group's share of the topics and offers it to the sink.

    Each record's batch carries a `Receipt` with one hold, which goes to the sink with the batch: whoever has taken a
    batch releases it (and may hold it further before that). The offset is committed below the oldest record whose
    receipt is not finished. What a partition still held when the group took it away is its next owner's: it is read
    there again, and finishes that come late mean nothing.

    It stops in two steps, since what was read is finished downstream: after `quiesce` nothing more is read or offered,
    but what finishes is still committed; `stop` commits the last of it and leaves the group.

    `on_failure` hears of whatever ends the thread but `stop`. A broker that is not there yet is waited for.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        sink: SpanSink,
        dead_letters: DeadLetterSink,
        events: CollectorEvents | None = None,
        *,
        on_failure: Callable[[BaseException], None],
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._sink = sink
        self._dead_letters = dead_letters
        self._events = events or NullEvents()
        self._on_failure = on_failure
        self._limits = limits or Limits()
        self._clock = clock
        self._watermark = Watermark[TopicPartition]()
        self._held: dict[TopicPartition, deque[Any]] = {}
        self._aside = SetAside(partial(self._events.rejected, SOURCE, Reason.UNREADABLE_BATCH), clock)
        self._unplaced: set[TopicPartition] = set()
        self._quiet = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read; harmless when it was started before."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=SOURCE, daemon=True)
            self._thread.start()

    def quiesce(self) -> None:
        """Read nothing more; keep the membership, and commit what finishes, until `stop`."""
        self._quiet.set()

    def stop(self, deadline_s: float = 10.0) -> None:
        """Stop reading, commit what is finished and leave the group, for at most so many seconds."""
        self._quiet.set()
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(deadline_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            client = self._connected()
            if client is None:
                return
            try:
                self._read(client)
                self._commit(client)
            finally:
                client.close(autocommit=False)
        except Exception as error:
            _log.exception("reading from Kafka ended")
            self._on_failure(error)

    def _connected(self) -> Any | None:
        """A consumer that has joined nothing yet; None where we are stopped before a broker answers."""
        wait_s = _RECONNECT_S
        while not self._stopping.is_set():
            try:
                client = mended(consumer(self._settings))
            except NOT_THERE_YET as error:
                brokers = ", ".join(self._settings.bootstrap_servers)
                _log.warning("no broker at %s yet: %s; next try in %g s", brokers, error, wait_s)
                self._stopping.wait(wait_s)
                wait_s = min(2.0 * wait_s, _RECONNECT_MOST_S)
                continue
            listener = _Listener(self, client)
            if self._settings.topic_pattern is not None:
                client.subscribe(pattern=self._settings.topic_pattern, listener=listener)
            else:
                client.subscribe(topics=list(self._settings.topics), listener=listener)
            return client
        return None

    def _read(self, client: Any) -> None:
        commit_at = self._clock() + self._settings.commit_interval_s
        while not self._stopping.is_set():
            if self._quiet.is_set():
                self._idle(client)
            else:
                self._take(client)
            if self._clock() >= commit_at:
                self._commit(client)
                self._report_lag(client)
                commit_at = self._clock() + self._settings.commit_interval_s

    def _idle(self, client: Any) -> None:
        """Remain a member. What is polled all the same, of a partition that came just now, is not tracked: it is read
        again."""
        self._held.clear()
        if awake := client.assignment() - client.paused():
            client.pause(*awake)
        client.poll(timeout_ms=_HELD_POLL_MS)

    def _take(self, client: Any) -> None:
        for partition, pending in list(self._held.items()):
            self._feed(client, partition, pending)
        polled = self._aside.poll(client, _HELD_POLL_MS if self._held else _POLL_MS)
        if self._unplaced:
            self._place(client, polled)
        for partition, records in polled.items():
            self._feed(client, partition, deque(records))
        # What was held when it was taken from us and has been given back since, or was aside for long enough.
        if stray := client.paused() - self._held.keys() - self._aside.partitions():
            client.resume(*stray)

    def _place(self, client: Any, polled: Records) -> None:
        """Begin the partitions that have no committed offset at the wished time; what was polled of them is dropped."""
        wanted, self._unplaced = self._unplaced & client.assignment(), set()
        start_at = self._settings.start_at
        new = [partition for partition in wanted if client.committed(partition) is None]
        if start_at is None or not new:
            return
        start_ms = int(start_at.timestamp() * 1000)
        ends = client.end_offsets(new)  # first: what comes after is found by its time
        found = client.offsets_for_times(dict.fromkeys(new, start_ms))
        for partition in new:
            polled.pop(partition, None)
            at = found.get(partition)
            known = at is not None and at.timestamp >= start_ms
            client.seek(partition, at.offset if known else ends[partition])

    def _feed(self, client: Any, partition: TopicPartition, pending: deque[Any]) -> None:
        """Offer what is pending, in order; where the sink is full, pause the partition and keep the rest."""
        while pending and not self._quiet.is_set():
            item = pending[0]
            batch = item if isinstance(item, SpanBatch) else self._batch(partition, item)
            if batch is not None:
                if not self._sink.offer(batch):
                    pending[0] = batch
                    self._hold(client, partition, pending)
                    return
                count_taken(self._events, SOURCE, batch)
            pending.popleft()
        if self._held.pop(partition, None) is not None:
            client.resume(partition)

    def _hold(self, client: Any, partition: TopicPartition, pending: deque[Any]) -> None:
        if partition not in self._held:
            self._held[partition] = pending
            client.pause(partition)
            self._events.held_back(SOURCE)

    def _batch(self, partition: TopicPartition, record: Any) -> SpanBatch | None:
        """What the record holds; None where there is nothing to offer, and the record is finished."""
        finish = self._watermark.track(partition, record.offset)
        try:
            batch = decode(record.value or b"", self._limits)
        except Undecodable as refused:
            self._bury(record, refused)
        else:
            if batch.spans:
                return replace(batch, receipt=Receipt(finish), source=SOURCE)
            count_taken(self._events, SOURCE, batch)
        finish()
        return None

    def _bury(self, record: Any, refused: Undecodable) -> None:
        kept = self._dead_letters.put(
            record.value,
            refused.reason,
            refused.detail,
            SOURCE,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )
        if kept:
            self._events.dead_lettered(SOURCE, refused.reason)
        else:
            self._events.rejected(SOURCE, refused.reason)

    def _commit(self, client: Any) -> None:
        offsets = self._watermark.committable()
        if not offsets:
            return
        try:
            client.commit(metadata(offsets), timeout_ms=_COMMIT_MS)
        except FORBIDDEN:
            raise
        except kafka_errors.KafkaError as error:  # a rebalance or a broker gone: tried again, or read again
            self.commit_ended(offsets, error)
        else:
            self.commit_ended(offsets, None)

    def commit_ended(self, offsets: dict[TopicPartition, int], error: BaseException | None) -> None:
        """Note how a commit ended."""
        if error is not None:
            _log.warning("offsets were not committed: %s", error)
            self._events.commit_failed(type(error).__name__)
            return
        self._watermark.mark_committed(offsets)
        for partition, offset in offsets.items():
            self._events.committed(partition.topic, partition.partition, offset)

    def _report_lag(self, client: Any) -> None:
        for partition in client.assignment():
            end = client.highwater(partition)
            if end is None:
                continue  # nothing was fetched of it yet
            position = self._watermark.position(partition)
            if position is None:
                position = client.position(partition)
            if position is not None:
                self._events.lag(partition.topic, partition.partition, max(0, end - position))

    def give_up(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Forget what these partitions held; what of it may still be committed is returned."""
        offsets = {tp: offset for tp, offset in self._watermark.committable().items() if tp in partitions}
        self._watermark.forget(partitions)
        self._aside.forget(partitions)
        for partition in partitions:
            self._held.pop(partition, None)
            self._events.lag(partition.topic, partition.partition, 0)
        if partitions:
            self._events.rebalanced(0, len(partitions))
        return offsets

    def take_over(self, partitions: Collection[TopicPartition]) -> None:
        """Note that these partitions are ours now."""
        if partitions:
            self._events.rebalanced(len(partitions), 0)
        if self._settings.start_at is not None:
            self._unplaced.update(partitions)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Hears of rebalances while the collector's thread waits in `poll` or `close`, never beside it."""

    def __init__(self, collector: KafkaCollector, client: Any) -> None:
        self._collector = collector
        self._client = client

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        offsets = self._collector.give_up(revoked)
        if not offsets:
            return

        def ended(_offsets: object, response: object) -> None:
            self._collector.commit_ended(offsets, response if isinstance(response, BaseException) else None)

        # A commit that blocks is not allowed here; the request goes out before the one to join again.
        self._client.commit_async(metadata(offsets), callback=ended)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self._collector.give_up(lost)  # somebody else owns them already: no commit

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._collector.take_over(assigned)
