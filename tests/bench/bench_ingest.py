"""What reading traces costs: decode, assemble and normalise beside a bare decode of the same bytes, in one thread.

Run: make bench-ingest, or PYTHONPATH=tests python tests/bench/bench_ingest.py [repetitions].

The figures are spans a second of CPU time, ours and the peer's in turn on the same messages, the median of the
repetitions. README.md beside this file says what is compared and where the time goes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

from bench.figures import Figure, report
from bench.ingest_end_to_end import end_to_end
from bench.traffic import recorded, rounds, spans_in
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from collectors.assembly import Assembled, Assembler, AssemblySettings
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.otlp import decode
from collectors.span import SpanBatch

T = TypeVar("T")

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "fixtures" / "otlp"
GOAL = 0.5
GOVERNED = ("openinference-langchain-qdrant", "openllmetry-langchain")
OTHERS = (
    "openinference-llamaindex-simple",
    "openinference-haystack",
    "openllmetry-llamaindex",
    "genai-langchain-span-only",
    "mlflow-otlp",
    "langsmith-otel",
    "haystack-native-nocontent",
    "reference-multiservice",
)
SPANS = 5_000
"""About so many in one repetition."""
WARM_UP = 6
"""Repetitions before the first that counts: until what assembly holds has reached its cap, so that nothing grows."""
SPANS_A_SECOND = 500
"""By the traffic's clock, so that requests wait, close and are forgotten as they would."""
MICRO_BATCH = 64
"""Messages that the service's intake takes at once at most."""
TICK_S = 1.0
PUBLISHED = "OpenTelemetry Collector, as published: about 12000 spans a second a core"


def value_of(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {item.key: value_of(item.value) for item in value.kvlist_value.values}
    return None if kind is None else getattr(value, kind)


def bare(messages: list[bytes]) -> int:
    """The peer: every attribute and every event into a dict, and nothing more."""
    found = 0
    for raw in messages:
        for group in ExportTraceServiceRequest.FromString(raw).resource_spans:
            for scope in group.scope_spans:
                for span in scope.spans:
                    attributes = {item.key: value_of(item.value) for item in span.attributes}
                    events = [
                        {
                            "name": event.name,
                            "time": event.time_unix_nano,
                            "attributes": {item.key: value_of(item.value) for item in event.attributes},
                        }
                        for event in span.events
                    ]
                    found += 1 + 0 * len(attributes) * len(events)
    return found


class Stages:
    """Ours, running on and on, with the CPU seconds of each stage. As in the service, messages are decoded ahead of
    assembly, and what is due is asked for once a second."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("decode", "assemble", "normalise"), 0.0)
        self.traces = 0
        self._now = self._ticked = 0.0
        self._assembler = Assembler(AssemblySettings())
        self._normaliser = Normaliser(NormaliseSettings())

    def read(self, messages: list[bytes]) -> None:
        for start in range(0, len(messages), MICRO_BATCH):
            raw = messages[start : start + MICRO_BATCH]
            batches = self._timed("decode", lambda raw=raw: [decode(one) for one in raw])
            closed = self._timed("assemble", lambda batches=batches: self._assemble(batches))
            self.traces += self._timed("normalise", lambda closed=closed: self._normalise(closed))

    def _assemble(self, batches: list[SpanBatch]) -> list[Assembled]:
        for batch in batches:
            self._assembler.add(batch, self._now)
        self._now += sum(len(batch.spans) for batch in batches) / SPANS_A_SECOND
        if self._now - self._ticked < TICK_S:
            return []
        self._ticked = self._now
        return self._assembler.due(self._now)

    def _normalise(self, closed: list[Assembled]) -> int:
        return sum(self._normaliser.normalise(one) is not None for one in closed)

    def _timed(self, stage: str, run: Callable[[], T]) -> T:
        started = time.thread_time()
        found = run()
        self.seconds[stage] += time.thread_time() - started
        return found


def cpu_seconds(run: Callable[[], object]) -> float:
    started = time.thread_time()
    run()
    return time.thread_time() - started


def compare(capture: str, repetitions: int) -> tuple[Figure, dict[str, float]]:
    """The whole way beside the bare decode; and microseconds a span by stage."""
    path = CAPTURES / f"{capture}.requests.jsonl"
    count = max(1, SPANS // spans_in(recorded(path)))
    total = count * spans_in(recorded(path))
    stages, found = Stages(), []
    for number in range(WARM_UP + repetitions):
        messages = list(rounds(path, number * count, count))
        stages.seconds = dict.fromkeys(stages.seconds, 0.0)
        peer = cpu_seconds(lambda messages=messages: bare(messages))
        stages.read(messages)
        found.append(stages.seconds | {"bare decode": peer, "ours": sum(stages.seconds.values())})
    assert stages.traces >= (WARM_UP + repetitions) * count * 0.7, f"{capture}: only {stages.traces} traces"
    micros = {name: median(one[name] for one in found[WARM_UP:]) * 1e6 / total for name in found[0]}
    figure = Figure(
        f"ingest_{capture}_spans_per_cpu_second",
        1e6 / micros["ours"],
        1e6 / micros["bare decode"],
        median(one["bare decode"] / one["ours"] for one in found[WARM_UP:]),
        GOAL if capture in GOVERNED else None,
    )
    return figure, micros


def main(repetitions: int) -> int:
    if not CAPTURES.is_dir():
        print(f"no captures at {CAPTURES}: nothing to measure", file=sys.stderr)
        return 0
    figures, stages = [], {}
    for capture in (*GOVERNED, *OTHERS):
        figure, stages[capture] = compare(capture, repetitions)
        figures.append(figure)
    figures.append(end_to_end(list(rounds(CAPTURES / f"{GOVERNED[0]}.requests.jsonl", 0, 400))))
    report(figures)
    print(PUBLISHED)
    print(f"\n{'microseconds a span':36}" + "".join(f"{name:>13}" for name in stages[GOVERNED[0]]))
    for capture, micros in stages.items():
        print(f"{capture:36}" + "".join(f"{value:13.1f}" for value in micros.values()))
    return 0 if all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7))
