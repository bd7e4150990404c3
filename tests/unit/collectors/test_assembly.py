"""Waiting, splitting, revisions, feedback, receipts and memory of the assembler."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.assembly import Assembled, Assembler, AssemblySettings
from collectors.span import AttributeValue, Receipt, Span, SpanBatch, SpanLink, StatusCode
from collectors.trace import Flag

TRACE = "a" * 32
CHAIN: dict[str, AttributeValue] = {"openinference.span.kind": "CHAIN"}
WORKFLOW: dict[str, AttributeValue] = {"gen_ai.operation.name": "invoke_workflow"}
RETRIEVER: dict[str, AttributeValue] = {"openinference.span.kind": "RETRIEVER"}
MODEL: dict[str, AttributeValue] = {"openinference.span.kind": "LLM"}
ANSWER: dict[str, AttributeValue] = {"openinference.span.kind": "LLM", "output.value": "5 days"}


def span(
    span_id: str,
    parent: str | None = None,
    attributes: dict[str, AttributeValue] | None = None,
    trace_id: str = TRACE,
    start_ns: int = 0,
    **more: Any,
) -> Span:
    return Span(trace_id, span_id, parent, span_id, start_ns, start_ns + 1, attributes or {}, **more)


def feedback(target_trace: str, target_span: str, span_id: str = "f1") -> Span:
    return span(
        span_id,
        attributes={
            "openinference.span.kind": "EVALUATOR",
            "trace.annotations.0.annotation.name": "user_feedback",
            "trace.annotations.0.annotation.label": "regenerate",
        },
        trace_id="f" * 32,
        links=(SpanLink(target_trace, target_span, {}),),
    )


def batch(*spans: Span, receipt: Receipt | None = None) -> SpanBatch:
    return SpanBatch(spans, receipt=receipt)


def shapes(assembled: list[Assembled]) -> list[tuple[str, set[str], int]]:
    return [(one.anchor_span_id, {span.span_id for span in one.spans}, one.revision) for one in assembled]


@pytest.fixture
def assembler() -> Assembler:
    return Assembler(AssemblySettings())


def test_an_answered_request_closes_after_the_short_wait(assembler: Assembler) -> None:
    assembler.add(batch(span("r", None, CHAIN), span("m", "r", ANSWER)), now=100.0)
    assert assembler.due(111.9) == []
    (one,) = assembler.due(112.0)
    assert shapes([one]) == [("r", {"r", "m"}, 0)]
    assert one.has_root
    assert one.flags == frozenset()
    assert assembler.counts.closed == {"answered": 1}


def test_every_new_span_starts_the_wait_again(assembler: Assembler) -> None:
    assembler.add(batch(span("m", "r", ANSWER)), now=100.0)
    assembler.add(batch(span("r", None, CHAIN)), now=110.0)
    assert assembler.due(121.0) == []
    assert len(assembler.due(122.0)) == 1


def test_without_an_answer_it_waits_until_idle(assembler: Assembler) -> None:
    assembler.add(batch(span("r", None, CHAIN)), now=0.0)
    assert assembler.due(29.0) == []
    assert len(assembler.due(30.0)) == 1
    assert assembler.counts.closed == {"idle": 1}


def test_a_failed_root_is_an_ending(assembler: Assembler) -> None:
    assembler.add(batch(span("r", None, CHAIN, status=StatusCode.ERROR)), now=0.0)
    assert len(assembler.due(12.0)) == 1


def test_an_answer_may_come_earlier_than_the_idle_deadline_said(assembler: Assembler) -> None:
    assembler.add(batch(span("r", None, CHAIN)), now=0.0)
    assembler.add(batch(span("m", "r", ANSWER)), now=1.0)
    assert len(assembler.due(13.0)) == 1


def test_a_trace_that_goes_on_is_closed_at_the_longest_wait(assembler: Assembler) -> None:
    for second in range(0, 120, 5):
        assembler.add(batch(span(f"s{second}", "r", RETRIEVER)), now=float(second))
        assert assembler.due(float(second)) == []
    assert len(assembler.due(120.0)) == 1
    assert assembler.counts.closed == {"max_wait": 1}


def test_late_spans_make_a_revision_with_all_spans(assembler: Assembler) -> None:
    assembler.add(batch(span("r", None, CHAIN), span("m", "r", ANSWER)), now=0.0)
    assembler.due(12.0)
    assembler.add(batch(span("x", "r", RETRIEVER)), now=200.0)
    assert assembler.due(211.0) == []
    (one,) = assembler.due(212.0)
    assert shapes([one]) == [("r", {"r", "m", "x"}, 1)]
    assert Flag.LATE_REVISION in one.flags
    assert assembler.counts.revisions == 1


def test_after_the_revision_window_the_trace_is_forgotten(assembler: Assembler) -> None:
    assembler.add(batch(span("r", None, CHAIN), span("m", "r", ANSWER)), now=0.0)
    assembler.due(12.0)
    assert assembler.counts.open_spans == 2
    assert assembler.due(312.0) == []
    assert assembler.counts.open_spans == 0
    assert assembler.counts.open_traces == 0
    assembler.add(batch(span("x", "r", RETRIEVER)), now=313.0)
    assert [one.revision for one in assembler.due(400.0)] == [0]


def test_the_same_span_again_is_flagged_and_no_news(assembler: Assembler) -> None:
    assembler.add(batch(span("r", None, ANSWER), span("r", None, ANSWER)), now=0.0)
    (one,) = assembler.due(12.0)
    assert Flag.DUPLICATE_SPANS in one.flags
    assembler.add(batch(span("r", None, ANSWER)), now=20.0)
    assert assembler.due(100.0) == []
    assert assembler.counts.duplicate_spans == 2
    assert assembler.counts.open_spans == 1


def test_the_last_writer_of_a_span_wins(assembler: Assembler) -> None:
    assembler.add(batch(span("r", None, CHAIN)), now=0.0)
    assembler.add(batch(span("r", None, ANSWER)), now=1.0)
    (one,) = assembler.flush(2.0)
    assert one.spans[0].attributes == ANSWER


def test_an_http_server_above_one_workflow_is_one_request_named_after_the_workflow(
    assembler: Assembler,
) -> None:
    spans = [span("h"), span("w", "h", WORKFLOW), span("x", "w", RETRIEVER), span("m", "w", ANSWER)]
    assembler.add(batch(*spans), now=0.0)
    assert shapes(assembler.flush(1.0)) == [("w", {"h", "w", "x", "m"}, 0)]


def test_the_name_does_not_change_when_the_http_server_comes_late(assembler: Assembler) -> None:
    assembler.add(batch(span("w", "h", WORKFLOW), span("m", "w", ANSWER)), now=0.0)
    (first,) = assembler.due(12.0)
    assert first.flags == {Flag.NO_ROOT, Flag.ORPHAN_PARENT}
    assembler.add(batch(span("h")), now=13.0)
    (second,) = assembler.due(25.0)
    assert (first.anchor_span_id, second.anchor_span_id) == ("w", "w")
    assert second.flags == {Flag.LATE_REVISION}


def test_the_name_does_not_change_when_a_truer_top_comes_late(assembler: Assembler) -> None:
    assembler.add(batch(span("c", "r", CHAIN), span("m", "c", ANSWER)), now=0.0)
    assert shapes(assembler.due(12.0)) == [("c", {"c", "m"}, 0)]
    assembler.add(batch(span("r", None, CHAIN), span("d", "r", CHAIN)), now=13.0)
    assert shapes(assembler.due(25.0)) == [("c", {"r", "c", "d", "m"}, 1)]


def test_orphans_of_one_missing_parent_are_one_request(assembler: Assembler) -> None:
    spans = [
        span("c1", "r", CHAIN),
        span("x", "c1", RETRIEVER),
        span("c2", "r", CHAIN),
        span("m", "r", ANSWER),
    ]
    assembler.add(batch(*spans), now=0.0)
    (one,) = assembler.flush(1.0)
    assert shapes([one]) == [("r", {"c1", "x", "c2", "m"}, 0)]
    assert one.flags == {Flag.NO_ROOT, Flag.ORPHAN_PARENT}


def test_steps_of_an_agent_without_its_root_are_one_request(assembler: Assembler) -> None:
    spans = [
        span("c1", "r", CHAIN), span("m1", "c1", MODEL), span("c2", "r", CHAIN), span("x", "c2", RETRIEVER),
        span("c3", "r", CHAIN), span("m2", "c3", ANSWER),
    ]  # fmt: skip
    assembler.add(batch(*spans), now=0.0)
    assert [one.anchor_span_id for one in assembler.flush(1.0)] == ["r"]


def test_a_trace_of_several_requests_gives_each(assembler: Assembler) -> None:
    spans = [
        span("h"),
        span("w1", "h", WORKFLOW, start_ns=5), span("x1", "w1", RETRIEVER), span("m1", "w1", ANSWER),
        span("w2", "h", WORKFLOW, start_ns=9), span("x2", "w2", RETRIEVER), span("m2", "w2", ANSWER),
    ]  # fmt: skip
    assembler.add(batch(*spans), now=0.0)
    given = assembler.flush(1.0)
    assert {anchor: members for anchor, members, _ in shapes(given)} == {
        "w1": {"h", "w1", "x1", "m1"},
        "w2": {"h", "w2", "x2", "m2"},
    }
    assert all(Flag.MULTI_REQUEST_TRACE in one.flags for one in given)


def test_pieces_of_requests_in_one_trace_go_together_by_time(assembler: Assembler) -> None:
    """One streaming call joined all that followed to its trace, and most parents never came."""
    pieces = [
        span("d1", "gone1", RETRIEVER, start_ns=10),
        span("s1", "gone2", start_ns=11),
        span("m1", "gone3", MODEL, start_ns=12),
        span("w2", "gone3", WORKFLOW, start_ns=20),
        span("d2", "w2", RETRIEVER, start_ns=21),
        span("m2", "w2", ANSWER, start_ns=22),
        span("d3", "gone4", RETRIEVER, start_ns=30),
        span("d4", "gone5", RETRIEVER, start_ns=40),
        span("m4", "gone6", MODEL, start_ns=41),
        span("w5", "gone3", WORKFLOW, start_ns=50),
        span("d5", "w5", RETRIEVER, start_ns=51),
    ]
    assembler.add(batch(*reversed(pieces)), now=0.0)
    found = assembler.flush(now=1.0)
    assert [{one.span_id for one in request.spans} for request in found] == [
        {"d1", "s1", "m1"},
        {"w2", "d2", "m2"},
        {"d3"},
        {"d4", "m4"},
        {"w5", "d5"},
    ]
    assert all({Flag.ORPHAN_PARENT, Flag.MULTI_REQUEST_TRACE} <= request.flags for request in found)


def test_only_the_request_with_news_is_revised(assembler: Assembler) -> None:
    spans = [
        span("w1", None, WORKFLOW),
        span("m1", "w1", ANSWER),
        span("w2", None, WORKFLOW),
        span("m2", "w2", ANSWER),
    ]
    assembler.add(batch(*spans), now=0.0)
    assert len(assembler.due(12.0)) == 2
    assembler.add(batch(span("x2", "w2", RETRIEVER)), now=13.0)
    assert shapes(assembler.due(25.0)) == [("w2", {"w2", "m2", "x2"}, 1)]


def test_a_gap_in_the_middle_does_not_tear_a_request(assembler: Assembler) -> None:
    assembler.add(
        batch(span("r", None, CHAIN), span("m", "r", ANSWER), span("x", "lost", RETRIEVER)), now=0.0
    )
    (one,) = assembler.flush(1.0)
    assert shapes([one]) == [("r", {"r", "m", "x"}, 0)]
    assert one.flags == {Flag.ORPHAN_PARENT}


def test_spans_that_are_their_own_ancestors_are_kept(assembler: Assembler) -> None:
    assembler.add(batch(span("a", "b", CHAIN), span("b", "a"), span("c", "c"), span("d", "b")), now=0.0)
    given = assembler.flush(1.0)
    assert {one.span_id for request in given for one in request.spans} == {"a", "b", "c", "d"}


def test_feedback_by_link_revises_the_request(assembler: Assembler) -> None:
    assembler.add(batch(span("h"), span("w", "h", WORKFLOW), span("m", "w", ANSWER)), now=0.0)
    assembler.due(12.0)
    assembler.add(batch(feedback(TRACE, "h")), now=60.0)
    (one,) = assembler.due(72.0)
    assert shapes([one]) == [("w", {"h", "w", "m", "f1"}, 1)]
    assert assembler.counts.feedback_joined == 1
    assert assembler.counts.open_traces == 1


def test_feedback_that_comes_first_waits_for_its_request(assembler: Assembler) -> None:
    finished: list[str] = []
    receipt = Receipt(lambda: finished.append("feedback"))
    assembler.add(batch(feedback(TRACE, "w"), receipt=receipt), now=0.0)
    receipt.release()
    assembler.add(batch(span("w", None, WORKFLOW), span("m", "w", ANSWER)), now=5.0)
    (one,) = assembler.due(17.0)
    assert shapes([one]) == [("w", {"w", "m", "f1"}, 0)]
    assert finished == []
    one.release()
    assert finished == ["feedback"]


def test_feedback_whose_request_never_comes_is_counted_and_let_go(assembler: Assembler) -> None:
    finished: list[str] = []
    receipt = Receipt(lambda: finished.append("feedback"))
    assembler.add(batch(feedback(TRACE, "w"), receipt=receipt), now=0.0)
    receipt.release()
    assert assembler.due(299.0) == []
    assert finished == []
    assembler.due(300.0)
    assert assembler.counts.feedback_unjoined == 1
    assert finished == ["feedback"]


def test_a_link_between_requests_is_no_feedback(assembler: Assembler) -> None:
    linked = span("w", None, ANSWER, links=(SpanLink("b" * 32, "x", {}),))
    assembler.add(batch(linked), now=0.0)
    assert shapes(assembler.flush(1.0)) == [("w", {"w"}, 0)]


def test_a_receipt_is_held_until_every_request_of_its_message_is_released(assembler: Assembler) -> None:
    finished: list[str] = []
    receipt = Receipt(lambda: finished.append("done"))
    other = span("o", None, ANSWER, trace_id="b" * 32)
    spans = [span("w1", None, WORKFLOW), span("w2", None, WORKFLOW), other]
    assembler.add(batch(*spans, receipt=receipt), now=0.0)
    receipt.release()
    given = assembler.flush(1.0)
    assert len(given) == 3
    for one in given:
        assert finished == []
        one.release()
    assert finished == ["done"]


def test_a_message_of_nothing_new_is_not_held(assembler: Assembler) -> None:
    assembler.add(batch(span("r", None, ANSWER)), now=0.0)
    assembler.due(12.0)
    finished: list[str] = []
    receipt = Receipt(lambda: finished.append("done"))
    assembler.add(batch(span("r", None, ANSWER), receipt=receipt), now=13.0)
    receipt.release()
    assert finished == ["done"]


def test_over_the_cap_closed_traces_go_first_and_open_ones_are_closed_early() -> None:
    assembler = Assembler(AssemblySettings(max_open_spans=3))
    assembler.add(batch(span("a", None, ANSWER, trace_id="a" * 32)), now=0.0)
    assembler.add(batch(span("b", None, CHAIN, trace_id="b" * 32)), now=1.0)
    assert len(assembler.due(12.0)) == 1
    assembler.add(
        batch(span("c", None, CHAIN, trace_id="c" * 32), span("d", "c", trace_id="c" * 32)), now=13.0
    )
    assert assembler.counts.forgotten_early == 1
    assert assembler.due(13.0) == []
    assembler.add(batch(span("e", "c", trace_id="c" * 32)), now=14.0)
    (early,) = assembler.due(14.0)
    assert early.trace_id == "b" * 32
    assert Flag.SPANS_CAPPED in early.flags
    assert assembler.counts.closed["memory"] == 1
    assert assembler.counts.open_spans <= 3


def test_a_trace_without_end_is_given_in_parts() -> None:
    assembler = Assembler(AssemblySettings(max_spans_per_trace=10))
    for number in range(25):
        assembler.add(batch(span(f"s{number:02}", "r", RETRIEVER)), now=0.0)
        assert assembler.counts.open_spans < 10
    given = assembler.flush(1.0)
    assert [len(one.spans) for one in given] == [10, 10, 5]
    assert [Flag.SPANS_CAPPED in one.flags for one in given] == [True, True, False]


def test_in_a_trace_without_end_requests_age_one_by_one(assembler: Assembler) -> None:
    for number in range(100):
        now = 60.0 * number
        assembler.add(
            batch(span(f"w{number}", None, WORKFLOW), span(f"m{number}", f"w{number}", ANSWER)), now=now
        )
        given = assembler.due(now + 12)
        assert shapes(given) == [(f"w{number}", {f"w{number}", f"m{number}"}, 0)]
        assert assembler.counts.open_spans <= 14


def test_flush_gives_everything_once(assembler: Assembler) -> None:
    assembler.add(batch(span("r", None, CHAIN)), now=0.0)
    assert len(assembler.flush(0.0)) == 1
    assert assembler.flush(0.0) == []
