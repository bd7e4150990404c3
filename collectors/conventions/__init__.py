"""What spans mean, convention by convention: `kind_of`, `has_answer`, `has_feedback`, and `read` by precedence."""

from __future__ import annotations

from typing import Any, NamedTuple

from collectors.conventions import (
    genai,
    genai_events,
    haystack,
    langfuse,
    langsmith,
    llamaindex,
    mlflow,
    openinference,
    openinference_io,
    openllmetry,
    otel,
    rag,
    vector_db,
    vercel,
)
from collectors.conventions.convention import (
    ANCHOR_KINDS,
    Convention,
    Field,
    FoundDocument,
    Rule,
    SpanKind,
)
from collectors.conventions.spoken import RankedRule, Rules, Speech, Spoken
from collectors.span import Span, StatusCode
from collectors.trace import Flag

__all__ = [
    "ANCHOR_KINDS",
    "ASKED_FIRST",
    "CONVENTIONS",
    "RESPONSE_ID",
    "RULES",
    "SESSION_ATTRIBUTES",
    "Convention",
    "Field",
    "FoundDocument",
    "Reading",
    "SpanKind",
    "Spoken",
    "given",
    "has_answer",
    "has_feedback",
    "kind_of",
    "read",
    "spoken_of",
]

CONVENTIONS: tuple[Convention, ...] = (
    rag.CONVENTION,
    openinference.CONVENTION,
    otel.CONVENTION,
    genai.CONVENTION,
    genai_events.CONVENTION,
    vector_db.CONVENTION,
    vercel.CONVENTION,
    langfuse.CONVENTION,
    mlflow.CONVENTION,
    openllmetry.CONVENTION,
    langsmith.CONVENTION,
    openinference_io.CONVENTION,
    llamaindex.CONVENTION,
    haystack.CONVENTION,
)
"""By rank: where two conventions give a field of one span, the earlier one is believed."""

RULES: Rules = {
    field: tuple(
        RankedRule(rank, f"{name} {rule.source}", rule)
        for rank, (name, rule) in enumerate(
            (one.name, rule) for one in CONVENTIONS for rule in one.rules.get(field, ())
        )
    )
    for field in Field
}
"""All rules of a field by rank."""

RESPONSE_ID = "gen_ai.response.id"
SESSION_ATTRIBUTES = tuple(
    dict.fromkeys(rule.attribute for _, _, rule in RULES[Field.SESSION] if not rule.spread and not rule.event)
)
"""Attributes that name the session of a span."""

# A span's own word for its kind outranks what rag.* attributes on it imply. LangSmith's and MLflow's spans have
# an operation of GenAI too, which says less.
_KINDS = (
    openinference.CONVENTION,
    langsmith.CONVENTION,
    langfuse.CONVENTION,
    mlflow.CONVENTION,
    vercel.CONVENTION,
    genai.CONVENTION,
    openllmetry.CONVENTION,
    vector_db.CONVENTION,
    llamaindex.CONVENTION,
    haystack.CONVENTION,
    rag.CONVENTION,
)
_TEXTS = frozenset(
    rule.attribute
    for field in (Field.QUERY, Field.ANSWER, Field.OUTPUT, Field.RERANKED, Field.ENTITLEMENT, Field.RELEVANCE)
    for _, _, rule in RULES[field]
)
ASKED_FIRST = (
    frozenset(name for one in _KINDS for name in one.kinds_by)
    .union((RESPONSE_ID, *SESSION_ATTRIBUTES))
    .difference(_TEXTS)
)
"""Short attributes that are asked of every span when it comes: they name its kind, its response or its session."""
_MODELS = frozenset({SpanKind.LLM})
_ENDINGS = _MODELS | ANCHOR_KINDS
_ERROR = StatusCode.ERROR
_ANSWERS = frozenset(name for one in CONVENTIONS for name in one.answers)
_FEEDBACK = frozenset(
    f"{prefix}annotations.0.annotation.{leaf}"
    for prefix in ("trace.", "", "session.")
    for leaf in ("name", "label")
) | {genai_events.EVALUATION}


spoken_of = Speech(
    RULES, _KINDS, answers=_ANSWERS, judges=_FEEDBACK, refers=(RESPONSE_ID, *SESSION_ATTRIBUTES)
).of
"""From a span to what can be said of it by its shape alone."""


class Reading(NamedTuple):
    """A field's value and the convention and attribute that gave it."""

    value: Any
    source: str


def kind_of(span: Span, spoken: Spoken | None = None) -> SpanKind | None:
    """What the span did; None where no convention says. `spoken` is what `spoken_of` says of it, where it is known."""
    for own in (spoken or spoken_of(span)).kinds:
        kind = own(span)
        if kind is not None:
            return kind
    return None


def has_answer(span: Span, kind: SpanKind | None, spoken: Spoken | None = None) -> bool:
    """Whether the span ends a request: it carries an answer, or it is the root of one and failed.

    Cheap on purpose: assembly asks it of every span to know how long to wait, nothing else hangs on it.
    """
    if "rag.answer.text" in span.attributes:
        return True
    if span.is_log:
        return span.name in _ANSWERS
    if kind not in (_ENDINGS if span.parent_id is None else _MODELS):
        return False
    return span.status is _ERROR or (spoken or spoken_of(span)).answers


def has_feedback(span: Span) -> bool:
    """Whether the span carries a person's annotations, of its own request or of the one that it links to."""
    return spoken_of(span).judges


def read(field: Field, span: Span, flags: set[Flag], spoken: Spoken | None = None) -> Reading | None:
    """The field as the highest-ranking convention on this span gives it; None where none does. `spoken` is what
    `spoken_of` says of the span, where it is known."""
    for ranked in (spoken or spoken_of(span)).rules.get(field, ()):
        value = given(ranked.rule, span, flags)
        if value is not None:
            return Reading(value, ranked.source)
    return None


def given(rule: Rule, span: Span, flags: set[Flag]) -> Any:
    """What one rule gives of the span; None where it says nothing."""
    if rule.only is not None and not rule.only(span):
        return None
    raw = rule.raw(span) if rule.event else span.attributes.get(rule.attribute)
    return None if raw is None and not rule.spread else rule.read(span, raw, flags)
