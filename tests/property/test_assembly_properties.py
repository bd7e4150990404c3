"""Requests do not depend on the order of spans or on how they were split over messages; no span is ever lost."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from collectors.assembly import Assembler, AssemblySettings
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.span import AttributeValue, Receipt, Span, SpanBatch

KINDS = st.sampled_from([None, "CHAIN", "AGENT", "RETRIEVER", "LLM", "EMBEDDING"])


@st.composite
def traces(draw: st.DrawFn) -> list[Span]:
    """Spans of one or two traces with any parents: missing ones, rings and themselves included."""
    count = draw(st.integers(1, 12))
    parents = st.one_of(st.none(), st.integers(0, count + 2).map(lambda number: f"{number:016x}"))
    spans = []
    for number in range(count):
        attributes: dict[str, AttributeValue] = {}
        kind = draw(KINDS)
        if kind is not None:
            attributes["openinference.span.kind"] = kind
        if draw(st.booleans()):
            attributes["output.value"] = f"said {number}"
            attributes["input.value"] = f"asked {number}"
        trace_id = draw(st.sampled_from(["a" * 32, "b" * 32]))
        start = draw(st.integers(0, 5))
        spans.append(Span(trace_id, f"{number:016x}", draw(parents), "span", start, start + 1, attributes))
    return spans


def assembled(spans: list[Span], sizes: list[int]) -> set[tuple[object, ...]]:
    assembler = Assembler(AssemblySettings())
    rest = list(spans)
    for size in [*sizes, len(spans)]:
        assembler.add(SpanBatch(tuple(rest[:size])), now=0.0)
        rest = rest[size:]
    return {
        (one.trace_id, one.anchor_span_id, tuple(span.span_id for span in one.spans), one.flags, one.has_root)
        for one in assembler.flush(now=1.0)
    }


@given(traces(), st.randoms(use_true_random=False), st.lists(st.integers(0, 5), max_size=5))
def test_neither_order_nor_split_matters(spans: list[Span], shuffle: random.Random, sizes: list[int]) -> None:
    expected = assembled(spans, [])
    shuffled = list(spans)
    shuffle.shuffle(shuffled)
    assert assembled(shuffled, sizes) == expected


def told(spans: list[Span]) -> set[str]:
    assembler = Assembler(AssemblySettings())
    assembler.add(SpanBatch(tuple(spans)), now=0.0)
    found = map(Normaliser(NormaliseSettings()).normalise, assembler.flush(now=1.0))
    return {
        json.dumps(trace.model_dump(mode="json") | {"flags": sorted(trace.flags)}, sort_keys=True)
        for trace in found
        if trace is not None
    }


@given(traces(), st.randoms(use_true_random=False))
def test_what_the_traces_tell_does_not_depend_on_order(spans: list[Span], shuffle: random.Random) -> None:
    shuffled = list(spans)
    shuffle.shuffle(shuffled)
    assert told(shuffled) == told(spans)


@given(traces())
def test_every_span_is_in_a_request(spans: list[Span]) -> None:
    given_spans = {(trace_id, one) for trace_id, _, members, *_ in assembled(spans, []) for one in members}  # type: ignore[attr-defined]
    assert given_spans == {(span.trace_id, span.span_id) for span in spans}


@given(traces(), st.lists(st.floats(0, 200), min_size=1, max_size=8), st.integers(2, 8))
def test_every_message_is_finished_once_all_requests_are(
    spans: list[Span], pauses: list[float], cap: int
) -> None:
    assembler = Assembler(AssemblySettings(max_open_spans=cap, max_spans_per_trace=5))
    finished: list[int] = []
    given_requests = []
    now = 0.0
    for number, span in enumerate(spans):
        receipt = Receipt(lambda number=number: finished.append(number))  # type: ignore[misc]
        assembler.add(SpanBatch((span,), receipt=receipt), now)
        receipt.release()
        given_requests.extend(assembler.due(now))
        assert assembler.counts.open_spans <= cap
        now += pauses[number % len(pauses)]
    given_requests.extend(assembler.flush(now))
    for one in given_requests:
        one.release()
    assert sorted(finished) == list(range(len(spans)))
