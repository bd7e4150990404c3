"""`input.value` and `output.value`: what a span took and gave, as text or JSON, in each framework's own shape.

They rank below every attribute that means one thing. The MIME type says whether JSON was meant, so that JSON which was
cut short by a value limit is told from an answer that begins with a bracket.
"""

from __future__ import annotations

import re
from typing import Any

from collectors.conventions import values
from collectors.conventions.convention import Convention, Field, FoundDocument, Rule
from collectors.conventions.messages import answer_in, question_in
from collectors.dialects.haystack import parse_haystack
from collectors.predicate import Predicate, UnparsedFilter
from collectors.span import AttributeValue, Span
from collectors.trace import Flag, IdSource, ScoreKind

_JSON = "application/json"
_NODE = re.compile(r"\bid_=(?P<id>[^)]*)\).*?\bscore=(?P<score>[-+.\deE]+|None)")
_HAYSTACK_DOCUMENT = re.compile(
    r"Document\(id=(?P<id>[^,]+), .*?(?:score: (?P<score>[-+.\deE]+)[^\"]*)?\)$", re.DOTALL
)


def _payload(span: Span, side: str, raw: AttributeValue, flags: set[Flag]) -> Any:
    """The value as its MIME type says; JSON without a MIME type is believed if it parses."""
    if not isinstance(raw, str):
        return raw
    if raw == values.REDACTED:
        flags.add(Flag.REDACTED)
        return None
    declared = span.attributes.get(f"{side}.mime_type")
    if declared not in (None, _JSON) or raw.lstrip()[:1] not in ("{", "["):
        return raw
    parsed = values.parse_json(raw)
    if parsed is None and declared == _JSON:
        flags.add(Flag.TRUNCATED_JSON)
        return None
    return raw if parsed is None else parsed


def _question(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return question_in(_payload(span, "input", raw, flags))


def _answer(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return answer_in(_payload(span, "output", raw, flags))


def _documents(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
    """LangChain's `{"documents": [{id, metadata, page_content}]}`, LlamaIndex's and Haystack's printed objects."""
    if isinstance(raw, str) and raw == values.REDACTED:
        flags.add(Flag.REDACTED)
        return None
    parsed = values.structured(raw, flags)
    if isinstance(parsed, dict):
        parsed = parsed.get("documents")
    return tuple(map(_document, parsed)) if isinstance(parsed, list) else None


def printed_documents(span: Span) -> tuple[FoundDocument, ...] | None:
    """The documents of a retriever's raw output, for what its attributes no longer hold."""
    raw = span.attributes.get("output.value")
    return None if raw is None else _documents(span, raw, set())


def _document(item: object) -> FoundDocument:
    if isinstance(item, str):
        return _printed_document(item)
    if not isinstance(item, dict):
        return FoundDocument()
    identity = values.identity_in(item, ("id",))
    body = item.get("page_content", item.get("content", item.get("text")))
    return FoundDocument(
        id=identity,
        id_source=None if identity is None else IdSource.OUTPUT,
        score=(score := values.as_number(item.get("score"))),
        score_kind=None if score is None else ScoreKind.SIMILARITY,
        metadata=values.mapping_in(item.get("metadata"), set()),
        text=body if isinstance(body, str) else None,
    )


def _printed_document(printed: str) -> FoundDocument:
    found = _NODE.search(printed) or _HAYSTACK_DOCUMENT.match(printed)
    if found is None:
        return FoundDocument()
    try:
        score = float(found["score"])
    except (TypeError, ValueError):
        score = None
    return FoundDocument(found["id"], IdSource.OUTPUT, score, None if score is None else ScoreKind.SIMILARITY)


def _filters(span: Span, raw: AttributeValue, flags: set[Flag]) -> Predicate | str | None:
    """Haystack's run-time filters. None when there are none: the component may have its own from construction."""
    if not isinstance(raw, str) or '"filters"' not in raw:
        return None
    taken = _payload(span, "input", raw, flags)
    tree = taken.get("filters") if isinstance(taken, dict) else None
    if not tree:
        return None
    try:
        return parse_haystack(tree)
    except UnparsedFilter:
        flags.add(Flag.FILTER_UNPARSED)
        return values.as_json_text(tree)


def _top_k(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
    if not isinstance(raw, str) or '"top_k"' not in raw:
        return None
    taken = _payload(span, "input", raw, flags)
    return values.whole(span, taken.get("top_k"), flags) if isinstance(taken, dict) else None


_RULES = {
    Field.INPUT: (Rule("input.value", _question),),
    Field.OUTPUT: (Rule("output.value", _answer),),
    Field.DOCUMENTS: (Rule("output.value", _documents),),
    Field.FILTER: (Rule("input.value", _filters),),
    Field.TOP_K: (Rule("input.value", _top_k),),
}

CONVENTION = Convention("openinference", _RULES, answers=("output.value",))
