"""A named thread with a bounded queue before it: the only way work moves between threads here."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

Item = TypeVar("Item")

_POLL_S = 0.05
"""How soon a waiting stage notices that it is to stop; far below any interval that people see."""


class Undrained(RuntimeError):  # noqa: N818 (it says what was left)
    """A stage's deadline came before its work was done: what it had accepted is lost, and how much of it."""


class Stage(Generic[Item]):
    """Runs `handle` on micro-batches of what was offered, and `tick` at least every `tick_s` seconds, in one thread.

    Whatever `handle` and `tick` touch has one owner: this thread. An exception in either ends the stage and is handed
    to `on_failure`: a dead thread must never be silent. Stopping drains: what was accepted is handled, then `finish`
    runs. If the deadline comes first, `on_failure` is told what was left: accepted work never ends in silence.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[Sequence[Item]], None],
        *,
        capacity: int,
        on_failure: Callable[[str, BaseException], None],
        max_batch: int = 1,
        tick: Callable[[], None] | None = None,
        tick_s: float = 1.0,
        finish: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._handle = handle
        self._queue: queue.Queue[Item] = queue.Queue(maxsize=capacity)
        self._max_batch = max_batch
        self._tick = tick
        self._tick_s = tick_s
        self._finish = finish
        self._on_failure = on_failure
        self._stopping = threading.Event()
        self._abandoned = threading.Event()
        self._thread: threading.Thread | None = None
        self._gate = threading.Lock()

    def start(self) -> None:
        """Start the thread; harmless when it runs already."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()

    def offer(self, item: Item) -> bool:
        """Take the item, or take nothing and answer False: the queue is full or the stage is stopping."""
        with self._gate:  # so that nothing slips in after the drain has seen an empty queue
            if self._stopping.is_set():
                return False
            try:
                self._queue.put_nowait(item)
            except queue.Full:
                return False
            return True

    def put(self, item: Item) -> bool:
        """Take the item, waiting for room; False once the stage is stopping."""
        while not self.offer(item):
            if self._stopping.is_set():
                return False
            time.sleep(_POLL_S / 10)
        return True

    def stop(self, deadline_s: float = 10.0) -> None:
        """Take nothing more, handle what was taken, then end; harmless when stopped or never started."""
        with self._gate:
            self._stopping.set()
        if self._thread is None or self._thread is threading.current_thread():
            return
        self._thread.join(deadline_s)
        if self._thread.is_alive() and not self._abandoned.is_set():
            self._abandoned.set()
            self._thread.join(_POLL_S * 4)
            lost = f"{self._queue.qsize()} waiting items and what was in hand"
            self._on_failure(self.name, Undrained(f"the deadline came first; {lost} were not handled"))

    @property
    def depth(self) -> int:
        """How many items wait."""
        return self._queue.qsize()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._loop()
            if self._finish is not None and not self._abandoned.is_set():
                self._finish()
        except BaseException as error:
            self._on_failure(self.name, error)

    def _loop(self) -> None:
        next_tick = time.monotonic() + self._tick_s
        while not self._abandoned.is_set():
            batch = self._gather(min(_POLL_S, max(0.0, next_tick - time.monotonic())))
            if batch:
                self._handle(batch)
            elif self._stopping.is_set():
                return
            if self._tick is not None and time.monotonic() >= next_tick:
                self._tick()
                next_tick = time.monotonic() + self._tick_s

    def _gather(self, wait_s: float) -> list[Item]:
        """Up to `max_batch` items; waits only for the first."""
        batch: list[Item] = []
        try:
            batch.append(self._queue.get(timeout=wait_s) if wait_s > 0 else self._queue.get_nowait())
            while len(batch) < self._max_batch:
                batch.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return batch
