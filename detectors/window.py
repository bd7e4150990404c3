"""A rolling window by time over one check's findings on one slice."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from math import isfinite

from detectors.estimate import Estimate, RunningSums, UnusableValue, mean_from_sums, rate_from_sums
from detectors.finding import Outcome


@dataclass(slots=True, frozen=True)
class _Entry:
    time: float
    value: float | None
    weight: float
    outcome: str


class RollingWindow:
    """The findings of the last `span_s` seconds, at most `max_entries`, with their rate or mean at any
    moment.

    A finding is known by its key: a later `put` of the same key replaces the earlier one, so that a revision
    supersedes what it revises. Times are Unix seconds and need no order, but a time in the future stays until
    it has passed: give arrival times. A step costs O(1), or O(log n) where times come out of order; estimates
    cost O(1) (running sums). Not thread-safe: it has one owner.

    >>> window = RollingWindow(span_s=60.0)
    >>> window.put("a", 0.0, 1.0, 1.0, "scored")
    >>> window.put("b", 50.0, 0.0, 1.0, "scored")
    >>> window.rate().value
    0.5
    >>> window.expire(now=61.0)
    1
    >>> window.rate().value
    0.0
    """

    def __init__(self, span_s: float, max_entries: int = 100_000) -> None:
        if not span_s > 0.0 or max_entries < 1:
            raise ValueError("a window needs a positive span and room for an entry")
        self.span_s = span_s
        self.max_entries = max_entries
        self.evicted = 0
        """How many entries made room for newer ones before their time: the window is shorter than its
        span."""
        self._entries: dict[str, _Entry] = {}
        self._oldest: list[tuple[float, str]] = []
        """A heap of (time, key); items whose entry was replaced are stale and skipped."""
        self._sums = RunningSums()
        self._not_scored: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: str, time: float, value: float | None, weight: float, outcome: str) -> None:
        """Take a finding in. `value` is a number exactly when `outcome` is "scored"; `weight` is 1 /
        inclusion probability.

        Raises UnusableValue, and leaves the window as it was, for what no estimate may hold.
        """
        if not isfinite(time):
            raise UnusableValue(f"time {time} is no moment")
        if (value is None) == (outcome == Outcome.SCORED):
            raise UnusableValue(f"a finding has a value exactly when it is scored, not {outcome}")
        if value is None:
            self.discard(key)
            self._not_scored[outcome] += 1
        else:
            self._sums.add(value, weight)
            self.discard(key)
        self._entries[key] = _Entry(time, value, weight, str(outcome))
        heapq.heappush(self._oldest, (time, key))
        self._make_room()

    def expire(self, now: float) -> int:
        """Forget what is `span_s` old or older at `now`; gives how many that were."""
        before = len(self._entries)
        while self._oldest and self._oldest[0][0] <= now - self.span_s:
            self._pop_oldest()
        return before - len(self._entries)

    def rate(self, confidence: float = 0.95) -> Estimate:
        """The Hajek rate of the scored entries. Raises NoEvidence where there is none."""
        return rate_from_sums(self._sums.sums(), confidence)

    def mean(self, confidence: float = 0.95) -> Estimate:
        """The weighted mean of the scored entries. Raises NoEvidence where there is none."""
        return mean_from_sums(self._sums.sums(), confidence)

    def not_scored(self) -> dict[str, int]:
        """How many entries do not enter the estimate, by outcome; outcomes without entries are left out."""
        return dict(self._not_scored)

    def discard(self, key: str) -> None:
        """Forget a finding before its time; harmless where there is none."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        if entry.value is not None:
            self._sums.remove(entry.value, entry.weight)
            return
        self._not_scored[entry.outcome] -= 1
        if not self._not_scored[entry.outcome]:
            del self._not_scored[entry.outcome]

    def _make_room(self) -> None:
        while len(self._entries) > self.max_entries:
            self.evicted += self._pop_oldest()
        if len(self._oldest) > 2 * len(self._entries) + 16:
            self._oldest = [(entry.time, key) for key, entry in self._entries.items()]
            heapq.heapify(self._oldest)

    def _pop_oldest(self) -> bool:
        """Take the heap's first item off, and its entry where it still is that entry's; gives whether it
        was."""
        time, key = heapq.heappop(self._oldest)
        entry = self._entries.get(key)
        if entry is None or entry.time != time:
            return False
        self.discard(key)
        return True
