"""The filter AST: what a service's metadata filter asked of a document.

The nodes, evaluation on document metadata, printing as a person would write it, and splitting into
entitlement and relevance. Every notation but the plain map is a file in `collectors.dialects` that builds
these nodes.

A field is looked up by its exact name, then as a dotted path into nested metadata. A list-valued field
satisfies a comparison when any of its items does. A missing field satisfies no comparison but `ne` (and `eq`
with None, which reads "missing or null"). Numbers compare by value; a boolean equals only a boolean.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    """Not `Eq`: a document without the field satisfies it."""

    op: Literal["ne"] = "ne"
    field: str
    value: Scalar


class In(_Node):
    op: Literal["in"] = "in"
    field: str
    values: tuple[Scalar, ...]


class Range(_Node):
    """A number between bounds; a bound that is None does not bind."""

    op: Literal["range"] = "range"
    field: str
    gt: float | None = None
    gte: float | None = None
    lt: float | None = None
    lte: float | None = None


class Exists(_Node):
    """The field is there and not null."""

    op: Literal["exists"] = "exists"
    field: str


class Contains(_Node):
    """A list holds the value, or a text holds it as a substring."""

    op: Literal["contains"] = "contains"
    field: str
    value: Scalar


class And(_Node):
    """Every item; the empty conjunction is `ALL`."""

    op: Literal["and"] = "and"
    items: tuple[Predicate, ...]


class Or(_Node):
    """At least one item; the empty disjunction is satisfied by no document."""

    op: Literal["or"] = "or"
    items: tuple[Predicate, ...]


class Not(_Node):
    op: Literal["not"] = "not"
    item: Predicate


Predicate = Annotated[Eq | Ne | In | Range | Exists | Contains | And | Or | Not, Field(discriminator="op")]

And.model_rebuild()
Or.model_rebuild()
Not.model_rebuild()

ALL = And(items=())
"""The empty conjunction: what no filter at all means. Every document satisfies it."""


class UnparsedFilter(ValueError):  # noqa: N818 - a filter that stays text, not a failure of the program
    """A filter that cannot be read as a predicate: the caller keeps its text and guesses nothing."""


def evaluate(predicate: Predicate, metadata: Metadata) -> bool:
    """Whether a document with this metadata satisfies the predicate.

    >>> evaluate(parse_equalities({"tenant": "acme", "locale": "en-US"}), {"tenant": "acme"})
    False
    >>> evaluate(Eq(field="acl", value="sales"), {"acl": ["support", "sales"]})
    True
    """
    match predicate:
        case And(items=items):
            return all(evaluate(item, metadata) for item in items)
        case Or(items=items):
            return any(evaluate(item, metadata) for item in items)
        case Not(item=item):
            return not evaluate(item, metadata)
        case _:
            return _evaluate_leaf(predicate, _lookup(metadata, predicate.field))


def clauses(predicate: Predicate) -> tuple[Predicate, ...]:
    """The top-level conjuncts, nested conjunctions flattened; `ALL` has none.

    >>> [to_text(clause) for clause in clauses(parse_equalities({"tenant": "acme", "locale": "en-US"}))]
    ['tenant = acme', 'locale = en-US']
    """
    if isinstance(predicate, And):
        return tuple(clause for item in predicate.items for clause in clauses(item))
    return (predicate,)


def conjunction(items: Sequence[Predicate]) -> Predicate:
    """All of the items as one predicate: `ALL` for none, the item itself for one."""
    return items[0] if len(items) == 1 else And(items=tuple(items))


def fields(predicate: Predicate) -> frozenset[str]:
    """The names of all metadata fields that the predicate reads."""
    return frozenset(_fields(predicate))


def split(predicate: Predicate, entitlement_fields: Collection[str]) -> tuple[Predicate, Predicate]:
    """The predicate as (entitlement, relevance); both together mean what it meant.

    A clause that reads any of the entitlement fields is entitlement as a whole: relaxing it might show a
    caller what the caller may not see.

    >>> both = parse_equalities({"tenant": "acme", "locale": "en-US"})
    >>> [to_text(part) for part in split(both, {"tenant"})]
    ['tenant = acme', 'locale = en-US']
    """
    entitled: list[Predicate] = []
    relevant: list[Predicate] = []
    for clause in clauses(predicate):
        (relevant if fields(clause).isdisjoint(entitlement_fields) else entitled).append(clause)
    return conjunction(entitled), conjunction(relevant)


def to_text(predicate: Predicate) -> str:
    """The predicate as a person would write it.

    >>> to_text(And(items=(Eq(field="tenant", value="acme"), In(field="locale", values=("en-US", "de DE")))))
    'tenant = acme and locale in (en-US, "de DE")'
    """
    match predicate:
        case And(items=()):
            return "everything"
        case Or(items=()):
            return "nothing"
        case And(items=items):
            return " and ".join(_operand(item, Or) for item in items)
        case Or(items=items):
            return " or ".join(_operand(item, And) for item in items)
        case Not(item=item):
            return f"not ({to_text(item)})"
        case _:
            return _leaf_text(predicate)


def parse_equalities(mapping: Mapping[str, object]) -> Predicate:
    """A plain map of field to value, all of which must hold; a list of values means any of them.

    Raises `UnparsedFilter` for a value that is neither a scalar nor a list of scalars.

    >>> to_text(parse_equalities({"tenant": "acme", "product": ["api", "auth"]}))
    'tenant = acme and product in (api, auth)'
    """
    parsed: list[Predicate] = []
    for field, value in mapping.items():
        if isinstance(value, list | tuple):
            parsed.append(In(field=field, values=tuple(as_scalar(item) for item in value)))
        else:
            parsed.append(Eq(field=field, value=as_scalar(value)))
    return conjunction(parsed)


def as_scalar(value: object) -> Scalar:
    """The value, if a node may hold it; else `UnparsedFilter`."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise UnparsedFilter(f"not a scalar: {value!r}")


