"""What a collector tells whoever counts: every span and message has an outcome here, none is silent."""

from __future__ import annotations

from typing import Protocol

from collectors.span import SpanBatch

ORDINARY_LOG = "ordinary_log"
"""Counts log records that tell of no request: taken from their sender, who is not told, and left alone."""


class CollectorEvents(Protocol):
    """Counts what collectors do. Called from several threads at once; must be quick and must not raise.

    `source` is the collector's name: `otlp_grpc`, `otlp_http`, `kafka`, `replay`.
    """

    def received(self, source: str, spans: int) -> None:
        """This many spans were taken by the sink."""
        ...

    def rejected(self, source: str, reason: str, count: int = 1) -> None:
        """This many spans (`SpanReason`) or one whole message (`Reason`) were refused: the sender was told,
        or, on Kafka, could not be kept."""
        ...

    def held_back(self, source: str) -> None:
        """The sink was full: the source was told to wait (UNAVAILABLE, 503, a paused partition)."""
        ...

    def dead_lettered(self, source: str, reason: str) -> None:
        """A message went to the dead letters."""
        ...

    def lag(self, topic: str, partition: int, records: int) -> None:
        """Records of a partition that are not yet finished here, read or not."""
        ...

    def committed(self, topic: str, partition: int, offset: int) -> None:
        """The group's offset of a partition: the next record to read after a restart."""
        ...

    def commit_failed(self, reason: str) -> None:
        """An offset commit did not go through; it is tried again."""
        ...

    def rebalanced(self, assigned: int, revoked: int) -> None:
        """The group moved partitions: so many came here, so many went."""
        ...


class NullEvents:
    """Counts nothing."""

    def received(self, source: str, spans: int) -> None: ...

    def rejected(self, source: str, reason: str, count: int = 1) -> None: ...

    def held_back(self, source: str) -> None: ...

    def dead_lettered(self, source: str, reason: str) -> None: ...

    def lag(self, topic: str, partition: int, records: int) -> None: ...

    def committed(self, topic: str, partition: int, offset: int) -> None: ...

    def commit_failed(self, reason: str) -> None: ...

    def rebalanced(self, assigned: int, revoked: int) -> None: ...


def count_taken(events: CollectorEvents, source: str, batch: SpanBatch) -> None:
    """Count a batch that the sink has taken, and the spans that were refused in it."""
    if batch.spans:
        events.received(source, len(batch.spans))
    for rejection in batch.rejected:
        events.rejected(source, rejection.reason)
    if batch.ignored:
        events.rejected(source, ORDINARY_LOG, batch.ignored)
