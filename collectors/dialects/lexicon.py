"""What a dialect of expressions calls things, and its text cut into tokens."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from collectors.predicate import UnparsedFilter

MAX_TOKENS = 10_000


class Token(NamedTuple):
    """A token: its kind (name, quoted_name, string, number, sign, end) and what it says."""

    kind: str
    text: str


@dataclass(frozen=True)
class Lexicon:
    """What one dialect calls things.

    `pattern` has the named groups of the token kinds; `string` and `quoted_name` give the meaning of such a token.
    `contains` maps the names of functions of a list and a value (`item`) or values (`all`, `any`) to which of these;
    `times` are the words before a text that make it a time; `equal` are the signs of equality; `bare` allows a field
    alone, which is then a boolean.
    """

    pattern: re.Pattern[str]
    string: Callable[[str], str]
    quoted_name: Callable[[str], str]
    contains: Mapping[str, str]
    times: frozenset[str]
    equal: frozenset[str]
    unequal: frozenset[str]
    brackets: str
    bare: bool


def tokens(text: str, lexicon: Lexicon) -> list[Token]:
    """The tokens of the text. Raises `UnparsedFilter`."""
    found: list[Token] = []
    at_char, end = 0, len(text.rstrip())
    while at_char < end:
        match = lexicon.pattern.match(text, at_char)
        if match is None or match.lastgroup is None or len(found) == MAX_TOKENS:
            raise UnparsedFilter(f"no word of an expression: {text[at_char : at_char + 40]!r}")
        found.append(Token(match.lastgroup, match[match.lastgroup]))
        at_char = match.end()
    return found


def number(text: str) -> int | float:
    """The number of a token. Raises `UnparsedFilter` for one that is not finite."""
    digits = text.lstrip("+-")
    if digits.isdecimal() and len(digits) < 400:
        if len(digits) > 1 and digits[0] == "0":
            raise UnparsedFilter(f"octal or not? {text}")
        return int(text)
    found = float(text)
    if math.isinf(found):
        raise UnparsedFilter(f"too large a number: {text:.40}")
    return found
