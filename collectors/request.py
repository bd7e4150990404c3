"""The spans of one request laid out for reading: its tree, what each span did, and fields by precedence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from collectors.conventions import ANCHOR_KINDS, Field, Reading, SpanKind, given, kind_of, read, spoken_of
from collectors.layout import NOWHERE, layout_of
from collectors.open_trace import Assembled
from collectors.span import Span, SpanEvent
from collectors.trace import Feedback, Flag


class RequestView:
    """One assembled request. `flags` and `sources` gather what the readers say.

    Spans come in the order in which they are believed: the anchor, what stands above it, then what stands below,
    top-down by start time. `feedback` are the spans of other traces that link to this one.
    """

    def __init__(self, assembled: Assembled) -> None:
        own, spoken, kinds = assembled.spans, assembled.spoken, assembled.kinds
        self.feedback = [span for span in own if span.trace_id != assembled.trace_id]
        has_logs = any(span.is_log for span in own)
        if self.feedback or has_logs:
            own = tuple(span for span in own if span.trace_id == assembled.trace_id)
            own = _with_logs(own) if has_logs else own
            spoken, kinds = tuple(map(spoken_of, own)), tuple(map(kind_of, own))
        self.flags: set[Flag] = set(assembled.flags)
        self.sources: dict[str, str] = {}
        self._own = own
        self._places = {span.span_id: place for place, span in enumerate(own)}
        parents = tuple([self._places.get(span.parent_id or "", NOWHERE) for span in own])
        anchor = self._places.get(assembled.anchor_span_id, NOWHERE)
        self._layout = layout = layout_of(spoken, kinds, parents, anchor)
        self._rules = layout.rules
        self.kinds = layout.by_kind.keys()
        self.anchor = None if anchor == NOWHERE else own[anchor]
        self.spans = [own[place] for place in layout.believed]
        self.speakers = [own[place] for place in layout.speakers]

    def kind(self, span: Span) -> SpanKind | None:
        """What the span did."""
        return self._layout.kinds[self._places[span.span_id]]

    @property
    def is_anchored(self) -> bool:
        """Whether a span stands for the whole request: a workflow, chain or agent, or the root of its trace."""
        return self.anchor is not None and (
            self.kind(self.anchor) in ANCHOR_KINDS or self.anchor.parent_id is None
        )

    def of_kind(self, kind: SpanKind) -> list[Span]:
        """All spans of a kind by start time."""
        return [self._own[place] for place in self._layout.by_kind.get(kind, ())]

    def outermost(self, kind: SpanKind) -> list[Span]:
        """Spans of a kind that stand in no other of that kind: one step told at several depths counts once."""
        return [self._own[place] for place in self._layout.outermost(kind)]

    def nearest_below(self, span: Span, kind: SpanKind) -> list[Span]:
        """The topmost spans of a kind under this one."""
        return [self._own[place] for place in self._layout.nearest_below(self._places[span.span_id], kind)]

    def above(self, span: Span) -> Iterator[Span]:
        """Parents, nearest first."""
        return (self._own[place] for place in self._layout.above(self._places[span.span_id]))

    def with_parents(self) -> Iterator[tuple[Span, Span | None]]:
        """Every span with its parent; None where that is none of the request."""
        for span, parent in zip(self._own, self._layout.parents, strict=True):
            yield span, None if parent == NOWHERE else self._own[parent]

    def read(self, field: Field, span: Span, into: str | None = None) -> Any:
        """The field as this span gives it; `into` names the trace's field to note the source under."""
        if field not in self._rules:
            return None
        return self._read(field, self._places[span.span_id], into)

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
                value = given(ranked.rule, self._own[place], self.flags)
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
        values: dict[int, Any] = {}
        for _, place in self._rules.get(field, ()):
            if place not in values and self._layout.kinds[place] in kinds:
                values[place] = self._read(field, place, into)
        giving = {place: value for place, value in values.items() if value is not None}
        if len(giving) < 2:
            return list(giving.values())
        return [
            giving[place]
            for place in sorted(giving, key=lambda place: self._own[place].span_id)
            if giving.keys().isdisjoint(self._layout.above(place))
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
            value = given(ranked.rule, self._own[place], self.flags)
            if value is not None:
                yield Reading(value, ranked.source)

    def _read(self, field: Field, place: int, into: str | None) -> Any:
        return self._noted(read(field, self._own[place], self.flags, self._layout.spoken[place]), into)

    def _noted(self, reading: Reading | None, into: str | None) -> Any:
        if reading is None:
            return None
        if into is not None:
            self.sources.setdefault(into, reading.source)
        return reading.value


def _with_logs(own: Sequence[Span]) -> tuple[Span, ...]:
    """The spans, log records as events of the spans that they stand under."""
    beside: dict[str | None, list[SpanEvent]] = {}
    for span in own:
        if span.is_log:
            beside.setdefault(span.parent_id, []).extend(span.events)
    found = [
        replace(span, events=(*span.events, *beside.pop(span.span_id, ()))) for span in own if not span.is_log
    ]
    return (*found, *(span for span in own if span.is_log and span.parent_id in beside))