_MISSING = object()


def _lookup(metadata: Metadata, field: str) -> object:
    value: object = metadata.get(field, _MISSING)
    if value is not _MISSING or "." not in field:
        return value
    value = metadata
    for part in field.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _MISSING
        value = value[part]
    return value


def _evaluate_leaf(leaf: Eq | Ne | In | Range | Exists | Contains, value: object) -> bool:
    match leaf:
        case Eq(value=wanted):
            return _equals_any(value, wanted)
        case Ne(value=unwanted):
            return not _equals_any(value, unwanted)
        case In(values=values):
            return any(_equals_any(value, wanted) for wanted in values)
        case Range():
            return any(_within(item, leaf) for item in _items(value))
        case Exists():
            return value is not _MISSING and value is not None
        case Contains(value=wanted):
            if isinstance(value, str):
                return isinstance(wanted, str) and wanted in value
            return isinstance(value, list | tuple) and _equals_any(value, wanted)


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else (value,)


def _equals_any(value: object, wanted: Scalar) -> bool:
    if wanted is None:
        return value is _MISSING or any(item is None for item in _items(value))
    return any(_equals(item, wanted) for item in _items(value))


def _equals(value: object, wanted: Scalar) -> bool:
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _within(value: object, limits: Range) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (
        (limits.gt is None or value > limits.gt)
        and (limits.gte is None or value >= limits.gte)
        and (limits.lt is None or value < limits.lt)
        and (limits.lte is None or value <= limits.lte)
        and not math.isnan(value)
    )


def _fields(predicate: Predicate) -> Iterator[str]:
    match predicate:
        case And(items=items) | Or(items=items):
            for item in items:
                yield from _fields(item)
        case Not(item=item):
            yield from _fields(item)
        case _:
            yield predicate.field


def _operand(predicate: Predicate, other: type[And] | type[Or]) -> str:
    """Nested connectives in brackets, so that the text has one reading."""
    text = to_text(predicate)
    nested = isinstance(predicate, And | Or) and bool(predicate.items)
    return f"({text})" if nested or isinstance(predicate, other) else text


def _leaf_text(leaf: Eq | Ne | In | Range | Exists | Contains) -> str:
    name = _word(leaf.field)
    match leaf:
        case Eq(value=value):
            return f"{name} = {_scalar_text(value)}"
        case Ne(value=value):
            return f"{name} != {_scalar_text(value)}"
        case In(values=values):
            return f"{name} in ({', '.join(map(_scalar_text, values))})"
        case Range():
            bounds = ((">", leaf.gt), (">=", leaf.gte), ("<", leaf.lt), ("<=", leaf.lte))
            parts = [f"{name} {sign} {_number_text(bound)}" for sign, bound in bounds if bound is not None]
            return " and ".join(parts) or f"{name} has any number"
        case Exists():
            return f"{name} exists"
        case Contains(value=value):
            return f"{name} contains {_scalar_text(value)}"


_PLAIN = re.compile(r"[^\W\d][\w.@/:+-]*")
_RESERVED = {"and", "or", "not", "in", "exists", "contains", "true", "false", "null", "everything", "nothing"}


def _word(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return json.dumps(text, ensure_ascii=False)


def _scalar_text(value: Scalar) -> str:
    return _word(value) if isinstance(value, str) else json.dumps(value)


def _number_text(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
