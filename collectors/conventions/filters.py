"""A filter as a vector store's span logged it: which notation it is in, and what it asks.

The notation shows in the shape; only for expressions in a language of its own does the database's name decide. What no
parser takes is kept as text and flagged.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from collectors.conventions import values
from collectors.conventions.convention import Read
from collectors.dialects.haystack import parse_haystack
from collectors.dialects.spring_ai import parse_spring_ai
from collectors.predicate import Predicate, UnparsedFilter, parse_equalities
from collectors.span import AttributeValue, Span
from collectors.trace import Flag

MAX_LITERAL = 20_000
"""Longer Python text is not read: parsing it would take more than the filter is worth."""

_SYSTEMS = ("db.system.name", "db.system", "gen_ai.provider.name")


def logged(system: str | None = None) -> Read:
    """Reads an attribute that holds a filter; `system` names the database where the span itself does not."""

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> Predicate | str | None:
        if raw in (None, "", {}, []):
            return None
        if raw == values.REDACTED:
            flags.add(Flag.REDACTED)
            return None
        try:
            return parse_filter(raw, system or _system(span))
        except UnparsedFilter:
            flags.add(Flag.FILTER_UNPARSED)
            return values.as_json_text(raw)

    return read


def parse_filter(raw: object, system: str = "") -> Predicate:
    """The predicate of a filter in whatever notation it is in. Raises `UnparsedFilter`.

    >>> from collectors.predicate import to_text
    >>> to_text(parse_filter("{'tenant': 'acme', 'published': True}"))
    'tenant = acme and published = true'
    >>> to_text(parse_filter("Expression[type=EQ, left=Key[key=dept], right=Value[value=sales]]"))
    'dept = sales'
    """
    if isinstance(raw, str):
        raw = unprinted(raw)
    if isinstance(raw, str):
        return _expression(raw, system)
    if isinstance(raw, Mapping) and all(isinstance(name, str) for name in raw):
        return _tree(raw)
    raise UnparsedFilter(f"no filter in any notation: {raw!r}")


def unprinted(text: str) -> object:
    """What JSON or Python text stands for; the text itself where it is neither."""
    text = text.strip()
    if text[:1] not in ("{", "["):
        return text
    parsed = values.parse_json(text)
    return _python_literal(text) if parsed is None else parsed


def _python_literal(text: str) -> object:
    if len(text) > MAX_LITERAL:
        raise UnparsedFilter(f"{len(text)} characters of Python text")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise UnparsedFilter(f"neither JSON nor a Python literal: {text[:80]!r}") from error


def _expression(text: str, system: str) -> Predicate:
    for begins, parse in _EXPRESSIONS:
        if begins(text, system):
            return parse(text)
    raise UnparsedFilter(f"an expression in no language known here: {text[:80]!r}")


def _tree(tree: Mapping[str, object]) -> Predicate:
    for is_one, parse in _TREES:
        if is_one(tree):
            return parse(tree)
    if any(name.startswith("$") for name in tree):
        raise UnparsedFilter("operators that begin with $")
    return parse_equalities(tree)


def _system(span: Span) -> str:
    found = next((span.attributes[name] for name in _SYSTEMS if name in span.attributes), "")
    return str(found).lower()


_EXPRESSIONS: tuple[tuple[Callable[[str, str], bool], Callable[[str], Predicate]], ...] = (
    (lambda text, system: text.startswith("Expression["), parse_spring_ai),
)
_TREES: tuple[tuple[Callable[[Mapping[str, object]], bool], Callable[[object], Predicate]], ...] = (
    (lambda tree: "operator" in tree and ("conditions" in tree or "field" in tree), parse_haystack),
)
