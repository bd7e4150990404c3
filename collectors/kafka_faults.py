"""Partitions whose records cannot even be unpacked: they wait, and the others go on. And two defects of the client that
would stall a partition for ever, seen in kafka-python 3.0.12."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Set
from functools import partial
from typing import Any

from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher

_log = logging.getLogger(__name__)

ASIDE_S = 30.0
"""How long a partition that cannot be unpacked is left alone before it is tried again."""

Records = dict[TopicPartition, list[Any]]


class UnreadableBatch(Exception):  # noqa: N818 (what it is, not that it happened)
    """Raised out of a consumer's `poll` for one partition: no codec here knows its compression, or it is broken."""

    def __init__(self, partition: TopicPartition, cause: Exception) -> None:
        super().__init__(
            f"{partition.topic} partition {partition.partition}: {type(cause).__name__}: {cause}"
        )
        self.partition = partition


class _Fetched(Fetcher.PartitionRecords):  # type: ignore[misc]
    """Records of one partition as the client fetched them, without two of its defects.

    A fault in them does not say whose it is, and the next poll never ends: what raised once is asked again and again
    and gives nothing. And what is used up stays in the fetcher's one place for records in use; while anything is
    there, those of a partition that was paused are not taken up again, and nothing more of it is fetched.
    """

    def __init__(self, fetcher: Any, *arguments: Any, **options: Any) -> None:
        self._fetcher = fetcher
        super().__init__(*arguments, **options)

    def drain(self) -> None:
        super().drain()
        if self._fetcher._next_partition_records is self:
            self._fetcher._next_partition_records = None

    def take(self, n: int | None = None) -> list[Any]:
        try:
            taken: list[Any] = super().take(n)
        except Exception as error:  # of no common type: whatever a codec raises
            self.drain()
            raise UnreadableBatch(self.topic_partition, error) from error
        return taken


class SetAside:
    """Polls a consumer, and leaves alone for a while what cannot be unpacked.

    Skipping it would lose what another codec may read, and ending would not help: the next start meets it again.
    `on_fault` is called for each time a partition is set aside. One owner: the thread that polls.
    """

    def __init__(self, on_fault: Callable[[], None], clock: Callable[[], float]) -> None:
        self._on_fault = on_fault
        self._clock = clock
        self._until: dict[TopicPartition, float] = {}

    def partitions(self) -> Set[TopicPartition]:
        """Those that are left alone now."""
        now = self._clock()
        self._until = {partition: until for partition, until in self._until.items() if until > now}
        return self._until.keys()

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """They are another member's now."""
        for partition in partitions:
            self._until.pop(partition, None)

    def poll(self, client: Any, timeout_ms: int) -> Records:
        """What the consumer polls; nothing where that set a partition aside."""
        try:
            polled: Records = client.poll(timeout_ms=timeout_ms)
        except UnreadableBatch as fault:
            _log.error("set aside for %g s: %s", ASIDE_S, fault)
            self._until[fault.partition] = self._clock() + ASIDE_S
            client.pause(fault.partition)
            self._on_fault()
            return {}
        return polled


def mended(client: Any) -> Any:
    """The consumer, which raises `UnreadableBatch` for what it cannot unpack and takes up what was paused."""
    client._fetcher.PartitionRecords = partial(_Fetched, client._fetcher)
    return client
