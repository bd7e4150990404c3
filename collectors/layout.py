"""What follows from how a request's spans hang together and from what each of them did and may say: its tree, the order
of belief, the rules to ask. Values play no part, so it is worked out once for all requests of one layout.

A service answers request after request in the same few layouts; only the values differ. Spans are named by their place
in the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from collectors.conventions import ANCHOR_KINDS, Field, SpanKind, Spoken
from collectors.conventions.spoken import RankedRule

_STEPS = ANCHOR_KINDS | {SpanKind.RETRIEVER, SpanKind.RERANKER, SpanKind.LLM, SpanKind.TOOL}
_LAYOUTS = 256
"""Layouts remembered at most, those used last."""
_MOST_SPANS = 64
"""One of more spans is not remembered, so that what is remembered stays small."""

NOWHERE = -1
"""The place of a parent that there is none of, or that did not come."""


class Layout:
    """The places of a request's spans, in the order in which they are given (by start).

    `parents` holds the place of each span's parent, its own where it names itself. `believed` are the places in the
    order in which spans are believed: the anchor, what stands above it, then what stands below, top-down. `rules` are
    those that can say anything of the request, by field, each with the place of its span: by rank, then by belief.
    """

    __slots__ = ("_children", "_outermost", "anchor", "believed", "by_kind", "kinds", "parents", "rules",
                 "speakers", "spoken")  # fmt: skip

    def __init__(
        self,
        spoken: tuple[Spoken, ...],
        kinds: tuple[SpanKind | None, ...],
        parents: tuple[int, ...],
        anchor: int,
    ) -> None:
        self.spoken, self.kinds, self.parents, self.anchor = spoken, kinds, parents, anchor
        self.by_kind: dict[SpanKind | None, list[int]] = {}
        self._children: dict[int, list[int]] = {}
        self._outermost: dict[SpanKind, list[int]] = {}
        for place, (kind, parent) in enumerate(zip(kinds, parents, strict=True)):
            self.by_kind.setdefault(kind, []).append(place)
            if parent not in (NOWHERE, place):
                self._children.setdefault(parent, []).append(place)
        self.believed = self._in_order_of_belief()
        self.speakers = tuple(self._speaking())
        self.rules = self._by_field()

    def outermost(self, kind: SpanKind) -> Sequence[int]:
        """Spans of a kind that stand in no other of that kind."""
        found = self._outermost.get(kind)
        if found is None:
            found = self.by_kind.get(kind, [])
            if len(found) > 1:
                found = [one for one in found if all(self.kinds[up] is not kind for up in self.above(one))]
            self._outermost[kind] = found
        return found

    def nearest_below(self, place: int, kind: SpanKind) -> list[int]:
        """The topmost spans of a kind under this one."""
        found: list[int] = []
        waiting = list(self._children.get(place, ()))
        while waiting:
            one = waiting.pop()
            if self.kinds[one] is kind:
                found.append(one)
            else:
                waiting.extend(self._children.get(one, ()))
        return sorted(found)

    def above(self, place: int) -> Iterator[int]:
        """Parents, nearest first."""
        seen = {place}
        up = self.parents[place]
        while up != NOWHERE and up not in seen:
            seen.add(up)
            yield up
            up = self.parents[up]

    def _speaking(self) -> Iterator[int]:
        """The anchor, and what it merely wraps: its only step of weight, where that may stand for a request too."""
        place = self.anchor
        seen: set[int] = set()
        while place != NOWHERE and place not in seen:
            seen.add(place)
            yield place
            steps = [one for one in self._children.get(place, ()) if self.kinds[one] in _STEPS]
            place = steps[0] if len(steps) == 1 and self.kinds[steps[0]] in ANCHOR_KINDS else NOWHERE

    def _in_order_of_belief(self) -> tuple[int, ...]:
        first = [] if self.anchor == NOWHERE else [self.anchor, *self.above(self.anchor)]
        tops = [place for place, parent in enumerate(self.parents) if parent == NOWHERE]
        ordered = dict.fromkeys(first)
        for start in (first[:1], tops, range(len(self.kinds))):
            row: Sequence[int] = start
            while row and len(ordered) < len(self.kinds):
                ordered.update(dict.fromkeys(row))
                below = (child for place in row for child in self._children.get(place, ()))
                row = [child for child in below if child not in ordered]
        return tuple(ordered)

    def _by_field(self) -> dict[Field, tuple[tuple[RankedRule, int], ...]]:
        found: dict[Field, list[tuple[RankedRule, int]]] = {}
        for place in self.believed:
            for field, rules in self.spoken[place].rules.items():
                found.setdefault(field, []).extend((ranked, place) for ranked in rules)
        return {field: tuple(sorted(rules, key=lambda one: one[0].rank)) for field, rules in found.items()}


def layout_of(
    spoken: tuple[Spoken, ...], kinds: tuple[SpanKind | None, ...], parents: tuple[int, ...], anchor: int
) -> Layout:
    """The layout of spans of which this can be said, of these kinds, with the places of their parents and of the anchor
    (`NOWHERE` where there is none)."""
    return (_remembered if len(kinds) <= _MOST_SPANS else Layout)(spoken, kinds, parents, anchor)


_remembered = lru_cache(_LAYOUTS)(Layout)
forget = _remembered.cache_clear
"""What is remembered is worked out anew."""
