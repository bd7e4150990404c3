"""A predicate as a person would write it, so that `reading` gives back the very same."""

from __future__ import annotations

import json
import re

from collectors.predicate.nodes import (
    And,
    Bound,
    Contains,
    Eq,
    Exists,
    In,
    Leaf,
    Ne,
    Not,
    Or,
    Other,
    Predicate,
    Range,
    Scalar,
)

PLAIN = re.compile(r"[^\W\d][\w.@/:+-]*")
"""Names and texts that need no quotes, unless they are `RESERVED`."""
RESERVED = frozenset(
    [
        *("and", "or", "not", "in", "exists", "contains"),
        *("true", "false", "null", "nan", "infinity", "everything", "nothing"),
    ]
)
HOLDING = {
    "anything": "is present",
    "not_null": "exists",
    "items": "is not empty",
    "value": "has a value",
    "list": "is a list",
}
"""What follows the name of the field, by `Exists.holding`."""
PART = {"either": "contains", "item": "has item", "text": "has text"}
"""What stands between field and value, by `Contains.part`."""
ANY_NUMBER = "has any number"


def to_text(predicate: Predicate) -> str:
    """The predicate as a person would write it.

    >>> to_text(And(items=(Eq(field="tenant", value="acme"), In(field="locale", values=("en-US", "de DE")))))
    'tenant = acme and locale in (en-US, "de DE")'
    >>> to_text(Range(field="year", gte=2020, lt=2024))
    '2020 <= year < 2024'
    """
    match predicate:
        case And(items=()):
            return "everything"
        case Or(items=()):
            return "nothing"
        case And(items=items):
            return " and ".join(map(_operand, items))
        case Or(items=items):
            return " or ".join(map(_operand, items))
        case Not(item=item):
            return f"not ({to_text(item)})"
        case _:
            return _leaf_text(predicate)


def _operand(predicate: Predicate) -> str:
    """Nested connectives in brackets, so that the text has one reading."""
    text = to_text(predicate)
    return f"({text})" if isinstance(predicate, And | Or) and predicate.items else text


def _leaf_text(leaf: Leaf) -> str:
    name = _word(leaf.field)
    match leaf:
        case Exists(holding=holding):
            return f"{name} {HOLDING[holding]}"
        case Contains(value=value, part=part):
            return f"{name} {PART[part]} {_scalar_text(value)}"
        case _:
            return _comparison_text(name, leaf)


def _comparison_text(name: str, leaf: Eq | Ne | In | Other | Range) -> str:
    match leaf:
        case Eq(value=value, whole=whole):
            return f"{name} {'==' if whole else '='} {_scalar_text(value)}"
        case Ne(value=value, whole=whole):
            return f"{name} {'!==' if whole else '!='} {_scalar_text(value)}"
    name = f"{name} itself" if leaf.whole else name
    match leaf:
        case In(values=values):
            return f"{name} in ({_list_text(values)})"
        case Other(values=values):
            return f"{name} other than ({_list_text(values)})"
        case Range():
            return _range_text(name, leaf)


def _range_text(name: str, limits: Range) -> str:
    lower = [(sign, at) for sign, at in ((">", limits.gt), (">=", limits.gte)) if at is not None]
    upper = [(sign, at) for sign, at in (("<", limits.lt), ("<=", limits.lte)) if at is not None]
    bounds = [f"{sign} {_bound_text(at, limits.time)}" for sign, at in (*lower, *upper)]
    match len(lower), len(upper):
        case 0, 0:
            return f"{name} {ANY_NUMBER}"
        case (1, 0) | (0, 1):
            return f"{name} {bounds[0]}"
        case 1, 1:
            sign, at = lower[0]
            return f"{_bound_text(at, limits.time)} {sign.replace('>', '<')} {name} {bounds[1]}"
    return f"{name} within ({', '.join(bounds)})"


def _list_text(values: tuple[Scalar, ...]) -> str:
    return ", ".join(map(_scalar_text, values))


def _word(text: str) -> str:
    return text if PLAIN.fullmatch(text) and text.lower() not in RESERVED else _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _scalar_text(value: Scalar) -> str:
    return _word(value) if isinstance(value, str) else json.dumps(value)


def _bound_text(bound: Bound, time: bool) -> str:
    """Texts in quotes, times without, numbers without a needless fraction."""
    if isinstance(bound, str):
        return bound if time else _quoted(bound)
    if isinstance(bound, float) and bound.is_integer() and abs(bound) < 1e15:
        return str(int(bound))
    return json.dumps(bound)
