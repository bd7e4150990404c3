"""Feedback that came before the request that it is about."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from collectors.feedback import Target
from collectors.span import Receipt, Span


@dataclass(slots=True, frozen=True)
class Waiting:
    """One of them; its message is held meanwhile."""

    span: Span
    target: Target
    receipt: Receipt | None
    came_at: float


class WaitingFeedback:
    """Feedback by what it waits for (a trace, a response or a session), `most` of it and `most_bytes` at most, some of
    the oldest first to go."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._by_key: OrderedDict[str, deque[Waiting]] = OrderedDict()
        self._count = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, key: str, waiting: Waiting) -> int:
        """Keep it until its key is taken; how much was given up to make room."""
        if waiting.receipt is not None:
            waiting.receipt.hold()
        self._by_key.setdefault(key, deque()).append(waiting)
        self._count += 1
        self._bytes += waiting.span.wire_bytes
        given_up = 0
        while self._count > self._most or self._bytes > self._most_bytes:
            given_up += self._give_up()
        return given_up

    def take(self, key: str) -> Iterable[Waiting]:
        """What waited under this key; its messages are let go of as each next one is asked for."""
        for waiting in self._by_key.pop(key, ()):
            self._left(waiting)
            yield waiting
            _release(waiting)

    def expire(self, limit: float) -> int:
        """Give up what came at `limit` or before; how much that was."""
        given_up = 0
        while self._by_key and next(iter(self._by_key.values()))[0].came_at <= limit:
            given_up += self._give_up()
        return given_up

    def _give_up(self) -> int:
        key, oldest = next(iter(self._by_key.items()))
        waiting = oldest.popleft()
        if not oldest:
            del self._by_key[key]
        self._left(waiting)
        _release(waiting)
        return 1

    def _left(self, waiting: Waiting) -> None:
        self._count -= 1
        self._bytes -= waiting.span.wire_bytes


def _release(waiting: Waiting) -> None:
    if waiting.receipt is not None:
        waiting.receipt.release()
