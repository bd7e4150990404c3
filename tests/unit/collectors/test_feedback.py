"""Feedback and log records beside spans: to which request they go, how long, and what is remembered for it."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.assembly import Assembled, Assembler, AssemblySettings
from collectors.conventions import has_answer
from collectors.feedback import LateFeedback
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.otlp_logs import NO_TRACE
from collectors.span import AttributeValue, Receipt, Span, SpanBatch, SpanEvent, SpanLink
from collectors.trace import Flag, RagTrace

TRACE, OTHER = "a" * 32, "b" * 32
DAY_S = 86_400.0
ASKED: dict[str, AttributeValue] = {
    "gen_ai.operation.name": "invoke_workflow",
    "rag.query.text": "How long?",
    "gen_ai.conversation.id": "sess-1",
}
ANSWERED: dict[str, AttributeValue] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.response.id": "chatcmpl-1",
    "gen_ai.output.messages": '[{"role": "assistant", "content": "5 days"}]',
}


def span(span_id: str, parent: str | None, attributes: dict[str, AttributeValue], **more: Any) -> Span:
    more = {"trace_id": TRACE, "start_ns": 1, "end_ns": 2, "name": span_id, **more}
    return Span(span_id=span_id, parent_id=parent, attributes=attributes, **more)


def log(name: str, parent: str | None, attributes: dict[str, AttributeValue], trace_id: str = TRACE) -> Span:
    return span(f"log-{name}-{parent}", parent, {}, name=name, trace_id=trace_id, is_log=True,
                events=(SpanEvent(name, 5, attributes),))  # fmt: skip


def verdict(
    parent: str | None = None, trace_id: str = TRACE, label: str = "thumbs_down", **about: str
) -> Span:
    said: dict[str, AttributeValue] = {
        "gen_ai.evaluation.name": "user_feedback",
        "gen_ai.evaluation.score.label": label,
        **{name.replace("_id", ".id"): value for name, value in about.items()},
    }
    return log("gen_ai.evaluation.result", parent, said, trace_id)


def request(trace_id: str = TRACE, session: str = "sess-1", response: str = "chatcmpl-1") -> tuple[Span, ...]:
    return (
        span("root", None, {**ASKED, "gen_ai.conversation.id": session}, trace_id=trace_id),
        span("chat", "root", {**ANSWERED, "gen_ai.response.id": response}, trace_id=trace_id),
    )


def batch(*spans: Span, receipt: Receipt | None = None) -> SpanBatch:
    return SpanBatch(spans, receipt=receipt)


def traces(requests: list[Assembled]) -> list[RagTrace]:
    normaliser = Normaliser(NormaliseSettings())
    return [trace for one in requests if (trace := normaliser.normalise(one)) is not None]


def labels(trace: RagTrace) -> list[str]:
    return [one.label for one in trace.feedback]


@pytest.fixture
def late() -> list[LateFeedback]:
    return []


@pytest.fixture
def assembler(late: list[LateFeedback]) -> Assembler:
    return Assembler(AssemblySettings(), late.append)


BY_SPAN = verdict("chat")
BY_TRACE = verdict(None)
BY_RESPONSE = verdict(None, NO_TRACE, **{"gen_ai.response_id": "chatcmpl-1"})
BY_SESSION = verdict(None, NO_TRACE, **{"gen_ai.conversation_id": "sess-1"})
BY_LINK = span(
    "evaluator", None,
    {"openinference.span.kind": "EVALUATOR", "annotations.0.annotation.name": "user_feedback",
     "annotations.0.annotation.label": "thumbs_down"},
    trace_id=OTHER, links=(SpanLink(TRACE, "root", {}),),
)  # fmt: skip
BY_SESSION_SPAN = span(
    "evaluator", None,
    {"openinference.span.kind": "EVALUATOR", "session.id": "sess-1",
     "session.annotations.0.annotation.name": "user_feedback",
     "session.annotations.0.annotation.label": "thumbs_down"},
    trace_id=OTHER,
)  # fmt: skip
EVERY_WAY = pytest.mark.parametrize(
    "feedback",
    [BY_SPAN, BY_TRACE, BY_RESPONSE, BY_SESSION, BY_LINK, BY_SESSION_SPAN],
    ids=["span", "trace", "response", "session", "link", "session_span"],
)


@EVERY_WAY
def test_feedback_joins_the_open_request(assembler: Assembler, feedback: Span) -> None:
    assembler.add(batch(*request(), feedback), now=0.0)
    (trace,) = traces(assembler.flush(now=1.0))
    assert (trace.answer, labels(trace), trace.revision) == ("5 days", ["thumbs_down"], 0)
    assert trace.flags.isdisjoint({Flag.MULTI_REQUEST_TRACE, Flag.NO_ROOT, Flag.ORPHAN_PARENT})
    assert assembler.counts.feedback_joined == 1


@EVERY_WAY
def test_feedback_that_comes_first_waits(assembler: Assembler, feedback: Span) -> None:
    assembler.add(batch(feedback), now=0.0)
    assert assembler.due(100.0) == []
    assembler.add(batch(*request()), now=100.0)
    (trace,) = traces(assembler.due(112.0))
    assert labels(trace) == ["thumbs_down"]


@EVERY_WAY
def test_feedback_on_a_closed_request_revises_it(assembler: Assembler, feedback: Span) -> None:
    assembler.add(batch(*request()), now=0.0)
    assert [labels(trace) for trace in traces(assembler.due(12.0))] == [[]]
    assembler.add(batch(feedback), now=200.0)
    (trace,) = traces(assembler.due(212.0))
    assert (trace.answer, labels(trace), trace.revision) == ("5 days", ["thumbs_down"], 1)


@EVERY_WAY
def test_feedback_of_the_next_morning_names_its_request(
    assembler: Assembler, late: list[LateFeedback], feedback: Span
) -> None:
    assembler.add(batch(*request()), now=0.0)
    (first,) = traces(assembler.due(12.0))
    assembler.due(5_000.0)
    assert assembler.counts.open_spans == 0
    assembler.add(batch(feedback), now=DAY_S - 100)
    (found,) = late
    assert found.request_id == first.id
    assert [one.label for one in found.feedback] == ["thumbs_down"]
    assert assembler.counts.feedback_late == 1


@EVERY_WAY
def test_after_the_window_feedback_has_no_request(
    assembler: Assembler, late: list[LateFeedback], feedback: Span
) -> None:
    assembler.add(batch(*request()), now=0.0)
    assembler.due(12.0)
    assembler.due(DAY_S + 100)
    assembler.add(batch(feedback), now=DAY_S + 101)
    assembler.due(DAY_S + 1_000)
    assert late == []
    assert assembler.counts.feedback_unjoined == 1


def test_a_sessions_feedback_is_on_its_last_request(assembler: Assembler) -> None:
    assembler.add(batch(*request()), now=0.0)
    assembler.add(batch(*request(OTHER, response="chatcmpl-2")), now=5.0)
    assembler.add(batch(BY_SESSION), now=6.0)
    found = {trace.trace_id: labels(trace) for trace in traces(assembler.flush(now=7.0))}
    assert found == {TRACE: [], OTHER: ["thumbs_down"]}


def test_late_feedback_on_one_of_several_requests_is_not_guessed(
    assembler: Assembler, late: list[LateFeedback]
) -> None:
    first = [
        span("r1", None, ASKED),
        span("c1", "r1", ANSWERED),
        span("d1", "r1", {"openinference.span.kind": "RETRIEVER"}),
    ]
    second = [
        span("r2", None, ASKED),
        span("c2", "r2", ANSWERED),
        span("d2", "r2", {"openinference.span.kind": "RETRIEVER"}),
    ]
    assembler.add(batch(*first, *second), now=0.0)
    assert len(assembler.due(12.0)) == 2
    assembler.due(1_000.0)
    assembler.add(batch(verdict("r2"), verdict("c2")), now=1_001.0)
    assert [one.request_id for one in late] == [f"{TRACE}:r2"]
    assembler.due(2_000.0)
    assert assembler.counts.feedback_unjoined == 1


def test_feedback_about_nothing_is_counted(assembler: Assembler) -> None:
    assembler.add(batch(verdict(None, NO_TRACE)), now=0.0)
    assert assembler.counts.feedback_unjoined == 1
    assert assembler.flush(now=1.0) == []


def test_memory_of_requests_is_bounded(late: list[LateFeedback]) -> None:
    assembler = Assembler(AssemblySettings(max_remembered_requests=2), late.append)
    for number in range(5):
        assembler.add(batch(*request(f"{number:032x}", f"s{number}", f"r{number}")), now=0.0)
    assembler.flush(now=1.0)
    assembler.due(1_000.0)
    for number in range(5):
        assembler.add(batch(verdict(None, f"{number:032x}")), now=1_001.0)
    assert [one.request_id[:32] for one in late] == [f"{3:032x}", f"{4:032x}"]


def test_a_message_is_held_until_its_late_feedback_is_safe(
    assembler: Assembler, late: list[LateFeedback]
) -> None:
    done: list[str] = []
    assembler.add(batch(*request()), now=0.0)
    assembler.due(12.0)
    assembler.due(1_000.0)
    receipt = Receipt(lambda: done.append("commit"))
    assembler.add(batch(BY_SPAN, receipt=receipt), now=1_001.0)
    receipt.release()
    (found,) = late
    assert done == []
    found.release()
    assert done == ["commit"]


def test_where_nobody_wants_late_feedback_its_message_is_not_held() -> None:
    done: list[str] = []
    assembler = Assembler(AssemblySettings())
    assembler.add(batch(*request()), now=0.0)
    assembler.due(12.0)
    assembler.due(1_000.0)
    receipt = Receipt(lambda: done.append("commit"))
    assembler.add(batch(BY_SPAN, receipt=receipt), now=1_001.0)
    receipt.release()
    assert done == ["commit"]
    assert (assembler.counts.feedback_unjoined, assembler.counts.feedback_joined) == (1, 0)


def test_one_verdict_told_two_ways_is_one(assembler: Assembler) -> None:
    assembler.add(batch(*request(), BY_SPAN, BY_LINK, verdict("root", label="copy")), now=0.0)
    (trace,) = traces(assembler.flush(now=1.0))
    assert sorted(labels(trace)) == ["copy", "thumbs_down"]


def test_a_judges_evaluation_is_no_feedback(assembler: Assembler) -> None:
    judged = log("gen_ai.evaluation.result", "chat", {"gen_ai.evaluation.name": "relevance",
                 "gen_ai.evaluation.score.value": 0.2})  # fmt: skip
    assembler.add(batch(*request(), judged), now=0.0)
    (trace,) = traces(assembler.flush(now=1.0))
    assert trace.feedback == ()


def test_messages_in_log_records_are_read_as_the_spans_own(assembler: Assembler) -> None:
    workflow = span("root", None, {"gen_ai.operation.name": "invoke_workflow"})
    chat = span("chat", "root", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
    question = log("gen_ai.user.message", "chat", {"content": "How long?"})
    answer = log("gen_ai.choice", "chat", {"index": 0, "message": {"content": "5 days", "role": "assistant"}})
    assert has_answer(answer, None)
    for order in ([question, answer, workflow, chat], [workflow, chat, answer, question]):
        fresh = Assembler(AssemblySettings())
        fresh.add(batch(*order), now=0.0)
        (trace,) = traces(fresh.due(12.0))
        assert (trace.query, trace.answer) == ("How long?", "5 days")
        assert trace.sources["answer"] == "genai_events gen_ai.choice"
        assert len(trace.instrumentation) == 1


def test_details_of_an_operation_in_a_log_record(assembler: Assembler) -> None:
    chat = span("chat", None, {"gen_ai.operation.name": "chat"})
    details = log("gen_ai.client.inference.operation.details", "chat", {
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "How long?"}]}],
        "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "5 days"}]}],
    })  # fmt: skip
    assembler.add(batch(chat, details), now=0.0)
    (trace,) = traces(assembler.flush(now=1.0))
    assert (trace.query, trace.answer) == ("How long?", "5 days")


def test_a_record_sent_again_is_no_news(assembler: Assembler) -> None:
    assembler.add(batch(*request(), BY_SPAN), now=0.0)
    assembler.due(12.0)
    assembler.add(batch(BY_SPAN), now=20.0)
    assert assembler.due(40.0) == []


def test_records_of_a_span_that_never_came_change_nothing(assembler: Assembler) -> None:
    assembler.add(batch(log("gen_ai.choice", "gone", {"message": {"content": "x"}})), now=0.0)
    assert traces(assembler.flush(now=1.0)) == []
