"""The demo service's process: simulated users ask, the service answers, spans go out over OTLP/gRPC.

One loop over timed events. Standard output carries one JSON object a line: `{"event": "act", "act": ..., "time": ...}`
as an act begins (Unix seconds), and at the end `{"event": "done", "time": ..., "counts": {...}}`.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from pydantic import ValidationError

from detectors.embedding import HashedNgramEncoder
from monitor.demo.content import articles
from monitor.demo.retriever import ArticleIndex
from monitor.demo.scenario import Schedule, ScheduledAct
from monitor.demo.service import InFlight, RagService, Reply
from monitor.demo.traffic import Ask, Users

COUNTS = ("sessions", "requests", "refusals", "inventions", "regenerations")
Tell = Callable[[dict[str, object]], None]
Event = Callable[[float], None]
"""Called with the time that it was due at, in seconds since the start."""


class Simulation:
    """Plays a schedule in real time; `stop` ends it from another thread or a signal handler."""

    def __init__(self, schedule: Schedule, service: RagService, users: Users, tell: Tell) -> None:
        self._schedule = schedule
        self._service = service
        self._users = users
        self._tell = tell
        self._events: list[tuple[float, int, Event]] = []
        self._order = count()
        self._start = 0.0
        self._stopped = threading.Event()
        self.counts = dict.fromkeys(COUNTS, 0)

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        """Play until the schedule ends and every open request is answered, or until `stop`."""
        self._start = time.monotonic()
        for scheduled in self._schedule.acts:
            self._at(scheduled.start_s, partial(self._begin, scheduled))
        self._at(self._users.next_arrival(0.0), self._arrive)
        while self._events:
            due_s, _, event = heapq.heappop(self._events)
            if self._stopped.wait(max(0.0, due_s - self._elapsed())):
                return
            event(due_s)

    def _begin(self, scheduled: ScheduledAct, due_s: float) -> None:
        self._service.deploy(scheduled.act.release)
        self._tell({"event": "act", "act": scheduled.act.name, "time": time.time()})

    def _arrive(self, due_s: float) -> None:
        if due_s >= self._schedule.duration_s:
            return
        act = self._schedule.at(due_s).act
        self.counts["sessions"] += 1
        for ask in self._users.session(due_s, act.uncovered_share):
            if ask.time_s < self._schedule.duration_s:
                self._at(ask.time_s, partial(self._ask, ask))
        self._at(self._users.next_arrival(due_s), self._arrive)

    def _ask(self, ask: Ask, due_s: float) -> None:
        waiting = self._service.begin(ask)
        self._at(self._elapsed() + waiting.latency_s, partial(self._complete, waiting))

    def _complete(self, waiting: InFlight, due_s: float) -> None:
        reply, answer = self._service.complete(waiting), waiting.answer
        self.counts["requests"] += 1
        self.counts["refusals"] += answer.refused
        self.counts["inventions"] += answer.invented
        if self._users.regenerates(
            waiting.ask, answer.citations, refused=answer.refused, invented=answer.invented
        ):
            self._at(due_s + self._users.reading_time_s(), partial(self._regenerate, reply))

    def _regenerate(self, reply: Reply, due_s: float) -> None:
        self._service.regenerate(reply)
        self.counts["regenerations"] += 1

    def _at(self, time_s: float, event: Event) -> None:
        heapq.heappush(self._events, (time_s, next(self._order), event))

    def _elapsed(self) -> float:
        return time.monotonic() - self._start


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the service for one schedule; SIGTERM and SIGINT end it early, flushed."""
    parser = argparse.ArgumentParser(prog="python -m monitor.demo.rag_service", description=__doc__)
    parser.add_argument("--endpoint", required=True, help="OTLP/gRPC endpoint, host:port")
    parser.add_argument("--seed", type=int, default=1, help="seed of users, answers and latencies")
    parser.add_argument("--schedule", required=True, type=_schedule, help="the acts, as JSON")
    parser.add_argument("--end-with-stdin", action="store_true", help="end when standard input closes")
    options = parser.parse_args(arguments)
    encoder = HashedNgramEncoder(dimensions=256)
    service = RagService(ArticleIndex(articles(), encoder), encoder, options.endpoint, options.seed)
    users = Users(options.seed, options.schedule.requests_per_second)
    simulation = Simulation(options.schedule, service, users, _tell)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: simulation.stop())
    if options.end_with_stdin:
        threading.Thread(target=_stop_at_end_of_input, args=(simulation,), name="stdin", daemon=True).start()
    try:
        simulation.run()
    finally:
        service.close()
    _tell({"event": "done", "time": time.time(), "counts": simulation.counts})
    return 0


def _schedule(text: str) -> Schedule:
    try:
        return Schedule.model_validate_json(text)
    except ValidationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _stop_at_end_of_input(simulation: Simulation) -> None:
    # Whoever started this process holds the other end: it closes even where that process is killed outright. Read
    # below the buffered layer, whose lock a daemon thread would still hold at exit.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    simulation.stop()


def _tell(event: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
