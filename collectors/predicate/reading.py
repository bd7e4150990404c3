"""The printed form of a predicate, read back: `parse_text(to_text(p))` prints as `p` and means what `p` means."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.predicate.nodes import (
    ALL,
    NOTHING,
    And,
    Bound,
    Contains,
    Eq,
    Exists,
    In,
    Ne,
    Not,
    Or,
    Other,
    Predicate,
    Range,
    Scalar,
    UnparsedFilter,
)
from collectors.predicate.printing import ANY_NUMBER, HOLDING, PART, PLAIN, RESERVED

MAX_CHARS = 1 << 20
MAX_DEPTH = 100

_TOKENS = re.compile(
    r"""\s*(?:
        (?P<time>\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?)
      | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|(?:NaN|-?Infinity)(?![\w.@/:+-]))
      | (?P<quoted>"(?:[^"\\]|\\.)*")
      | (?P<word>"""
    + PLAIN.pattern
    + r""")
      | (?P<sign><=|>=|!==|!=|==|[<>=(),])
    )""",
    re.VERBOSE | re.DOTALL,
)
_PHRASES = {tuple(phrase.split()): holding for holding, phrase in HOLDING.items()}
_PARTS = {tuple(phrase.split()): part for part, phrase in PART.items()}
_EQUALITIES = (("=", Eq, False), ("==", Eq, True), ("!=", Ne, False), ("!==", Ne, True))
_BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_CONSTANTS: dict[str, Scalar] = {"true": True, "false": False, "null": None}


class _Token(NamedTuple):
    kind: str
    text: str


_END = _Token("end", "")


def parse_text(text: str) -> Predicate:
    """The predicate that `to_text` prints so. Raises `UnparsedFilter`.

    >>> parse_text("tenant = acme and (2020 <= year < 2024 or not (draft = true))").items[0]
    Eq(field='tenant', whole=False, op='eq', value='acme')
    """
    if len(text) > MAX_CHARS:
        raise UnparsedFilter(f"longer than {MAX_CHARS} characters")
    reader = _Reader(_tokens(text))
    try:
        predicate = reader.disjunction(MAX_DEPTH)
    except UnparsedFilter:
        raise
    except ValueError as error:
        raise UnparsedFilter(f"a value that no node can hold: {error!s:.200}") from None
    reader.expect("end", "")
    return predicate


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKENS.match(text, at)
        if match is None or match.lastgroup is None:
            raise UnparsedFilter(f"no word of a predicate: {text[at : at + 40]!r}")
        tokens.append(_Token(match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tokens


@dataclass
class _Reader:
    """Recursive descent over the tokens; one look-ahead but for the chained form of a range."""

    tokens: list[_Token]
    at: int = field(default=0)

    def peek(self, ahead: int = 0) -> _Token:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else _END

    def take(self) -> _Token:
        token = self.peek()
        self.at += 1
        return token

    def skip(self, *texts: str) -> bool:
        """Whether these words or signs stand next, which are then taken."""
        if all(self.peek(i).text == text and self.peek(i).kind != "quoted" for i, text in enumerate(texts)):
            self.at += len(texts)
            return True
        return False

    def expect(self, kind: str, text: str) -> None:
        if self.take() != (kind, text):
            raise UnparsedFilter(f"{text or 'the end'!r} is missing before {self.tokens[self.at - 1 :][:1]}")

    def disjunction(self, depth: int) -> Predicate:
        items = [self.conjunction(depth)]
        while self.skip("or"):
            items.append(self.conjunction(depth))
        return items[0] if len(items) == 1 else Or(items=tuple(items))

    def conjunction(self, depth: int) -> Predicate:
        items = [self.term(depth)]
        while self.skip("and"):
            items.append(self.term(depth))
        return items[0] if len(items) == 1 else And(items=tuple(items))

    def term(self, depth: int) -> Predicate:
        if depth == 0:
            raise UnparsedFilter(f"nested deeper than {MAX_DEPTH}")
        if self.skip("not"):
            return Not(item=self.term(depth - 1))
        if self.skip("("):
            inner = self.disjunction(depth - 1)
            self.expect("sign", ")")
            return inner
        if self.skip("everything"):
            return ALL
        if self.skip("nothing"):
            return NOTHING
        return self.leaf()

    def leaf(self) -> Predicate:
        after_name = 4 if self.peek(3) == ("word", "itself") else 3
        if self.peek(1).text in ("<", "<=") and self.peek(after_name).text in ("<", "<="):
            return self.chained_range()
        name = self.name()
        for phrase, holding in _PHRASES.items():
            if self.skip(*phrase):
                return Exists.model_validate({"field": name, "holding": holding})
        for phrase, part in _PARTS.items():
            if self.skip(*phrase):
                return Contains.model_validate({"field": name, "value": self.scalar(), "part": part})
        return self.comparison(name, whole=self.skip("itself"))

    def comparison(self, name: str, whole: bool) -> Predicate:
        for sign, node, strict in _EQUALITIES:
            if not whole and self.skip(sign):
                return node(field=name, value=self.scalar(), whole=strict)
        if self.skip("in"):
            return In(field=name, values=self.scalars(), whole=whole)
        if self.skip("other", "than"):
            return Other(field=name, values=self.scalars(), whole=whole)
        if self.skip(*ANY_NUMBER.split()):
            return Range(field=name, whole=whole)
        if not self.skip("within", "("):
            return self.range(name, whole, [self.limit()])
        limits = [self.limit()]
        while self.skip(","):
            limits.append(self.limit())
        self.expect("sign", ")")
        return self.range(name, whole, limits)

    def chained_range(self) -> Predicate:
        lower, sign = self.bound(), self.take().text
        name, whole = self.name(), self.skip("itself")
        return self.range(name, whole, [(sign.replace("<", ">"), *lower), self.limit()])

    def range(self, name: str, whole: bool, limits: list[tuple[str, Bound, bool]]) -> Predicate:
        bounds = {_BOUNDS[sign]: bound for sign, bound, _ in limits}
        kinds = {time for *_, time in limits}
        if len(bounds) < len(limits) or len(kinds) > 1:
            raise UnparsedFilter(f"bounds of {name!r} that do not go together")
        return Range.model_validate({"field": name, "whole": whole, "time": kinds.pop(), **bounds})

    def limit(self) -> tuple[str, Bound, bool]:
        sign = self.take()
        if sign.kind != "sign" or sign.text not in _BOUNDS:
            raise UnparsedFilter(f"no comparison: {sign.text!r}")
        return (sign.text, *self.bound())

    def bound(self) -> tuple[Bound, bool]:
        """The bound, and whether it is a time."""
        token = self.take()
        if token.kind not in ("time", "number", "quoted"):
            raise UnparsedFilter(f"no bound: {token.text!r}")
        return (token.text, True) if token.kind == "time" else (json.loads(token.text), False)

    def name(self) -> str:
        token = self.take()
        if token.kind == "quoted":
            return str(json.loads(token.text))
        if token.kind == "word" and token.text.lower() not in RESERVED:
            return token.text
        raise UnparsedFilter(f"not the name of a field: {token.text!r}")

    def scalars(self) -> tuple[Scalar, ...]:
        self.expect("sign", "(")
        if self.skip(")"):
            return ()
        values = [self.scalar()]
        while self.skip(","):
            values.append(self.scalar())
        self.expect("sign", ")")
        return tuple(values)

    def scalar(self) -> Scalar:
        token = self.take()
        if token.kind in ("number", "quoted"):
            value: Scalar = json.loads(token.text)
            return value
        if token.kind == "word" and token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        if token.kind == "word" and token.text.lower() not in RESERVED:
            return token.text
        raise UnparsedFilter(f"not a value: {token.text!r}")
