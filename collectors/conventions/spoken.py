"""Which rules can say anything of a span, worked out once for each shape of span.

All conventions together have some two hundred rules, a span has the attributes of a few of them, and a service's spans
come in a few dozen shapes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from collectors.conventions.convention import Convention, Field, Rule, SpanKind
from collectors.shape import Shape, shape_of
from collectors.span import Span

_SHAPES = 2048
"""Shapes for which it is remembered at most."""


class RankedRule(NamedTuple):
    """A rule of a field; the lower its rank, the more it is believed. `source` is the convention and attribute."""

    rank: int
    source: str
    rule: Rule


Rules = Mapping[Field, tuple[RankedRule, ...]]


@dataclass(slots=True, frozen=True, eq=False)
class Spoken:
    """What can be said of spans of one shape, whatever is in them."""

    rules: Rules
    """By field, those of the lowest rank first."""
    kinds: tuple[Callable[[Span], SpanKind | None], ...]
    """What may name the kind of span, the most believed first."""
    answers: bool
    """Something shows that a model or a request has answered."""
    judges: bool
    """It may hold a person's verdict."""
    refers: tuple[str, ...]
    """Its attributes that name its response or its session, by which others may refer to its request."""


class Speech:
    """Finds what can be said of a span by its shape, given all rules; the conventions that name kinds, those that are
    believed first; and the names by which spans answer, judge and refer."""

    def __init__(
        self,
        rules: Rules,
        kinds: Sequence[Convention],
        *,
        answers: frozenset[str],
        judges: frozenset[str],
        refers: tuple[str, ...],
    ) -> None:
        self._kinds, self._answers, self._judges, self._refers = kinds, answers, judges, refers
        self._exact: dict[str, list[tuple[Field, RankedRule]]] = {}
        self._spread: list[tuple[str, Field, RankedRule]] = []
        for field, ranked in rules.items():
            for one in ranked:
                if one.rule.spread:
                    marks = one.rule.shown_by or (one.rule.attribute,)
                    self._spread.extend((mark, field, one) for mark in marks)
                else:
                    self._exact.setdefault(one.rule.attribute, []).append((field, one))
        self._of_shape = lru_cache(_SHAPES)(self._find)

    def of(self, span: Span) -> Spoken:
        """What can be said of this span."""
        events = tuple({event.name: None for event in span.events}) if span.events else ()
        return self._of_shape(shape_of(span.attributes), events)

    def _find(self, shape: Shape, events: tuple[str, ...]) -> Spoken:
        names = shape.members.union(events)
        return Spoken(
            rules=self._rules(shape, events, names),
            kinds=tuple(
                one.kind_of
                for one in self._kinds
                if not one.kinds_by or shape.members.intersection(one.kinds_by)
            ),
            answers=not names.isdisjoint(self._answers),
            judges=not names.isdisjoint(self._judges),
            refers=tuple(name for name in self._refers if name in shape.members),
        )

    def _rules(self, shape: Shape, events: tuple[str, ...], names: frozenset[str]) -> Rules:
        found: dict[Field, set[RankedRule]] = {}
        for name in names:
            for field, one in self._exact.get(name, ()):
                if name in (events if one.rule.event else shape.members):
                    found.setdefault(field, set()).add(one)
        for mark, field, one in self._spread:
            if mark in names or _begins(shape.names, mark):
                found.setdefault(field, set()).add(one)
        return {field: tuple(sorted(ranked)) for field, ranked in found.items()}


def _begins(names: tuple[str, ...], prefix: str) -> bool:
    """Whether one of these names, which are in alphabetical order, begins so."""
    at = bisect_left(names, prefix)
    return at < len(names) and names[at].startswith(prefix)
