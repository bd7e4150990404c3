"""The nodes of the filter AST, and what the values in them may be.

A field is looked up by its exact name, then as a dotted path into nested metadata. A list-valued field satisfies a
comparison when any of its items does, unless the comparison is of the `whole` value. A missing field satisfies no
leaf but `Ne` (and `Eq` and `In` with None, which reads "missing or null"). Numbers compare by value; a number never
equals a text, and a boolean equals only a boolean.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collectors.predicate.times import as_instant

Scalar = str | bool | int | float | None
Bound = int | float | str | None


class _Node(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Leaf(_Node):
    field: str


class _Comparison(_Leaf):
    whole: bool = False
    """Compare the value itself: no item of a list then counts."""


class Eq(_Comparison):
    """The field equals the value; a list-valued field matches when it contains it."""

    op: Literal["eq"] = "eq"
    value: Scalar


class Ne(_Comparison):
    """Not `Eq`: a document without the field satisfies it."""

    op: Literal["ne"] = "ne"
    value: Scalar


class In(_Comparison):
    """`Eq` to any of the values."""

    op: Literal["in"] = "in"
    values: tuple[Scalar, ...]


class Other(_Comparison):
    """Some value of the field is none of these: of a list, any item may be it. A missing field has no value, and null
    is none.

    For a field that holds one value it is `Exists` and not `In`; for lists it is weaker, as in Qdrant's `except`.
    """

    op: Literal["other"] = "other"
    values: tuple[Scalar, ...]


class Range(_Comparison):
    """A value between bounds; a bound that is None does not bind, and without any bound every number is inside.

    A number bounds numbers, and a text bounds texts by code points. With `time`, bounds are ISO-8601 dates or
    date-times, and so must the values be; what has no offset is UTC.
    """

    op: Literal["range"] = "range"
    gt: Bound = None
    gte: Bound = None
    lt: Bound = None
    lte: Bound = None
    time: bool = False

    @model_validator(mode="after")
    def _bounds_are_times(self) -> Self:
        bounds = [bound for bound in (self.gt, self.gte, self.lt, self.lte) if bound is not None]
        if self.time and not (bounds and all(as_instant(bound) for bound in bounds)):
            raise ValueError("bounds in time are ISO-8601 dates or date-times")
        return self


class Exists(_Leaf):
    """The field is there and not null; `holding` says what else counts as there.

    `anything`: null too. `items`: not null, nor an empty list. `value`: at least one value that is not null, alone
    or in a list. `list`: a list, empty or not.
    """

    op: Literal["exists"] = "exists"
    holding: Literal["anything", "not_null", "items", "value", "list"] = "not_null"


class Contains(_Leaf):
    """A list holds the value (`part` item), or a text holds it as a substring (`part` text); by default, either."""

    op: Literal["contains"] = "contains"
    value: Scalar
    part: Literal["either", "item", "text"] = "either"


class And(_Node):
    """Every item; the empty conjunction is `ALL`."""

    op: Literal["and"] = "and"
    items: tuple[Predicate, ...]


class Or(_Node):
    """At least one item; the empty disjunction is `NOTHING`."""

    op: Literal["or"] = "or"
    items: tuple[Predicate, ...]


class Not(_Node):
    """The item is not satisfied: there are two truth values, so a dialect with an unknown says so by construction."""

    op: Literal["not"] = "not"
    item: Predicate


Leaf = Eq | Ne | In | Other | Range | Exists | Contains
Predicate = Annotated[
    Eq | Ne | In | Other | Range | Exists | Contains | And | Or | Not, Field(discriminator="op")
]

And.model_rebuild()
Or.model_rebuild()
Not.model_rebuild()

ALL = And(items=())
"""The empty conjunction: what no filter at all means. Every document satisfies it."""

NOTHING = Or(items=())
"""The empty disjunction: no document satisfies it."""


class UnparsedFilter(ValueError):  # noqa: N818 - a filter that stays text, not a failure of the program
    """A filter that cannot be read as a predicate: the caller keeps its text and guesses nothing."""


def as_scalar(value: object) -> Scalar:
    """The value, if a node may hold it; else `UnparsedFilter`."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise UnparsedFilter(f"not a scalar: {value!r:.200}")
