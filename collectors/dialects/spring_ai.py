"""Spring AI filters as its vector stores log them: a printed `Filter.Expression`.

`db.vector.query.filter` holds what Java prints of the record, such as
`Expression[type=EQ, left=Key[key=country], right=Value[value=UK]]`. Source: spring-projects/spring-ai,
DefaultVectorStoreObservationConvention and Filter. Values are printed without quotes: whether `2020` was a number or a
text is lost, so an equality accepts both, and a list's items are what stands between its commas.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from collectors.dialects.clauses import comparison
from collectors.predicate import And, Exists, In, Ne, Not, Or, Predicate, Scalar, UnparsedFilter

MAX_DEPTH = 32

_EXPRESSION = re.compile(r"Expression\[type=([A-Z]+), left=")
_KEY = re.compile(r"Key\[key=([^\[\]]+)\]")
_VALUE = re.compile(r"Value\[value=(\[[^\[\]]*\]|[^\[\]]*)\]")
_BOUNDS = {"GT": "gt", "GTE": "gte", "LT": "lt", "LTE": "lte"}


def parse_spring_ai(text: str) -> Predicate:
    """The predicate of a printed Spring AI expression. Raises `UnparsedFilter`.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_spring_ai("Expression[type=AND, left=Expression[type=EQ, left=Key[key=country], "
    ...     "right=Value[value=UK]], right=Expression[type=GTE, left=Key[key=year], right=Value[value=2020]]]"))
    'country = UK and year >= 2020'
    """
    reader = _Reader(text.strip())
    predicate = reader.expression(MAX_DEPTH)
    if reader.at != len(reader.text):
        raise UnparsedFilter(f"more after the expression: {reader.rest()!r}")
    return predicate


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def rest(self) -> str:
        return self.text[self.at : self.at + 40]

    def expression(self, depth: int) -> Predicate:
        if depth == 0:
            raise UnparsedFilter(f"nested deeper than {MAX_DEPTH}")
        if self._skip("Group[content="):
            inside = self.expression(depth - 1)
            self._expect("]")
            return inside
        kind = self._match(_EXPRESSION)[1]
        if kind in ("AND", "OR", "NOT"):
            return self._logical(kind, depth)
        field = self._match(_KEY)[1]
        if kind in ("ISNULL", "ISNOTNULL"):
            self._expect(", right=null]")
            exists = Exists(field=field)
            return exists if kind == "ISNOTNULL" else Not(item=exists)
        self._expect(", right=")
        value = self._match(_VALUE)[1]
        self._expect("]")
        return _compared(kind, field, value)

    def _logical(self, kind: str, depth: int) -> Predicate:
        left = self.expression(depth - 1)
        self._expect(", right=")
        if kind == "NOT":
            self._expect("null]")
            return Not(item=left)
        right = self.expression(depth - 1)
        self._expect("]")
        return And(items=(left, right)) if kind == "AND" else Or(items=(left, right))

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise UnparsedFilter(f"no expression of Spring AI's at {self.rest()!r}")
        self.at = found.end()
        return found

    def _skip(self, text: str) -> bool:
        found = self.text.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            raise UnparsedFilter(f"{text!r} is missing at {self.rest()!r}")


def _compared(kind: str, field: str, value: str) -> Predicate:
    if kind in ("IN", "NIN") and value.startswith("["):
        items = (
            [item for part in value[1:-1].split(", ") for item in _readings(part)] if value != "[]" else []
        )
        inside = In(field=field, values=tuple(items))
        return inside if kind == "IN" else Not(item=inside)
    if kind in _BOUNDS:
        number = next((one for one in _readings(value) if not isinstance(one, str)), value)
        return comparison(field, _BOUNDS[kind], number)
    readings = _readings(value)
    if kind in ("EQ", "NE"):
        if len(readings) == 1:
            return comparison(field, kind, readings[0])
        both = In(field=field, values=tuple(readings))
        return both if kind == "EQ" else And(items=tuple(Ne(field=field, value=one) for one in readings))
    raise UnparsedFilter(f"no comparison {kind!r}")


def _readings(text: str) -> Sequence[Scalar]:
    """What the printed value may have been.

    >>> _readings("UK"), _readings("2020"), _readings("true")
    (['UK'], ['2020', 2020], ['true', True])
    """
    if text in ("true", "false"):
        return [text, text == "true"]
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return [text, int(text)]
    if re.fullmatch(r"-?[0-9]{1,18}\.[0-9]{1,18}(E-?[0-9]{1,2})?", text):
        return [text, float(text)]
    return [text]
