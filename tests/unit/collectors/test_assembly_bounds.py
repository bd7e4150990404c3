"""What assembly holds is bounded in spans and in bytes, and what it does for each span does not grow with what it
holds: counted in spans walked, not in seconds."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from collectors import open_trace
from collectors.assembly import Assembler, AssemblySettings
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.span import AttributeValue, Receipt, Span, SpanBatch

KIND = "openinference.span.kind"


def span(number: int, parent: int | None = None, kind: str = "TOOL", trace: int = 1, size: int = 0) -> Span:
    attributes: dict[str, AttributeValue] = {KIND: kind, "output.value": f"said {number}"}
    return Span(
        f"{trace:032x}",
        f"{number:016x}",
        None if parent is None else f"{parent:016x}",
        "step",
        number,
        number + 1,
        attributes,
        wire_bytes=size,
    )


def batch(spans: Iterable[Span], receipt: Receipt | None = None) -> SpanBatch:
    return SpanBatch(tuple(spans), receipt=receipt)


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of spans of each walk over a trace."""
    counts: list[int] = []
    whole = open_trace.requests_in

    def counted(nodes: dict[str, object]) -> object:
        counts.append(len(nodes))
        return whole(nodes)  # type: ignore[arg-type]

    monkeypatch.setattr(open_trace, "requests_in", counted)
    return counts


def test_bytes_are_bounded_and_what_made_room_is_counted() -> None:
    assembler = Assembler(AssemblySettings(max_open_bytes=100_000))
    for trace in range(1, 31):
        assembler.add(batch([span(1, None, "CHAIN", trace, size=9_000)]), now=0.0)
        assert assembler.counts.open_bytes <= 100_000
    assert assembler.counts.open_spans == assembler.counts.open_traces == 100_000 // (9_000 + 1024)
    assert assembler.counts.closed["memory"] == 30 - assembler.counts.open_traces
    assert len(assembler.due(0.0)) == 30 - assembler.counts.open_traces, "closed early is not lost"


def test_a_span_larger_than_the_cap_is_given_at_once() -> None:
    assembler = Assembler(AssemblySettings(max_open_bytes=5_000))
    assembler.add(batch([span(1, None, "CHAIN", size=50_000)]), now=0.0)
    assert len(assembler.due(0.0)) == 1
    assert assembler.counts.open_bytes == assembler.counts.open_spans == 0


def test_another_version_of_a_span_is_held_in_place_of_the_first() -> None:
    assembler = Assembler(AssemblySettings())
    assembler.add(batch([span(1, None, "CHAIN", size=5_000)]), now=0.0)
    changed = span(1, None, "AGENT", size=700)
    assembler.add(batch([changed, changed]), now=1.0)
    assert assembler.counts.open_bytes == 700 + 1024
    assert assembler.counts.duplicate_spans == 2
    assembler.due(100.0)
    assembler.due(1_000.0)
    assert assembler.counts.open_bytes == assembler.counts.open_spans == assembler.counts.open_traces == 0


def test_feedback_that_waits_is_bounded_too() -> None:
    finished: list[int] = []
    assembler = Assembler(AssemblySettings(max_open_traces=10))
    for number in range(1, 101):
        receipt = Receipt(lambda number=number: finished.append(number))  # type: ignore[misc]
        verdict: dict[str, AttributeValue] = {
            KIND: "EVALUATOR",
            "annotations.0.annotation.name": "user_feedback",
            "annotations.0.annotation.label": "thumbs_up",
            "session.id": "s-1",
        }
        told = Span(f"{number:032x}", f"{number:016x}", None, "rate", 0, 1, verdict)
        assembler.add(batch([told], receipt), now=0.0)
        receipt.release()
    assert assembler.counts.feedback_unjoined == 90
    assert finished == list(range(1, 91))


def test_a_request_of_ten_thousand_spans_is_walked_a_few_times(walked: list[int]) -> None:
    settings = AssemblySettings(max_spans_per_trace=20_000)
    assembler, normaliser = Assembler(settings), Normaliser(NormaliseSettings())
    spans = [span(1, None, "WORKFLOW"), *(span(n, n // 2, "RETRIEVER") for n in range(2, 10_001))]
    for start in range(0, len(spans), 100):
        assembler.add(batch(spans[start : start + 100]), now=float(start) / 1000)
    (request,) = assembler.due(200.0)
    assert len(request.spans) == 10_000
    assert sum(walked) <= 2 * 10_000
    trace = normaliser.normalise(request)
    assert trace is not None
    assert len(trace.retrievals) <= 10_000


def test_a_trace_that_never_ends_costs_the_same_for_each_span(walked: list[int]) -> None:
    """One span a second, each under a parent that never comes; the trace is given in parts of `most`."""
    most = 1_000
    assembler = Assembler(AssemblySettings(max_spans_per_trace=most))
    costs = []
    for part in range(4):
        before, given = sum(walked), 0
        for second in range(part * most, (part + 1) * most):
            assembler.add(batch([span(second + 2, 1)]), now=float(second))
            given += sum(len(one.spans) for one in assembler.due(float(second)))
            assert assembler.counts.open_spans < most
        costs.append(sum(walked) - before + given)
    assert len(set(costs[1:])) == 1, "the second part costs what the fourth does"
    assert max(costs) <= 20 * most
