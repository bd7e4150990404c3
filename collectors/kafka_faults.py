"""Partitions whose records cannot even be unpacked: they wait, and the others go on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Set
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
    """The client's own, but for faults: there they do not say whose they are, and the next poll never ends, since what
    raised once is asked again and again and gives nothing."""

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


def name_faults(client: Any) -> Any:
    """Have a consumer raise `UnreadableBatch` for what it cannot unpack; gives it back."""
    client._fetcher.PartitionRecords = _Fetched
    return client
