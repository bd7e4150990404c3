"""Three-valued logic in an AST that has two values: when a condition is true, and when it is false.

In SQL a comparison with null is unknown, `not` leaves unknown as it is, and only what is true passes. Source: SQL-92
8.12; for Milvus the same by milvus-io/milvus issue 50699.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from collectors.predicate import (
    ALL,
    NOTHING,
    Contains,
    Eq,
    Exists,
    In,
    Ne,
    Not,
    Predicate,
    Range,
    Scalar,
    UnparsedFilter,
    conjunction,
    disjunction,
)

Bounds = dict[str, int | float | str]
"""Limits by their name in `Range`."""
_OPPOSITE = {"gt": "lte", "gte": "lt", "lt": "gte", "lte": "gt"}


@dataclass(frozen=True, slots=True)
class Truth:
    """The documents for which a condition is `true` and for which it is `false`; for the others it is unknown."""

    true: Predicate
    false: Predicate

    def negated(self) -> Truth:
        return Truth(self.false, self.true)


UNKNOWN = Truth(NOTHING, NOTHING)
ALWAYS = Truth(ALL, NOTHING)


def all_of(truths: Sequence[Truth]) -> Truth:
    return Truth(conjunction([one.true for one in truths]), disjunction([one.false for one in truths]))


def any_of(truths: Sequence[Truth]) -> Truth:
    return Truth(disjunction([one.true for one in truths]), conjunction([one.false for one in truths]))


def where_known(field: str, true: Predicate) -> Truth:
    """False for whatever is there and does not satisfy the predicate."""
    return Truth(true, conjunction([Exists(field=field), Not(item=true)]))


def equal(field: str, value: Scalar) -> Truth:
    if value is None:
        return UNKNOWN
    return Truth(
        Eq(field=field, value=value), conjunction([Exists(field=field), Ne(field=field, value=value)])
    )


def among(field: str, values: Sequence[Scalar]) -> Truth:
    """A null among the values leaves unknown what none of the others equals."""
    known = where_known(field, In(field=field, values=tuple(value for value in values if value is not None)))
    return Truth(known.true, NOTHING) if None in values else known


def missing(field: str) -> Truth:
    exists = Exists(field=field)
    return Truth(Not(item=exists), exists)


def within(field: str, bounds: Bounds, time: bool) -> Truth:
    def limited(some: Bounds) -> Predicate:
        return Range.model_validate({"field": field, "time": time, **some})

    outside = [limited({_OPPOSITE[name]: bound}) for name, bound in bounds.items()]
    return Truth(limited(bounds), disjunction(outside))


def at(field: str, moment: str) -> Truth:
    """At this very moment."""
    return within(field, {"gte": moment, "lte": moment}, time=True)


def holds(field: str, value: Scalar, part: Literal["item", "text"]) -> Truth:
    return where_known(field, Contains(field=field, value=value, part=part))


def like(field: str, pattern: str) -> Truth:
    """`like` of a whole text or of a text inside. Raises `UnparsedFilter` for every other pattern."""
    inside = pattern[1:-1] if len(pattern) >= 2 and pattern[0] == pattern[-1] == "%" else None
    if any(wildcard in (pattern if inside is None else inside) for wildcard in "%_\\"):
        raise UnparsedFilter(f"no node for the pattern {pattern!r:.200}")
    return equal(field, pattern) if inside is None else holds(field, inside, "text")
