"""A reader of boolean expressions over fields, for the dialects that write filters as text.

Precedence, lowest first: or, and, not, comparison. Whatever is no comparison of a field with constants (arithmetic,
two fields, functions that the lexicon does not name) raises `UnparsedFilter`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from collectors.dialects.lexicon import Lexicon, Token, number, tokens
from collectors.dialects.truth import (
    ALWAYS,
    Bounds,
    Truth,
    all_of,
    among,
    any_of,
    at,
    equal,
    holds,
    like,
    missing,
    within,
)
from collectors.predicate import Not, Scalar, UnparsedFilter
from collectors.predicate.times import as_time_text

MAX_CHARS = 1 << 16
MAX_DEPTH = 50

_ORDER = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_KEYWORDS = {"and", "or", "not", "in", "like", "is", "between", "null", "true", "false", "exists", "ilike"}
_CONSTANTS: dict[str, Scalar] = {"true": True, "false": False, "null": None}


class _Field(NamedTuple):
    name: str


class _Time(NamedTuple):
    text: str


_Operand = _Field | _Time | Scalar


def read_expression(text: str, lexicon: Lexicon) -> Truth:
    """What the expression says. Raises `UnparsedFilter`."""
    if len(text) > MAX_CHARS:
        raise UnparsedFilter(f"longer than {MAX_CHARS} characters")
    reader = _Reader(tokens(text, lexicon), lexicon)
    if not reader.tokens:
        return ALWAYS
    truth = reader.either(MAX_DEPTH)
    if reader.peek().kind != "end":
        raise UnparsedFilter(f"more after the end of the condition: {reader.peek().text!r}")
    return truth


@dataclass
class _Reader:
    tokens: list[Token]
    lexicon: Lexicon
    at: int = 0

    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else Token("end", "")

    def take(self) -> Token:
        token = self.peek()
        self.at += 1
        return token

    def skip(self, *words: str) -> bool:
        """Whether these words or signs stand next, which are then taken."""
        for ahead, word in enumerate(words):
            token = self.peek(ahead)
            if token.kind not in ("name", "sign") or token.text.lower() != word:
                return False
        self.at += len(words)
        return True

    def expect(self, sign: str) -> None:
        if not self.skip(sign):
            raise UnparsedFilter(f"{sign!r} is missing before {self.peek().text!r}")

    def either(self, depth: int) -> Truth:
        found = [self.both(depth)]
        while self.skip("or") or self.skip("||"):
            found.append(self.both(depth))
        return found[0] if len(found) == 1 else any_of(found)

    def both(self, depth: int) -> Truth:
        found = [self.negation(depth)]
        while self.skip("and") or self.skip("&&"):
            found.append(self.negation(depth))
        return found[0] if len(found) == 1 else all_of(found)

    def negation(self, depth: int) -> Truth:
        if depth == 0:
            raise UnparsedFilter(f"nested deeper than {MAX_DEPTH}")
        if self.skip("not") or self.skip("!"):
            return self.negation(depth - 1).negated()
        if self.skip("("):
            inner = self.either(depth - 1)
            self.expect(")")
            return inner
        return self.condition()

    def condition(self) -> Truth:
        if self.peek().kind == "name" and self.peek(1) == ("sign", "("):
            return self.function()
        if self.skip("exists"):
            return missing(self.field().name).negated()
        left = self.operand()
        if not isinstance(left, _Field):
            return self.mirrored(left)
        if self.skip("is"):
            return self.nullness(left.name)
        negated = self.skip("not")
        found = self.membership(left.name)
        if found is not None:
            return found.negated() if negated else found
        if negated:
            raise UnparsedFilter(f"no condition after 'not': {self.peek().text!r}")
        return self.comparison(left.name)

    def function(self) -> Truth:
        name = self.take().text.lower()
        kind = self.lexicon.contains.get(name)
        if kind is None:
            raise UnparsedFilter(f"no node for the function {name}")
        self.expect("(")
        field = self.field().name
        self.expect(",")
        values = [self.constant()] if kind == "item" else self.list_argument()
        self.expect(")")
        found = [holds(field, value, "item") for value in values]
        return any_of(found) if kind == "any" else all_of(found)

    def list_argument(self) -> list[Scalar]:
        return self.values("()" if self.skip("make_array") else "[]")

    def nullness(self, field: str) -> Truth:
        negated = self.skip("not")
        if self.skip("null"):
            found = missing(field)
        elif self.peek().text.lower() in ("true", "false"):
            same = equal(field, self.take().text.lower() == "true").true
            found = Truth(same, Not(item=same))
        else:
            raise UnparsedFilter(f"is what? {self.peek().text!r}")
        return found.negated() if negated else found

    def membership(self, field: str) -> Truth | None:
        if self.skip("in"):
            return among(field, self.values(self.lexicon.brackets))
        if self.skip("like"):
            pattern = self.constant()
            if not isinstance(pattern, str) or self.peek().text.lower() == "escape":
                raise UnparsedFilter("like without a pattern that can be read")
            return like(field, pattern)
        if self.skip("between"):
            lower = self.operand()
            self.expect("and")
            return self.limited(field, ((">=", lower), ("<=", self.operand())))
        return None

    def comparison(self, field: str) -> Truth:
        if self.peek().text not in self.lexicon.equal | self.lexicon.unequal | _ORDER.keys():
            if self.lexicon.bare:
                return Truth(equal(field, True).true, equal(field, False).true)
            raise UnparsedFilter(f"no condition on {field!r}: {self.peek().text!r}")
        sign = self.take().text
        return self.compared(field, sign, self.operand())

    def compared(self, field: str, sign: str, value: _Operand) -> Truth:
        if sign in _ORDER:
            return self.limited(field, ((sign, value),))
        if isinstance(value, _Field):
            raise UnparsedFilter(f"{field!r} is compared with {value.name!r}")
        found = at(field, value.text) if isinstance(value, _Time) else equal(field, value)
        return found.negated() if sign in self.lexicon.unequal else found

    def mirrored(self, left: _Operand) -> Truth:
        """A constant first: `5 < x`, or `5 < x < 9`."""
        if isinstance(left, bool) and self.peek().text.lower() in ("end", "", ")", "and", "or", "&&", "||"):
            return ALWAYS if left else ALWAYS.negated()
        sign = self.take().text
        if sign not in self.lexicon.equal | self.lexicon.unequal | _ORDER.keys():
            raise UnparsedFilter(f"no comparison: {sign!r}")
        field = self.field().name
        if sign in _ORDER and self.peek().text in _ORDER and self.peek().text[0] == sign[0]:
            return self.limited(field, ((_MIRRORED[sign], left), (self.take().text, self.operand())))
        return self.compared(field, _MIRRORED.get(sign, sign), left)

    def limited(self, field: str, limits: tuple[tuple[str, _Operand], ...]) -> Truth:
        bounds: Bounds = {}
        for sign, limit in limits:
            bound = limit.text if isinstance(limit, _Time) else limit
            if bound is None or isinstance(bound, bool | _Field):
                raise UnparsedFilter(f"no order for {field!r} and {limit!r:.200}")
            bounds[_ORDER[sign]] = bound
        kinds = {_Time if isinstance(limit, _Time) else isinstance(limit, str) for _, limit in limits}
        if len(kinds) > 1:
            raise UnparsedFilter(f"bounds of {field!r} that do not go together")
        return within(field, bounds, time=_Time in kinds)

    def values(self, brackets: str) -> list[Scalar]:
        self.expect(brackets[0])
        found: list[Scalar] = []
        while not self.skip(brackets[1]):
            found.append(self.constant())
            if not self.skip(","):
                self.expect(brackets[1])
                break
        return found

    def constant(self) -> Scalar:
        found = self.operand()
        if isinstance(found, _Field | _Time):
            raise UnparsedFilter(f"no constant: {found!r:.200}")
        return found

    def field(self) -> _Field:
        found = self.operand()
        if not isinstance(found, _Field):
            raise UnparsedFilter(f"no field: {found!r:.200}")
        return found

    def operand(self) -> _Operand:
        kind, text = self.take()
        word = text.lower()
        match kind:
            case "string":
                return self.lexicon.string(text)
            case "number":
                return number(text)
            case "quoted_name":
                return _Field(self.lexicon.quoted_name(text))
            case "name" if word in self.lexicon.times and self.peek().kind == "string":
                return self.time()
            case "name" if word in _CONSTANTS:
                return _CONSTANTS[word]
            case "name" if word not in _KEYWORDS:
                return _Field(text)
        raise UnparsedFilter(f"neither a field nor a constant: {text!r}")

    def time(self) -> _Time:
        text = self.lexicon.string(self.take().text)
        moment = as_time_text(text)
        if moment is None:
            raise UnparsedFilter(f"no time: {text!r:.200}")
        return _Time(moment)
