"""A million spans at a steady rate: what is held and what a span costs must not grow with uptime.

Each run is a process of its own, so that what other tests left behind counts for nothing; only figures of a whole
process can show a leak. This file is that process too: `python -m integration.test_ingest_soak CAPTURES WARM SPANS
[STORE]`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from bench.traffic import rounds

from collectors.assembly import Assembler, AssemblySettings
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.otlp import decode
from collectors.span import SpanBatch
from monitor.build import build_core
from monitor.config import Config
from monitor.metrics import Metrics
from monitor.store import Store

CAPTURES = ("openinference-langchain-qdrant", "openllmetry-langchain")
SPANS_A_SECOND = 500
TENTHS = 10
MOST_RESIDENT = 300 * 10**6
MOST_RESIDENT_OF_ALL = 350 * 10**6
"""With judging, store and drift: scipy's statistics take 50 MB, a drift reference of 5,000 queries as much again."""

Take = Callable[[SpanBatch, float], None]
Close = Callable[[float], int]


@pytest.mark.part("shared")
@pytest.mark.long
def test_memory_and_work_stay_flat_over_a_million_spans(shared: Path) -> None:
    """The warm-up fills every cap, the ids of a hundred thousand requests among them."""
    lines = soaked(shared, 1_300_000, 1_000_000)
    assert_flat(lines)
    assert sum(line["requests"] for line in lines) >= 1_000_000 / 15


@pytest.mark.part("shared")
@pytest.mark.long
def test_memory_and_work_stay_flat_through_the_whole_pipeline(shared: Path, tmp_path: Path) -> None:
    """Judged, observed and stored on disk, as the service does."""
    lines = soaked(shared, 450_000, 300_000, tmp_path / "state.db")
    assert_flat(lines, MOST_RESIDENT_OF_ALL)
    assert sum(line["requests"] for line in lines) >= 300_000 / 15


def soaked(shared: Path, warm_up: int, spans: int, *store: Path) -> list[dict[str, Any]]:
    """What the process says at the end of each tenth."""
    arguments = [str(shared / "fixtures" / "otlp"), str(warm_up), str(spans), *map(str, store)]
    ran = subprocess.run(
        [sys.executable, "-m", "integration.test_ingest_soak", *arguments],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    print(ran.stdout)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(lines) == TENTHS
    return lines


def assert_flat(lines: list[dict[str, Any]], most: int = MOST_RESIDENT) -> None:
    resident = [line["resident"] for line in lines]
    assert max(resident) <= most
    # Of the first and the last three: fitting a drift reference takes a tenth more for a moment.
    assert median(resident[-3:]) <= 1.1 * median(resident[:3]), resident
    # CPU time scatters on a busy machine; a cost that grows with uptime would double, and more.
    assert lines[-1]["micros"] <= 1.5 * lines[0]["micros"], (lines[0], lines[-1])


def main(folder: Path, warm_up: int, spans: int, store: Path | None) -> None:
    """Read spans, first to warm up; print a JSON line after each tenth of the rest."""
    traffic = _read(folder, *(_to_traces() if store is None else _to_store(store)))
    _until(traffic, warm_up)
    for _ in range(TENTHS):
        seconds, requests = _until(traffic, spans // TENTHS)
        told = {"resident": resident(), "micros": seconds * 1e6 / (spans // TENTHS), "requests": requests}
        print(json.dumps(told), flush=True)


def resident() -> int:
    """Resident memory of this process, in bytes."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) * 1024


def _until(traffic: Iterator[tuple[int, float, int]], spans: int) -> tuple[float, int]:
    seconds, requests = 0.0, 0
    while spans > 0:
        read, spent, closed = next(traffic)
        spans, seconds, requests = spans - read, seconds + spent, requests + closed
    return seconds, requests


def _read(folder: Path, take: Take, close: Close) -> Iterator[tuple[int, float, int]]:
    """The captures in turn, for ever, with ids that never come again: of each message its spans, the CPU seconds that
    it took, and the requests that closed with it."""
    now = ticked = 0.0
    paths = [folder / f"{name}.requests.jsonl" for name in CAPTURES]
    for raw in (raw for number in count() for path in paths for raw in rounds(path, number, 1)):
        started, closed = time.thread_time(), 0
        batch = decode(raw)
        take(batch, now)
        if now - ticked >= 1:
            ticked, closed = now, close(now)
        yield len(batch.spans), time.thread_time() - started, closed
        now += len(batch.spans) / SPANS_A_SECOND


def _to_traces() -> tuple[Take, Close]:
    assembler, normaliser = Assembler(AssemblySettings()), Normaliser(NormaliseSettings())
    return assembler.add, lambda now: sum(normaliser.normalise(one) is not None for one in assembler.due(now))


def _to_store(path: Path) -> tuple[Take, Close]:
    config = Config()
    # Rates over an hour would still be filling; over two minutes they are full before the first tenth.
    short = config.model_copy(update={"rates": config.rates.model_copy(update={"window_s": 120.0})})
    core = build_core(short, Store.open(path), None, Metrics(), now=0.0)
    saved = 0.0

    def close(now: float) -> int:
        nonlocal saved
        settled = core.intake.due(now)
        core.judging.judge(settled, now)
        core.judging.tick(now)
        if now - saved >= 60:
            core.judging.save(now)
            saved = now
        return len(settled)

    return core.intake.accept, close


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:4]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
