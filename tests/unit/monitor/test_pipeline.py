"""The two halves together: when messages are let go, what counts once, and what late feedback still changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from alerts.signals import ALL, REGENERATION
from collectors.assembly import AssemblySettings
from collectors.replay import read_batches
from collectors.span import Receipt, Scope, Span, SpanBatch, SpanLink
from detectors.control_band import ControlBandSettings
from detectors.finding import Outcome
from monitor.build import Core, build_core
from monitor.config import Config
from monitor.metrics import Metrics
from monitor.rates import RateSettings
from monitor.store import Store

ASSEMBLY = AssemblySettings(answered_wait_s=1, idle_wait_s=2, max_wait_s=5, revision_window_s=10)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def core(store: Store) -> Core:
    return build_core(Config(assembly=ASSEMBLY), store, None, Metrics(), now=0.0)


def request(number: int = 1) -> Span:
    return Span(
        f"{number:032x}",
        f"{number:016x}",
        None,
        "chat",
        start_ns=10**18,
        end_ns=10**18 + 10**9,
        attributes={
            "openinference.span.kind": "CHAIN",
            "input.value": "why?",
            "output.value": "Because it is so.",
        },
    )


def regenerate(of: Span, number: int = 0) -> Span:
    return Span(
        f"f{number:031x}",
        f"f{number:015x}",
        None,
        "user feedback",
        start_ns=10**18,
        end_ns=10**18,
        attributes={
            "annotations.0.annotation.name": "user_feedback",
            "annotations.0.annotation.label": "regenerate",
        },
        links=(SpanLink(of.trace_id, of.span_id, {}),),
    )


class Message:
    """A message whose end is seen."""

    def __init__(self, *spans: Span) -> None:
        self.finished = False
        self.batch = SpanBatch(spans, receipt=Receipt(self._finish))

    def _finish(self) -> None:
        self.finished = True


def settle(core: Core, now: float) -> None:
    core.judging.judge(core.intake.due(now), now)
    core.judging.tick(now)


def test_a_message_is_let_go_only_once_its_requests_are_stored(store: Store) -> None:
    running, message = core(store), Message(request(1), request(2))
    running.intake.accept(message.batch, now=0)
    closed = running.intake.due(now=2)
    assert len(closed) == 2
    assert not message.finished
    running.judging.judge(closed, now=2)
    assert message.finished
    assert store.closed_revision(f"{1:032x}:{1:016x}") == 0


def test_a_message_without_a_rag_request_is_let_go_too(store: Store) -> None:
    running = core(store)
    message = Message(Span("a" * 32, "b" * 16, None, "GET /", start_ns=1, end_ns=2))
    running.intake.accept(message.batch, now=0)
    settle(running, now=5)
    assert message.finished


def test_what_is_read_again_after_a_restart_is_not_counted_again(store: Store) -> None:
    for _ in range(2):
        running, message = core(store), Message(request())
        running.intake.accept(message.batch, now=0)
        settle(running, now=2)
        assert message.finished
    assert sum(1 for _ in store.findings(since=0, check="latency")) == 1
    assert running.metrics.count_of(running.metrics.requests, result="already_counted") == 1


def test_the_drain_judges_what_cannot_come_again_and_leaves_the_rest(store: Store) -> None:
    running, message = core(store), Message(request(1))
    running.intake.accept(message.batch, now=0)
    running.intake.accept(SpanBatch((request(2),)), now=0)
    running.judging.judge(running.intake.flush(now=0.5), now=0.5)
    assert not message.finished
    assert store.closed_revision(f"{1:032x}:{1:016x}") is None
    assert store.closed_revision(f"{2:032x}:{2:016x}") == 0
    assert running.metrics.count_of(running.metrics.requests, result="left_uncommitted") == 1


@pytest.mark.parametrize("after_s", [3.0, 600.0])
def test_feedback_counts_while_spans_are_held_and_long_after(store: Store, after_s: float) -> None:
    running, asked = core(store), request()
    running.intake.accept(SpanBatch((asked,)), now=0)
    settle(running, now=2)
    settle(running, now=after_s)
    assert running.metrics.readings()[REGENERATION.name, ALL].estimate == 0.0
    message = Message(regenerate(asked))
    running.intake.accept(message.batch, now=after_s)
    settle(running, now=after_s + 6)
    assert message.finished
    assert running.metrics.readings()[REGENERATION.name, ALL].estimate == 1.0
    [stored] = store.findings(since=0, check="regeneration")
    assert (stored.finding.value, stored.finding.revision) == (1.0, 1)


def test_the_same_late_feedback_twice_changes_nothing_more(store: Store) -> None:
    running, asked = core(store), request()
    running.intake.accept(SpanBatch((asked,)), now=0)
    settle(running, now=2)
    settle(running, now=600)
    for _ in range(2):
        running.intake.accept(SpanBatch((regenerate(asked),)), now=600)
        settle(running, now=606)
    [stored] = store.findings(since=0, check="regeneration")
    assert stored.finding.revision == 1


def test_completeness_and_flags_are_counted_by_instrumentation_and_version(store: Store) -> None:
    running = core(store)
    whole, hidden = request(1), request(2)
    whole.scope = hidden.scope = Scope("openinference.instrumentation.langchain", "0.1.80")
    hidden.attributes = {"openinference.span.kind": "LLM", "output.value": "__REDACTED__"}
    running.intake.accept(SpanBatch((whole, hidden)), now=0)
    settle(running, now=5)
    made_by = {"instrumentation": "openinference.instrumentation.langchain@0.1.80"}
    assert running.metrics.count_of(running.metrics.traces, **made_by) == 2
    assert running.metrics.count_of(running.metrics.traces, **made_by, completeness="complete") == 1
    assert running.metrics.count_of(running.metrics.flags, **made_by, flag="redacted") == 1


def test_an_sdk_that_stops_capturing_content_shows_as_that(store: Store, shared: Path) -> None:
    """Real exports of one instrumentation with its content on, then off as after an upgrade: the new version's flags
    say so, and what was hidden is not scored: a fall in captured content is none in quality."""
    running, name = core(store), "opentelemetry.instrumentation.genai.langchain"
    scored: list[Counter[str]] = []
    captures = shared / "fixtures" / "otlp"
    for version, capture, now in (("1", "span-only", 0.0), ("2", "no-content", 60.0)):
        for batch in read_batches([captures / f"genai-langchain-{capture}.requests.jsonl"]):
            for span in batch.spans:
                span.scope = Scope(name, version)
            running.intake.accept(batch, now=now)
        settle(running, now=now + 30)
        told = [one.finding for one in store.findings(since=0)]
        scored.append(Counter(one.check for one in told if one.outcome is Outcome.SCORED))
    metrics, hidden = running.metrics, ("content_not_captured", "docs_unknown")
    for version, flagged in (("1", 0), ("2", 8)):
        by = {"instrumentation": f"{name}@{version}"}
        assert metrics.count_of(metrics.traces, **by) == 8
        assert [metrics.count_of(metrics.flags, flag=flag, **by) for flag in hidden] == [flagged] * 2
    assert metrics.count_of(metrics.traces, instrumentation=f"{name}@2", completeness="partial") == 7
    for check, times in (("empty_retrieval", 8), ("refusal", 7)):
        assert scored[0][check] == scored[1][check] == times
    left = Counter(one.reason for one in told if one.outcome is Outcome.NOT_SCORABLE)
    assert (left["documents_unknown"], left["no_answer"]) == (8, 7)


def test_the_control_band_is_not_learnt_again_from_an_incident(store: Store) -> None:
    band = ControlBandSettings(baseline_units=30, settle_s=0)
    config = Config(assembly=ASSEMBLY, control_band=band, rates=RateSettings(window_s=60))

    def answered(running: Core, numbers: range, asked_again: bool, now: float) -> None:
        spans = [request(number) for number in numbers]
        running.intake.accept(SpanBatch(tuple(spans)), now=now)
        settle(running, now=now + 2)
        if asked_again:
            feedback = tuple(regenerate(span, number) for number, span in enumerate(spans))
            running.intake.accept(SpanBatch(feedback), now=now + 3)
            settle(running, now=now + 9)

    first = build_core(config, store, None, Metrics(), now=0.0)
    answered(first, range(1, 41), asked_again=False, now=0.0)
    learnt = first.metrics.readings()[REGENERATION.name, ALL]
    first.judging.save(now=3.0)
    again = build_core(config, store, None, Metrics(), now=7200.0)
    answered(again, range(100, 140), asked_again=True, now=7200.0)
    reading = again.metrics.readings()[REGENERATION.name, ALL]
    assert (reading.low, reading.high) == (learnt.low, learnt.high)
    assert reading.lower is not None
    assert learnt.high is not None
    assert reading.lower > learnt.high


def test_a_guardrail_that_nothing_judges_is_not_watched(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    running = core(store)
    assert "filter_exclusion" not in {spec.name for spec, *_ in running.watch.snapshot()}
    assert "set knowledge.catalogue" in caplog.text
