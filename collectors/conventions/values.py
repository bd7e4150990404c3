"""Reading single attribute values: what every convention's table is made of."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from collectors.conventions.convention import FoundDocument, Read
from collectors.dialects.clauses import parse_clauses
from collectors.dialects.loading import load
from collectors.predicate import Predicate, UnparsedFilter
from collectors.shape import shape_of
from collectors.span import AttributeValue, Span
from collectors.trace import Citation, Flag, IdSource, ScoreKind

REDACTED = "__REDACTED__"
"""What OpenInference writes in place of hidden content."""

_IDS = ("id", "document_id", "doc_id")
_TEXTS = ("content", "text", "page_content")
"""The specification's name first, then those that services write in its place."""

MAX_LIST = 1000
"""Indices at and beyond this are packed rather than left as holes: one attribute must not make a million."""


def text(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    """The text as it is, empty or not."""
    if raw == REDACTED:
        flags.add(Flag.REDACTED)
        return None
    return raw if isinstance(raw, str) else None


def filled(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    """The text unless it is blank: many SDKs write an empty string where they know nothing."""
    value = text(span, raw, flags)
    return value if value and not value.isspace() else None


def label(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    """A short name or id; numbers become their text."""
    return (
        str(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) else filled(span, raw, flags)
    )


def whole(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
    """A count: an int of at least 0, or one as text."""
    if isinstance(raw, str):
        raw = as_number(raw)
    if isinstance(raw, float) and raw.is_integer():
        raw = int(raw)
    return raw if isinstance(raw, int) and not isinstance(raw, bool) and raw >= 0 else None


def number(span: Span, raw: AttributeValue, flags: set[Flag]) -> float | None:
    """A finite float."""
    return as_number(raw)


def boolean(span: Span, raw: AttributeValue, flags: set[Flag]) -> bool | None:
    return raw if isinstance(raw, bool) else None


def vector(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[float, ...] | None:
    """An embedding: a non-empty list of finite numbers, or that as JSON."""
    items = structured(raw, flags)
    if not isinstance(items, list) or not items:
        return None
    if all(type(item) is float and math.isfinite(item) for item in items):
        return tuple(items)
    numbers = tuple(as_number(item) for item in items)
    return None if None in numbers else numbers  # type: ignore[return-value]


def strings(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[str, ...] | None:
    """A list of strings, that as JSON, or one string alone; empty is a value."""
    if raw == REDACTED:
        flags.add(Flag.REDACTED)
        return None
    if isinstance(raw, str) and not raw.lstrip().startswith("["):
        return (raw,) if raw else ()
    items = structured(raw, flags)
    return tuple(str(item) for item in items) if isinstance(items, list) else None


def passages(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[str, ...] | None:
    """The context as one text: empty where nothing was sent."""
    found = text(span, raw, flags)
    return None if found is None else ((found,) if found else ())


def mapping(span: Span, raw: AttributeValue, flags: set[Flag]) -> Mapping[str, Any] | None:
    value = structured(raw, flags)
    return value if isinstance(value, dict) else None


def clauses(span: Span, raw: AttributeValue, flags: set[Flag]) -> Predicate | str | None:
    """A `rag.filter.*` clause list, structured or as JSON; its text where it cannot be parsed."""
    items = structured(raw, flags)
    if items is None and not isinstance(raw, str):
        return None
    try:
        if not isinstance(items, list):
            raise UnparsedFilter(f"not a list of clauses: {raw!r}")
        return parse_clauses(items)
    except UnparsedFilter:
        flags.add(Flag.FILTER_UNPARSED)
        return as_json_text(raw)


def citations(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[Citation, ...] | None:
    """A list of `{document_id, start?, end?}`; entries that are not one are left out."""
    items = structured(raw, flags)
    if not isinstance(items, list):
        return None
    return tuple(
        Citation(
            document_id=item["document_id"],
            start=whole(span, item.get("start"), flags),
            end=whole(span, item.get("end"), flags),
        )
        for item in items
        if isinstance(item, dict) and isinstance(item.get("document_id"), str)
    )


def documents(kind: ScoreKind) -> Read:
    """A list of `{id?, score?, content?, metadata?}`, structured or as text; bare strings are ids."""

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
        items = structured(raw, flags)
        if not isinstance(items, list):
            return None
        return tuple(_document(item, kind, flags) for item in items)

    return read


def structured(raw: AttributeValue, flags: set[Flag]) -> Any:
    """The value, or what its JSON or printed Python says; None where it is hidden, or cut short (which is flagged).

    >>> flags = set(); structured("{'tenant': 'acme', 'draft': False}", flags), flags
    ({'tenant': 'acme', 'draft': False}, set())
    >>> structured("{'tenant': 'ac", flags), sorted(flags)
    (None, [<Flag.TRUNCATED_JSON: 'truncated_json'>])
    """
    if not isinstance(raw, str):
        return raw
    if raw == REDACTED:
        flags.add(Flag.REDACTED)
        return None
    value = parse_json(raw)
    if value is None and raw.lstrip()[:1] in ("{", "["):
        value = _printed(raw)
        if value is None:
            flags.add(Flag.TRUNCATED_JSON)
    return value


_PRINTED = re.compile(r"\s*[\[{(]*(?:'|Document\()")
"""How Python prints what holds texts first, where JSON would have a double quote; and LangChain's documents."""


def _printed(raw: str) -> Any:
    """What `str()` made the text of, None where it is not that."""
    try:
        return load(raw) if _PRINTED.match(raw) else None
    except UnparsedFilter:
        return None


_DECODER = json.JSONDecoder(parse_constant=lambda name: None)
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(raw: str) -> Any:
    """What the text says as JSON, None where it is not JSON. NaN and infinities become None, and halves of surrogate
    pairs, which JSON can spell and UTF-8 cannot, the replacement character.

    >>> parse_json(r'{"a": NaN, "b": "\\ud800!", "c": "\\ud83d\\ude00"}')
    {'a': None, 'b': '�!', 'c': '😀'}
    """
    try:
        value = _DECODER.decode(raw)
        if "\\u" in raw and _HALF_PAIR.search(raw):
            spelt = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
            value = json.loads(spelt.decode("utf-16-le", "replace"))
    except (ValueError, RecursionError):
        return None
    return value


def as_json_text(raw: AttributeValue) -> str:
    return raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str)


def as_number(raw: object) -> float | None:
    """A finite number, or one as text: some exporters know only texts.

    >>> as_number(2), as_number(" 0.83 "), as_number("NaN"), as_number("1_0"), as_number(True)
    (2.0, 0.83, None, None, None)
    """
    if isinstance(raw, str):
        try:
            raw = None if "_" in raw else float(raw)
        except ValueError:
            return None
    if isinstance(raw, int | float) and not isinstance(raw, bool) and math.isfinite(raw):
        return float(raw)
    return None


def indexed(span: Span, prefix: str) -> dict[int, dict[str, AttributeValue]]:
    """Flattened lists: `prefix` + `N.rest` attributes as {N: {rest: value}}.

    >>> indexed(Span("0" * 32, "1" * 16, None, "s", 0, 0, {"d.0.id": "a", "d.1.id": "b", "d": 1}), "d.")
    {0: {'id': 'a'}, 1: {'id': 'b'}}
    """
    found: dict[int, dict[str, AttributeValue]] = {}
    for index, rest, name in shape_of(span.attributes).indexed(prefix):
        found.setdefault(index, {})[rest] = span.attributes[name]
    return found


def in_order(found: Mapping[int, Mapping[str, AttributeValue]]) -> Iterator[Mapping[str, AttributeValue]]:
    """The items of a flattened list in order, an empty one for each that is missing before the last."""
    last = max(found, default=-1)
    if last < MAX_LIST:
        return (found.get(index, {}) for index in range(last + 1))
    return (found[index] for index in sorted(found))


def _document(item: object, kind: ScoreKind, flags: set[Flag]) -> FoundDocument:
    if isinstance(item, str):
        return FoundDocument(item, IdSource.LOGGED) if item else FoundDocument()
    if not isinstance(item, dict):
        return FoundDocument()
    identity = identity_in(item, _IDS)
    score = as_number(item.get("score"))
    return FoundDocument(
        id=identity,
        id_source=None if identity is None else IdSource.LOGGED,
        score=score,
        score_kind=None if score is None else kind,
        metadata=mapping_in(item.get("metadata"), flags),
        text=next((item[name] for name in _TEXTS if isinstance(item.get(name), str)), None),
    )


def identity_in(item: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first of these keys that holds an id: a text that is not empty, or an int."""
    found = (item.get(name) for name in names)
    return next((str(one) for one in found if type(one) is int or (isinstance(one, str) and one)), None)


def mapping_in(raw: object, flags: set[Flag]) -> Mapping[str, Any] | None:
    """Metadata inside something else: a map, or one that was written as text."""
    value = structured(raw, flags) if isinstance(raw, str) else raw
    return value if isinstance(value, dict) else None
