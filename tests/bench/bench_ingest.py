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

from bench.figures import Figure, report
from bench.ingest_end_to_end import end_to_end
from bench.traffic import recorded, rounds, spans_in
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from collectors.assembly import Assembled, Assembler, AssemblySettings
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.otlp import decode

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
SPANS = 10_000
"""About so many in one repetition."""
SPANS_A_SECOND = 5_000
"""By the traffic's clock; as in the service, what is due is asked for once a second."""
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
    """Ours, with the CPU time of each stage."""

    def __init__(self) -> None:
        self.seconds = {"decode": 0.0, "assemble": 0.0, "normalise": 0.0}
        self.traces = 0
        self._assembler = Assembler(AssemblySettings())
        self._normaliser = Normaliser(NormaliseSettings())

    def read(self, messages: list[bytes]) -> None:
        now = ticked = 0.0
        for raw in messages:
            started = time.thread_time()
            batch = decode(raw)
            decoded = time.thread_time()
            self._assembler.add(batch, now)
            self._note(started, decoded, time.thread_time())
            now += len(batch.spans) / SPANS_A_SECOND
            if now - ticked >= TICK_S:
                ticked = now
                self._close(self._assembler.due, now)
        self._close(self._assembler.flush, now)

    def _close(self, due: Callable[[float], list[Assembled]], now: float) -> None:
        started = time.thread_time()
        closed = due(now)
        assembled = time.thread_time()
        self.traces += sum(self._normaliser.normalise(one) is not None for one in closed)
        self._note(started, started, assembled, time.thread_time())

    def _note(self, *at: float) -> None:
        for name, begun, ended in zip(self.seconds, at, at[1:], strict=False):
            self.seconds[name] += ended - begun


def cpu_seconds(run: Callable[[], object]) -> float:
    started = time.thread_time()
    run()
    return time.thread_time() - started


def compare(capture: str, repetitions: int) -> tuple[Figure, dict[str, float]]:
    """The whole way beside the bare decode; and microseconds a span by stage."""
    path = CAPTURES / f"{capture}.requests.jsonl"
    spans = spans_in(recorded(path))
    count = max(1, SPANS // spans)
    ours, peer, by_stage = [], [], []
    for number in range(repetitions + 1):
        messages = list(rounds(path, number * count, count))
        peer.append(cpu_seconds(lambda messages=messages: bare(messages)))
        stages = Stages()
        ours.append(cpu_seconds(lambda stages=stages, messages=messages: stages.read(messages)))
        assert stages.traces >= count, f"{capture}: {stages.traces} traces from {count} rounds"
        by_stage.append(stages.seconds)
    total = count * spans
    # The first repetition warms both up.
    micros = {name: median(one[name] for one in by_stage[1:]) * 1e6 / total for name in by_stage[0]}
    micros["bare decode"] = median(peer[1:]) * 1e6 / total
    ratio = median(theirs / our for our, theirs in zip(ours[1:], peer[1:], strict=True))
    figure = Figure(
        f"ingest_{capture}_spans_per_cpu_second",
        total / median(ours[1:]),
        total / median(peer[1:]),
        ratio,
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
