"""Which offsets may be committed: per partition, up to the oldest record that is not finished yet."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable
from typing import Generic, TypeVar

Partition = TypeVar("Partition", bound=Hashable)


class _Ledger:
    """The open and finished records of one partition since it was assigned. An old ledger that somebody still holds
    after the partition was forgotten takes its finishes, and nobody reads it any more."""

    __slots__ = ("committed", "finished", "last", "open")

    def __init__(self) -> None:
        self.open: deque[int] = deque()
        self.finished: set[int] = set()
        self.last = -1
        self.committed: int | None = None

    @property
    def next(self) -> int:
        """The first offset that must be read again after a restart."""
        return self.open[0] if self.open else self.last + 1

    def finish(self, offset: int) -> None:
        self.finished.add(offset)
        while self.open and self.open[0] in self.finished:
            self.finished.remove(self.open.popleft())


class Watermark(Generic[Partition]):
    """Tracks records from read to finished and tells how far each partition may be committed. Thread-safe.

    Offsets are those of Kafka: the committed offset is that of the next record to read. They need not be without gaps
    (compaction and transactions leave some), but within one assignment they rise.

    >>> watermark = Watermark[str]()
    >>> first, second = watermark.track("spans-0", 7), watermark.track("spans-0", 8)
    >>> second(); watermark.committable()
    {}
    >>> first(); watermark.committable()
    {'spans-0': 9}
    """

    def __init__(self) -> None:
        self._ledgers: dict[Partition, _Ledger] = {}
        self._lock = threading.Lock()

    def track(self, partition: Partition, offset: int) -> Callable[[], None]:
        """A record was read; call what is returned, once, when it is finished.

        An offset that is not above the last one means that the log was truncated or made anew: what was open is
        forgotten, since its offsets mean other records now.
        """
        with self._lock:
            ledger = self._ledgers.get(partition)
            if ledger is None or offset <= ledger.last:
                ledger = self._ledgers[partition] = _Ledger()
            if ledger.committed is None:
                ledger.committed = offset
            ledger.open.append(offset)
            ledger.last = offset

        def finish() -> None:
            with self._lock:
                ledger.finish(offset)

        return finish

    def committable(self) -> dict[Partition, int]:
        """The offsets that have moved since they were last marked as committed."""
        with self._lock:
            return {
                partition: ledger.next
                for partition, ledger in self._ledgers.items()
                if ledger.next != ledger.committed
            }

    def mark_committed(self, offsets: dict[Partition, int]) -> None:
        """These offsets are with the broker now."""
        with self._lock:
            for partition, offset in offsets.items():
                if partition in self._ledgers:
                    self._ledgers[partition].committed = offset

    def position(self, partition: Partition) -> int | None:
        """The first offset that is not finished; None where no record of the partition was read."""
        with self._lock:
            ledger = self._ledgers.get(partition)
            return None if ledger is None else ledger.next

    def unfinished(self, partition: Partition) -> int:
        """How many records of the partition are open."""
        with self._lock:
            ledger = self._ledgers.get(partition)
            return 0 if ledger is None else len(ledger.open) - len(ledger.finished)

    def forget(self, partitions: Collection[Partition]) -> None:
        """The partitions went to another owner: what was open is his, and finishes that still come mean nothing."""
        with self._lock:
            for partition in partitions:
                self._ledgers.pop(partition, None)
