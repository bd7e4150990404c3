"""What Python prints of a filter: literals, and the `repr` or `str` of pydantic models, dataclasses and enums.

Read by hand rather than by Python's own parser: the text is a stranger's, and printed models
(`must=[FieldCondition(key='a', match=MatchValue(value=1))] should=None`) are no Python.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from collectors.dialects.escapes import unescape
from collectors.predicate import UnparsedFilter

_TOKENS = re.compile(
    r"""\s*(?:
        (?P<string>[bBuUrR]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))
      | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<zone>(?:datetime\.)?(?:TzInfo\([^()]{0,20}\)|timezone\.utc))
      | (?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
      | (?P<sign>[][(){}<>:=,])
    )""",
    re.VERBOSE | re.DOTALL,
)
_CONSTANTS = {"None": None, "True": True, "False": False}
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_WRAPPERS = {"UUID", "uuid.UUID", "SecretStr"}


def read_python(text: str, max_depth: int) -> object:
    """The value as plain mappings, lists and scalars: an object becomes the mapping of its fields, an enum its value,
    a date-time its ISO-8601 text. Raises `UnparsedFilter`.

    >>> read_python("must=[FieldCondition(key='a', match=MatchValue(value=1))] should=None", 9)
    {'must': [{'key': 'a', 'match': {'value': 1}}], 'should': None}
    """
    reader = _Reader(_tokens(text), max_depth)
    return reader.whole_text()


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKENS.match(text, at)
        if match is None or match.lastgroup is None:
            raise UnparsedFilter(f"neither JSON nor printed Python: {text[at : at + 40]!r}")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tokens


@dataclass
class _Reader:
    tokens: list[tuple[str, str]]
    depth: int
    at: int = 0

    def peek(self, ahead: int = 0) -> tuple[str, str]:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ("end", "")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.at += 1
        return token

    def skip(self, sign: str) -> bool:
        found = self.peek() == ("sign", sign)
        self.at += found
        return found

    def expect(self, sign: str) -> None:
        if not self.skip(sign):
            raise UnparsedFilter(f"{sign!r} is missing before {self.peek()[1]!r}")

    def whole_text(self) -> object:
        if self.peek()[0] == "name" and self.peek(1) == ("sign", "="):
            fields: dict[str, object] = {}
            while self.peek()[0] == "name":
                name, value = self.field()
                fields[name] = value
            found: object = fields
        else:
            found = self.value()
        if self.peek()[0] != "end":
            raise UnparsedFilter(f"more after the end of the value: {self.peek()[1]!r}")
        return found

    def field(self) -> tuple[str, object]:
        name = self.take()[1]
        self.expect("=")
        return name, self.value()

    def value(self) -> object:
        if self.depth == 0:
            raise UnparsedFilter("nested too deep")
        self.depth -= 1
        try:
            return self.inner_value()
        finally:
            self.depth += 1

    def inner_value(self) -> object:
        kind, text = self.take()
        match kind, text:
            case "string", _:
                return _string(text)
            case "number", _:
                return _number(text)
            case "name", _ if text in _CONSTANTS:
                return _CONSTANTS[text]
            case "name", _ if self.skip("("):
                return self.call(text)
            case "sign", "[" | "(":
                return self.items(_CLOSING[text])
            case "sign", "{":
                return self.mapping()
            case "sign", "<":
                return self.enum_member()
        raise UnparsedFilter(f"no value: {text!r}")

    def items(self, closing: str) -> list[object]:
        items: list[object] = []
        while not self.skip(closing):
            items.append(self.value())
            if not self.skip(","):
                self.expect(closing)
                break
        return items

    def mapping(self) -> object:
        found: dict[object, object] = {}
        while not self.skip("}"):
            key = self.value()
            if not isinstance(key, str):
                raise UnparsedFilter(f"a key is no text: {key!r:.200}")
            self.expect(":")
            found[key] = self.value()
            if not self.skip(","):
                self.expect("}")
                break
        return found

    def enum_member(self) -> object:
        """`<Operator.EQ: '=='>`, whose value is what counts."""
        self.take()
        self.expect(":")
        value = self.value()
        self.expect(">")
        return value

    def call(self, name: str) -> object:
        positional: list[object] = []
        fields: dict[str, object] = {}
        while not self.skip(")"):
            if self.peek()[0] == "name" and self.peek(1) == ("sign", "="):
                key, value = self.argument()
                fields[key] = value
            else:
                positional.append(self.value())
            if not self.skip(","):
                self.expect(")")
                break
        return _called(name, positional, fields)

    def argument(self) -> tuple[str, object]:
        if self.peek(2)[0] != "zone":
            return self.field()
        name = self.take()[1]
        self.take()
        return name, _zone(self.take()[1])


def _called(name: str, positional: list[object], fields: dict[str, object]) -> object:
    if name.rpartition(".")[2] in ("datetime", "date") and positional:
        return _moment(positional, fields)
    if name in _WRAPPERS and len(positional) == 1 and not fields:
        return positional[0]
    if positional:
        raise UnparsedFilter(f"what {name}() holds is not named")
    return fields


def _moment(parts: list[object], fields: dict[str, object]) -> str:
    zone = fields.pop("tzinfo", None)
    numbers = [part for part in parts if isinstance(part, int)]
    if len(numbers) != len(parts) or not 3 <= len(parts) <= 7 or fields.keys() - {"fold"}:
        raise UnparsedFilter(f"no date-time: {parts!r:.200}")
    try:
        moment = datetime(*numbers, tzinfo=zone if isinstance(zone, timezone) else None)  # type: ignore[arg-type,misc]
    except (ValueError, OverflowError):
        raise UnparsedFilter(f"no date-time: {parts!r:.200}") from None
    return moment.isoformat()


def _zone(text: str) -> timezone:
    """`TzInfo(UTC)`, `TzInfo(0)` (seconds) or `TzInfo(+02:00)`, as pydantic's versions print it."""
    inside = text.partition("(")[2].rstrip(")")
    if inside in ("", "UTC"):
        return UTC
    if match := re.fullmatch(r"([+-]?)(\d\d):(\d\d)", inside):
        seconds = (int(match[2]) * 3600 + int(match[3]) * 60) * (-1 if match[1] == "-" else 1)
    elif re.fullmatch(r"[+-]?\d{1,5}", inside):
        seconds = int(inside)
    else:
        raise UnparsedFilter(f"no offset from UTC: {text!r}")
    if abs(seconds) >= 86400:
        raise UnparsedFilter(f"no offset from UTC: {text!r}")
    return timezone(timedelta(seconds=seconds))


def _string(token: str) -> str:
    prefix, quoted = ("", token) if token[0] in "'\"" else (token[0].lower(), token[1:])
    if prefix == "b":
        raise UnparsedFilter(f"bytes, no text: {token:.200}")
    return quoted[1:-1] if prefix == "r" else unescape(quoted[1:-1])


def _number(token: str) -> int | float:
    try:
        return int(token) if token.lstrip("+-").isdecimal() else float(token)
    except ValueError:
        raise UnparsedFilter(f"no number: {token:.40}") from None
