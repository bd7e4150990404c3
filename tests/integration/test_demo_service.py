"""The demo's service process against the real receiver: what it exports, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from collectors.assembly import Assembler, AssemblySettings
from collectors.events import NullEvents
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.otlp_grpc import OtlpGrpcReceiver, OtlpGrpcSettings
from collectors.predicate import And, Eq
from collectors.span import Span, SpanBatch
from collectors.trace import Completeness, Flag, RagTrace
from monitor.demo.child import ServiceProcess
from monitor.demo.content import questions, uncovered_questions
from monitor.demo.scenario import ACTS, Schedule

KNOWN = {question.query: question for question in questions()}
UNCOVERED = {question.query for question in uncovered_questions()}


class Sink:
    """Keeps what the receiver takes."""

    def __init__(self) -> None:
        self.batches: list[SpanBatch] = []

    def offer(self, batch: SpanBatch) -> bool:
        self.batches.append(batch)
        return True

    @property
    def spans(self) -> list[Span]:
        return [span for batch in self.batches for span in batch.spans]


def read(sink: Sink) -> list[RagTrace]:
    """The spans as the sidecar reads them: the last revision of every request."""
    assembler = Assembler(AssemblySettings())
    normaliser = Normaliser(NormaliseSettings(entitlement_fields=("tenant",)))
    for batch in sink.batches:
        assembler.add(batch, 0.0)
    traces = [normaliser.normalise(assembled) for assembled in assembler.flush(1.0)]
    return [trace for trace in traces if trace is not None]


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def endpoint(sink: Sink) -> Iterator[str]:
    with OtlpGrpcReceiver(OtlpGrpcSettings(port=0), sink, NullEvents()) as receiver:
        yield f"127.0.0.1:{receiver.port}"


def wait_for_end(service: ServiceProcess, deadline_s: float = 60.0) -> None:
    deadline = time.monotonic() + deadline_s
    while service.return_code is None:
        assert time.monotonic() < deadline, "the service never ended"
        time.sleep(0.05)
    service.stop()


def clauses(predicate: object) -> dict[str, object]:
    """An equality, or a conjunction of equalities, as a dict."""
    items: Sequence[object] = predicate.items if isinstance(predicate, And) else [predicate]
    found = {}
    for item in items:
        assert isinstance(item, Eq)
        found[item.field] = item.value
    return found


def test_the_whole_story_as_the_sidecar_reads_it(sink: Sink, endpoint: str) -> None:
    schedule = Schedule.of(10.0, requests_per_second=30.0)
    with ServiceProcess(endpoint, 1, schedule) as service:
        wait_for_end(service)
        assert service.return_code == 0, service.last_words()
        assert list(service.acts) == [act.name for act in ACTS]
        for (before, after), scheduled in zip(pairwise(service.acts.values()), schedule.acts, strict=False):
            assert after - before == pytest.approx(scheduled.end_s - scheduled.start_s, abs=1.0)
        counts = service.counts
    traces = read(sink)
    assert len(traces) == counts["requests"] > 150
    assert sum(bool(trace.refused) for trace in traces) == counts["refusals"] > 0
    feedback = Counter(item.label for trace in traces for item in trace.feedback)
    assert feedback == {"regenerate": counts["regenerations"]}
    assert counts["regenerations"] > 0
    assert len({trace.session for trace in traces}) <= counts["sessions"]
    for trace in traces:
        check_trace(trace)
    check_faults(traces)


def check_trace(trace: RagTrace) -> None:
    """All that the checks and detectors need is there, in every request."""
    assert trace.completeness is Completeness.COMPLETE
    assert not trace.flags - {Flag.NO_SCORES}
    assert trace.query in KNOWN or trace.query in UNCOVERED
    assert trace.answer
    assert trace.session is not None
    assert trace.user_hash is not None
    assert not trace.user_hash.startswith("user-")
    assert trace.query_embedding is not None
    assert sum(x * x for x in trace.query_embedding) == pytest.approx(1.0, abs=1e-4)
    assert (trace.versions.index, trace.versions.encoder) == ("help-2026-11", "hashed-ngram-1")
    assert trace.versions.prompt == "7"
    assert {"tenant", "locale", "intent", "service"} <= trace.slices.keys()
    assert trace.duration_s is not None
    assert 0.05 < trace.duration_s < 4.0
    assert trace.cost_usd is not None
    assert 0 < trace.cost_usd < 0.01
    assert trace.tokens.input
    assert trace.tokens.output
    [retrieval] = trace.retrievals
    assert retrieval.documents is not None
    assert retrieval.filter is not None
    assert clauses(retrieval.filter.entitlement) == {"tenant": trace.slices["tenant"]}
    assert retrieval.filter.relevance is not None
    returned = [document.id for document in retrieval.documents]
    assert trace.context_document_ids is not None
    assert set(trace.context_document_ids) <= set(returned)
    assert trace.citations is not None
    assert {citation.document_id for citation in trace.citations} <= set(trace.context_document_ids)
    assert trace.refused == (not trace.context_document_ids)


def check_faults(traces: Sequence[RagTrace]) -> None:
    """Each release shows its own fault and no other."""
    by_version: dict[str, list[RagTrace]] = {}
    for trace in traces:
        by_version.setdefault(str(trace.versions.service), []).append(trace)
    assert set(by_version) == {"2.0.4", "2.1.0", "2.2.0", "2.3.0"}
    for version, group in by_version.items():
        asked_for = [
            clauses(trace.retrievals[0].filter.relevance)["locale"] == trace.slices["locale"]
            for trace in group
            if trace.retrievals[0].filter is not None
        ]
        invented = [
            str(trace.answer).count("[kb-") < len(str(trace.answer).split(". "))
            for trace in group
            if not trace.refused
        ]
        uncovered = [trace.query in UNCOVERED for trace in group]
        assert all(asked_for) == (version != "2.1.0")
        assert (sum(invented) > 0.5 * len(invented)) == (version == "2.2.0")
        assert any(uncovered) == (version == "2.3.0")


def test_sigterm_ends_it_flushed(sink: Sink, endpoint: str) -> None:
    with ServiceProcess(endpoint, 2, Schedule.of(300.0)) as service:
        deadline = time.monotonic() + 30
        while not answered(sink) and time.monotonic() < deadline:
            time.sleep(0.05)
        service.stop()
        assert service.return_code == 0, service.last_words()
        assert 0 < service.counts["requests"] == answered(sink)


def test_it_ends_when_whoever_started_it_is_killed(endpoint: str) -> None:
    code = (
        "import sys, time\n"
        "from monitor.demo.child import ServiceProcess\n"
        "from monitor.demo.scenario import Schedule\n"
        "service = ServiceProcess(sys.argv[1], 1, Schedule.of(300.0))\n"
        "service.start()\n"
        "while not service.acts: time.sleep(0.05)\n"
        "print(service._process.pid, flush=True)\n"
        "time.sleep(300)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, endpoint], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while alive(child):
        assert time.monotonic() < deadline, "the service outlived the process that started it"
        time.sleep(0.05)


def answered(sink: Sink) -> int:
    return sum(span.name == "answer question" for span in sink.spans)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # it has ended, and waits for init to take note


def test_bad_arguments_exit_with_2_and_say_what_is_wrong() -> None:
    command = [
        sys.executable,
        "-m",
        "monitor.demo.rag_service",
        "--endpoint",
        "127.0.0.1:1",
        "--schedule",
        "{}",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "acts" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_starting_and_stopping_more_often_than_needed_is_harmless(endpoint: str) -> None:
    service = ServiceProcess(endpoint, 1, Schedule.of(300.0))
    service.stop()
    assert service.return_code is None
    with service:
        service.start()
        service.stop()
        code = service.return_code
        service.stop()
        assert code is not None
