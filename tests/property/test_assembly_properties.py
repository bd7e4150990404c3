"""Requests do not depend on the order of spans or on how they were split over messages; no span is ever lost."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.anchors import Node, requests_in, taken_apart
from collectors.assembly import Assembler, AssemblySettings
from collectors.conventions import SpanKind, kind_of, spoken_of
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


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Node]:
    """One root, mostly a chain, and spans that nearly all stand below it: now and then an orphan, a ring, a second
    root, or a verdict on the whole trace."""
    count = draw(st.integers(1, 9))
    nodes = {}
    for number in range(count):
        below = st.integers(0, max(number - 1, 0)).map(str)
        odd = st.sampled_from([None, "lost", "*", *map(str, range(count))])
        parent = None if number == 0 else draw(st.one_of(below, below, below, odd))
        kind = "CHAIN" if number == 0 and draw(st.booleans()) else draw(KINDS)
        attributes: dict[str, AttributeValue] = {} if kind is None else {"openinference.span.kind": kind}
        span = Span("a" * 32, str(number), parent, "span", draw(st.integers(0, 5)), 9, attributes)
        nodes[span.span_id] = Node(span.span_id, parent, span, kind_of(span), spoken_of(span))
    order = draw(st.permutations(list(nodes)))
    return {key: nodes[key] for key in order}


@given(trees())
def test_a_plain_trace_is_the_request_that_taking_it_apart_gives(nodes: dict[str, Node]) -> None:
    assert requests_in(nodes) == taken_apart(nodes)


def test_most_traces_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [Span("a" * 32, str(number), parent, "s", 0, 1, {}) for number, parent in
             enumerate((None, "0", "1", "1"))]  # fmt: skip
    nodes = {span.span_id: Node(span.span_id, span.parent_id, span, SpanKind.CHAIN, spoken_of(span))
             for span in reversed(spans)}  # fmt: skip
    monkeypatch.setattr("collectors.anchors.taken_apart", lambda nodes: pytest.fail("taken apart"))
    assert [(one.anchor, one.keys) for one in requests_in(nodes)] == [("0", frozenset("0123"))]


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
