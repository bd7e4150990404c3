"""Calls as vendors log them: readers of what a function took (question, filter, top k) and gave (answer, documents).

What it took is a map of named arguments, Langfuse's `{"args": [...], "kwargs": {...}}`, messages, or the question
alone. Each reader is made for a vendor from the way in which that vendor writes values (`load`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from collectors.conventions import filters, values
from collectors.conventions.convention import FoundDocument, Read
from collectors.conventions.messages import answer_in, last_user_text, question_in
from collectors.conventions.payloads import documents_in
from collectors.predicate import Predicate
from collectors.span import AttributeValue, Span
from collectors.trace import Flag, ScoreKind

Load = Callable[[AttributeValue, set[Flag]], Any]
"""From an attribute's value to what it stands for."""

_FILTERS = (
    "filters",
    "filter",
    "where",
    "where_document",
    "metadata_filters",
    "metadata_filter",
    "query_filter",
    "pre_filter",
    "expr",
)
_TOP_KS = ("top_k", "k", "limit", "n_results", "similarity_top_k")
_CONTEXTS = ("context", "context_str")


def named(payload: object) -> Mapping[str, Any]:
    """The named arguments, with those that LangChain's retrievers hand on as `search_kwargs`.

    >>> named({"args": ["How long?"], "kwargs": {"k": 4, "search_kwargs": {"filter": {"tenant": "acme"}}}})["filter"]
    {'tenant': 'acme'}
    """
    if not isinstance(payload, dict):
        return {}
    arguments = payload["kwargs"] if _is_bound(payload) else payload
    inner = arguments.get("search_kwargs")
    return {**inner, **arguments} if isinstance(inner, dict) else arguments


def question_of(payload: object) -> str | None:
    """The question that the function was called with; where several texts went in by position, which is a guess.

    >>> question_of({"args": ["How long?", {"tenant": "acme"}], "kwargs": {}}), question_of("How long?")
    ('How long?', 'How long?')
    >>> question_of({"args": ["How long?", ["kb-1"]], "kwargs": {}})
    'How long?'
    >>> question_of({"args": ["How long?", "u-17"], "kwargs": {}}) is None
    True
    """
    if not isinstance(payload, dict) or not _is_bound(payload):
        return question_in(payload)
    positional = payload["args"]
    texts = [one for one in positional if isinstance(one, str) and one.strip()]
    messages = [last_user_text(one) for one in positional if isinstance(one, list)]
    return (
        question_in(payload["kwargs"])
        or next((one for one in messages if one), None)
        or (texts[0] if len(texts) == 1 else None)
    )


def asked(load: Load) -> Read:
    """The question in what went in."""
    return lambda span, raw, flags: question_of(load(raw, flags))


def said(load: Load) -> Read:
    """The answer in what came out."""
    return lambda span, raw, flags: answer_in(load(raw, flags))


def documents(load: Load, kind: ScoreKind = ScoreKind.SIMILARITY) -> Read:
    """The documents in what went in or came out."""

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
        payload = load(raw, flags)
        if isinstance(payload, str):
            payload = values.structured(payload, flags)
        if isinstance(payload, dict) and _is_bound(payload):
            lists = [one for one in (*payload["args"], *payload["kwargs"].values()) if isinstance(one, list)]
            payload = lists[0] if len(lists) == 1 else None
        return documents_in(payload, kind)

    return read


def applied_filter(load: Load) -> Read:
    """The filter among a retriever's arguments. None when there is none: it may have its own from construction."""

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> Predicate | str | None:
        if not _mentions(raw, _FILTERS):
            return None
        arguments = named(load(raw, flags))
        return filter_in(span, arguments, flags)

    return read


def filter_in(span: Span, arguments: Mapping[str, Any], flags: set[Flag]) -> Predicate | str | None:
    """The filter among named arguments, its text where it cannot be parsed (which is flagged). Several are all of it:
    what a store makes of a second one is not known."""
    named = {name: arguments[name] for name in _FILTERS if arguments.get(name)}
    if len(named) > 1 or "where_document" in named:
        flags.add(Flag.FILTER_UNPARSED)
        return values.as_json_text(named)
    found: Predicate | str | None = filters.logged()(span, next(iter(named.values()), None), flags)
    return found


def top_k(load: Load) -> Read:
    """How many documents were asked for, among a retriever's arguments."""

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
        arguments = named(load(raw, flags)) if _mentions(raw, _TOP_KS) else {}
        counts = (values.whole(span, arguments.get(name), flags) for name in _TOP_KS)
        return next((count for count in counts if count is not None), None)

    return read


def context(load: Load, is_prompt: Callable[[Span], bool]) -> Read:
    """The passages sent to the model: the context among the arguments of a prompt template."""

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[str, ...] | None:
        if not is_prompt(span):
            return None
        arguments = named(load(raw, flags))
        found = next((arguments[name] for name in _CONTEXTS if isinstance(arguments.get(name), str)), None)
        return None if found is None else ((found,) if found else ())

    return read


def embedded(load: Load, given: str) -> Read:
    """The text that went into an embedder with its vector, which is in the attribute `given`."""

    def read(
        span: Span, raw: AttributeValue, flags: set[Flag]
    ) -> tuple[tuple[str, tuple[float, ...]], ...] | None:
        text = question_of(load(raw, flags))
        vector = values.vector(span, load(span.attributes.get(given), flags), flags)
        return None if text is None or vector is None else ((text, vector),)

    return read


def _is_bound(payload: Mapping[str, Any]) -> bool:
    return isinstance(payload.get("args"), list) and isinstance(payload.get("kwargs"), dict)


def _mentions(raw: AttributeValue, names: tuple[str, ...]) -> bool:
    """Whether it is worth parsing."""
    return not isinstance(raw, str) or any(f'"{name}"' in raw for name in names)
