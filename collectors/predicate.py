"""The filter AST: what a service's metadata filter asked of a document.

First cut: the nodes, evaluation on document metadata, printing as a person would write it, and parsers for
plain equality maps, `rag.filter.*` clause lists and Haystack's condition trees. Further dialects get their parsers here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Scalar = str | bool | int | float | None
Metadata = Mapping[str, object]


class _Node(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Eq(_Node):
    """The field equals the value; a list-valued field matches when it contains it."""

    op: Literal["eq"] = "eq"
    field: str
    value: Scalar


class Ne(_Node):
    op: Literal["ne"] = "ne"
    field: str
    value: Scalar


class In(_Node):
    op: Literal["in"] = "in"
    field: str
    values: tuple[Scalar, ...]


class Range(_Node):
    op: Literal["range"] = "range"
    field: str
    gt: float | None = None
    gte: float | None = None
    lt: float | None = None
    lte: float | None = None


class Exists(_Node):
    op: Literal["exists"] = "exists"
    field: str


class Contains(_Node):
    op: Literal["contains"] = "contains"
    field: str
    value: Scalar


class And(_Node):
    op: Literal["and"] = "and"
    items: tuple[Predicate, ...]


class Or(_Node):
    op: Literal["or"] = "or"
    items: tuple[Predicate, ...]


class Not(_Node):
    op: Literal["not"] = "not"
    item: Predicate


Predicate = Annotated[
    Eq | Ne | In | Range | Exists | Contains | And | Or | Not, Field(discriminator="op")
]

And.model_rebuild()
Or.model_rebuild()
Not.model_rebuild()

ALL = And(items=())
"""The empty conjunction: what no filter at all means. Every document satisfies it."""
