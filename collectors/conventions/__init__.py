"""What spans mean, convention by convention: `kind_of`, `has_answer`, `has_feedback`, and `read` by precedence."""

from __future__ import annotations

from collections.abc import Mapping
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
)
from collectors.conventions.convention import (
    ANCHOR_KINDS,
    Convention,
    Field,
    FoundDocument,
    Rule,
    SpanKind,
)
from collectors.span import Span, StatusCode
from collectors.trace import Flag

__all__ = [
    "ANCHOR_KINDS",
    "CONVENTIONS",
    "RULES",
    "SESSION_ATTRIBUTES",
    "Convention",
    "Field",
    "FoundDocument",
    "Reading",
    "Rule",
    "Rules",
    "SpanKind",
    "has_answer",
    "has_feedback",
    "kind_of",
    "read",
]

CONVENTIONS: tuple[Convention, ...] = (
    rag.CONVENTION,
    openinference.CONVENTION,
    otel.CONVENTION,
    genai.CONVENTION,
    genai_events.CONVENTION,
    vector_db.CONVENTION,
    langfuse.CONVENTION,
    mlflow.CONVENTION,
    openllmetry.CONVENTION,
    langsmith.CONVENTION,
    openinference_io.CONVENTION,
    llamaindex.CONVENTION,
    haystack.CONVENTION,
)
"""By rank: where two conventions give a field of one span, the earlier one is believed."""

Rules = Mapping[Field, tuple[tuple[str, Rule], ...]]

RULES: Rules = {
    field: tuple((one.name, rule) for one in CONVENTIONS for rule in one.rules.get(field, ()))
    for field in Field
}
"""All rules of a field by rank, each with its convention's name."""

SESSION_ATTRIBUTES = tuple(
    dict.fromkeys(rule.attribute for _, rule in RULES[Field.SESSION] if not rule.spread and not rule.event)
)
"""Attributes that name the session of a span."""

# A span's own word for its kind outranks what rag.* attributes on it imply. LangSmith's and MLflow's spans have
# an operation of GenAI too, which says less.
_KINDS = (
    openinference.CONVENTION.kind_of,
    langsmith.CONVENTION.kind_of,
    langfuse.CONVENTION.kind_of,
    mlflow.CONVENTION.kind_of,
    genai.CONVENTION.kind_of,
    openllmetry.CONVENTION.kind_of,
    vector_db.CONVENTION.kind_of,
    llamaindex.CONVENTION.kind_of,
    haystack.CONVENTION.kind_of,
    rag.CONVENTION.kind_of,
)
_ENDINGS = frozenset({SpanKind.LLM, *ANCHOR_KINDS})
_ANSWERS = frozenset(name for one in CONVENTIONS for name in one.answers)
_FEEDBACK_ATTRIBUTES = tuple(
    f"{prefix}annotations.0.annotation.{leaf}"
    for prefix in ("trace.", "", "session.")
    for leaf in ("name", "label")
)


class Reading(NamedTuple):
    """A field's value and the convention and attribute that gave it."""

    value: Any
    source: str


def kind_of(span: Span) -> SpanKind | None:
    """What the span did; None where no convention says."""
    for own in _KINDS:
        kind = own(span)
        if kind is not None:
            return kind
    return None


def has_answer(span: Span, kind: SpanKind | None) -> bool:
    """Whether the span ends a request: it carries an answer, or it is the root of one and failed.

    Cheap on purpose: assembly asks it of every span to know how long to wait, nothing else hangs on it.
    """
    attributes = span.attributes
    if "rag.answer.text" in attributes:
        return True
    if span.is_log:
        return span.name in _ANSWERS
    if kind not in _ENDINGS or (kind is not SpanKind.LLM and span.parent_id is not None):
        return False
    return (
        span.status is StatusCode.ERROR
        or not _ANSWERS.isdisjoint(attributes)
        or any(event.name in _ANSWERS for event in span.events)
    )


def has_feedback(span: Span) -> bool:
    """Whether the span carries a person's annotations, of its own request or of the one that it links to."""
    return any(name in span.attributes for name in _FEEDBACK_ATTRIBUTES) or (
        bool(span.events) and genai_events.has_evaluation(span)
    )


def read(field: Field, span: Span, flags: set[Flag], rules: Rules = RULES) -> Reading | None:
    """The field as the highest-ranking convention on this span gives it; None where none does. `rules` may be those of
    them alone that can say anything here."""
    attributes = span.attributes
    for name, rule in rules[field]:
        raw = rule.raw(span) if rule.event else attributes.get(rule.attribute)
        if raw is None and not rule.spread:
            continue
        value = rule.read(span, raw, flags)
        if value is not None:
            return Reading(value, f"{name} {rule.source}")
    return None
