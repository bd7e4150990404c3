"""The spans of one request laid out for reading: its tree, what each span did, and fields by precedence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from collectors.conventions import (
    ANCHOR_KINDS,
    Field,
    Reading,
    SpanKind,
    Spoken,
    given,
    kind_of,
    read,
    spoken_of,
)
from collectors.conventions.spoken import together
from collectors.open_trace import Assembled
from collectors.span import Span, SpanEvent
from collectors.trace import Feedback, Flag

_STEPS = ANCHOR_KINDS | {SpanKind.RETRIEVER, SpanKind.RERANKER, SpanKind.LLM, SpanKind.TOOL}


class RequestView:
    """One assembled request. `flags` and `sources` gather what the readers say.

    Spans come in the order in which they are believed: the anchor, what stands above it, then what stands below,
    top-down by start time. `feedback` are the spans of other traces that link to this one.
    """

    def __init__(self, assembled: Assembled) -> None:
        own = [span for span in assembled.spans if span.trace_id == assembled.trace_id]
        self.feedback = [span for span in assembled.spans if span.trace_id != assembled.trace_id]
        self.kinds = assembled.kinds
        if any(span.is_log for span in own):
            own = _with_logs(own)
            self.kinds = {span.span_id: kind_of(span) for span in own}
        self.flags: set[Flag] = set(assembled.flags)
        self.sources: dict[str, str] = {}
        self.by_id = {span.span_id: span for span in own}
        self.anchor = self.by_id.get(assembled.anchor_span_id)
        self.tops: list[Span] = []
        self._by_kind: dict[SpanKind | None, list[Span]] = {}
        self._outermost: dict[SpanKind, list[Span]] = {}
        self._children: dict[str, list[Span]] = {}
        self._spoken: dict[str, Spoken] = {}
        self._place(own)
        self.spans = self._believed(own)
        self._rules = together(tuple(self._spoken[span.span_id] for span in self.spans))

    def _place(self, own: Sequence[Span]) -> None:
        kinds, by_id, by_kind, children = self.kinds, self.by_id, self._by_kind, self._children
        for span in own:
            span_id, parent_id = span.span_id, span.parent_id
            by_kind.setdefault(kinds[span_id], []).append(span)
            self._spoken[span_id] = spoken_of(span)
            if parent_id is None or parent_id not in by_id:
                self.tops.append(span)
            elif parent_id != span_id:
                children.setdefault(parent_id, []).append(span)

    def kind(self, span: Span) -> SpanKind | None:
        """What the span did."""
        return self.kinds[span.span_id]

    @property
    def is_anchored(self) -> bool:
        """Whether a span stands for the whole request: a workflow, chain or agent, or the root of its trace."""
        return self.anchor is not None and (
            self.kind(self.anchor) in ANCHOR_KINDS or self.anchor.parent_id is None
        )

    def of_kind(self, kind: SpanKind) -> list[Span]:
        """All spans of a kind by start time."""
        return self._by_kind.get(kind, [])

    def outermost(self, kind: SpanKind) -> list[Span]:
        """Spans of a kind that stand in no other of that kind: one step told at several depths counts once."""
        found = self._outermost.get(kind)
        if found is None:
            found = self.of_kind(kind)
            if len(found) > 1:
                found = [one for one in found if not any(self.kind(up) is kind for up in self.above(one))]
            self._outermost[kind] = found
        return found

    def nearest_below(self, span: Span, kind: SpanKind) -> list[Span]:
        """The topmost spans of a kind under this one."""
        found: list[Span] = []
        waiting = list(self._children.get(span.span_id, ()))
        while waiting:
            one = waiting.pop()
            if self.kind(one) is kind:
                found.append(one)
            else:
                waiting.extend(self._children.get(one.span_id, ()))
        return sorted(found, key=lambda one: one.start_ns)

    def above(self, span: Span) -> Iterator[Span]:
        """Parents, nearest first."""
        seen = {span.span_id}
        up = self.by_id.get(span.parent_id or "")
        while up is not None and up.span_id not in seen:
            seen.add(up.span_id)
            yield up
            up = self.by_id.get(up.parent_id or "")

    def speakers(self) -> Iterator[Span]:
        """The anchor, and what it merely wraps: its only step of weight, where that may stand for a request too."""
        span = self.anchor
        seen: set[str] = set()
        while span is not None and span.span_id not in seen:
            seen.add(span.span_id)
            yield span
            steps = [one for one in self._children.get(span.span_id, ()) if self.kind(one) in _STEPS]
            span = steps[0] if len(steps) == 1 and self.kind(steps[0]) in ANCHOR_KINDS else None

    def read(self, field: Field, span: Span, into: str | None = None) -> Any:
        """The field as this span gives it; `into` names the trace's field to note the source under."""
        if field not in self._rules:
            return None
        return self._noted(read(field, span, self.flags, self._spoken.get(span.span_id)), into)

    def first(self, field: Field, into: str | None = None) -> Any:
        """The field of the whole request: the highest-ranking convention first, then the most believed span."""
        return self._noted(next(self._readings(field), None), into) if field in self._rules else None

    def every(self, field: Field) -> list[Any]:
        """All values that spans give for a field of the whole request."""
        return [reading.value for reading in self._readings(field)]

    def first_of_each(self, field: Field) -> tuple[Reading, ...]:
        """What each rule of the field gives, from the most believed span on which it gives anything."""
        found: dict[int, Reading] = {}
        for ranked, place in self._rules.get(field, ()):
            if ranked.rank not in found:
                value = given(ranked.rule, self.spans[place], self.flags)
                if value is not None:
                    found[ranked.rank] = Reading(value, ranked.source)
        return tuple(found.values())

    def first_of(self, field: Field, spans: Sequence[Span], into: str | None = None) -> Any:
        """The field from the first of these spans that gives it."""
        for span in spans if field in self._rules else ():
            value = self.read(field, span, into)
            if value is not None:
                return value
        return None

    def topmost_values(self, field: Field, kinds: Collection[SpanKind | None], into: str) -> list[Any]:
        """Values of spans of these kinds, without those that stand below one that gave a value: a parent's count
        already holds its children's."""
        values: dict[str, Any] = {}
        for _, place in self._rules.get(field, ()):
            span = self.spans[place]
            if span.span_id not in values and self.kinds[span.span_id] in kinds:
                values[span.span_id] = self.read(field, span, into)
        giving = {name: value for name, value in values.items() if value is not None}
        if len(giving) < 2:
            return list(giving.values())
        return [
            giving[name]
            for name in sorted(giving)
            if giving.keys().isdisjoint(up.span_id for up in self.above(self.by_id[name]))
        ]

    def feedback_by_source(self) -> dict[str, list[Feedback]]:
        """Every person's verdict under the convention and attribute that told it."""
        told: dict[str, list[Feedback]] = {}
        for span in (*(self.spans if Field.FEEDBACK in self._rules else ()), *self.feedback):
            for ranked in spoken_of(span).rules.get(Field.FEEDBACK, ()):
                found = given(ranked.rule, span, self.flags)
                if found:
                    told.setdefault(ranked.source, []).extend(found)
        return told

    def _readings(self, field: Field) -> Iterator[Reading]:
        """By rank, then by belief."""
        for ranked, place in self._rules.get(field, ()):
            value = given(ranked.rule, self.spans[place], self.flags)
            if value is not None:
                yield Reading(value, ranked.source)

    def _noted(self, reading: Reading | None, into: str | None) -> Any:
        if reading is None:
            return None
        if into is not None:
            self.sources.setdefault(into, reading.source)
        return reading.value

    def _believed(self, own: Sequence[Span]) -> list[Span]:
        first = [] if self.anchor is None else [self.anchor, *self.above(self.anchor)]
        ordered = {span.span_id: span for span in first}
        for start in (first[:1], self.tops, own):
            row: Sequence[Span] = start
            while row and len(ordered) < len(own):
                for span in row:
                    ordered.setdefault(span.span_id, span)
                row = [
                    child
                    for span in row
                    for child in self._children.get(span.span_id, ())
                    if child.span_id not in ordered
                ]
        return list(ordered.values())


def _with_logs(own: Sequence[Span]) -> list[Span]:
    """The spans, log records as events of the spans that they stand under."""
    beside: dict[str | None, list[SpanEvent]] = {}
    for span in own:
        if span.is_log:
            beside.setdefault(span.parent_id, []).extend(span.events)
    found = [
        replace(span, events=(*span.events, *beside.pop(span.span_id, ()))) for span in own if not span.is_log
    ]
    return found + [span for span in own if span.is_log and span.parent_id in beside]
