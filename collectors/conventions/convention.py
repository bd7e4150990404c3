"""What a convention is: a table from span attributes to the fields of a request, and how it names span kinds.

To add one, write a file with a `CONVENTION` and put it into `collectors.conventions.CONVENTIONS` at its rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from collectors.span import AttributeValue, Span
from collectors.trace import Flag, IdSource, ScoreKind


class SpanKind(StrEnum):
    """What a span did, in every convention's own words made one."""

    WORKFLOW = "workflow"
    CHAIN = "chain"
    AGENT = "agent"
    RETRIEVER = "retriever"
    RERANKER = "reranker"
    EMBEDDING = "embedding"
    LLM = "llm"
    TOOL = "tool"
    PROMPT = "prompt"
    EVALUATOR = "evaluator"
    GUARDRAIL = "guardrail"


ANCHOR_KINDS = frozenset({SpanKind.WORKFLOW, SpanKind.CHAIN, SpanKind.AGENT})
"""Kinds that may stand for a whole request."""


class Field(StrEnum):
    """What a rule reads from one span. The type of its value is given behind each."""

    QUERY = "query"  # str: the user's question, said to be so
    INPUT = "input"  # str: the question or text that went into this span
    ANSWER = "answer"  # str: the final answer, said to be so
    OUTPUT = "output"  # str: the text that this span gave
    DOCUMENTS = "documents"  # tuple[FoundDocument, ...]
    RERANK_INPUT = "rerank_input"  # tuple[FoundDocument, ...]
    RERANKED = "reranked"  # tuple[FoundDocument, ...]
    ENTITLEMENT = "entitlement"  # Predicate | str (the text, where it cannot be parsed)
    RELEVANCE = "relevance"  # Predicate | str
    FILTER = "filter"  # Predicate | str: the whole filter, entitlement and relevance in one
    TOP_K = "top_k"  # int
    QUERY_EMBEDDING = "query_embedding"  # tuple[float, ...]
    EMBEDDINGS = "embeddings"  # tuple[tuple[str, tuple[float, ...]], ...]: texts with their vectors
    CONTEXT = "context"  # tuple[str, ...]
    CONTEXT_IDS = "context_ids"  # tuple[str, ...]
    CITATIONS = "citations"  # tuple[Citation, ...]
    GOLD_IDS = "gold_ids"  # tuple[str, ...]
    REFUSED = "refused"  # bool
    INPUT_TOKENS = "input_tokens"  # int
    OUTPUT_TOKENS = "output_tokens"  # int
    COST = "cost"  # float, US dollars
    FIRST_TOKEN_NS = "first_token_ns"  # int, Unix nanoseconds  # noqa: S105
    CACHE_HIT = "cache_hit"  # tuple[str, bool]: layer, hit
    MODEL = "model"  # str
    PROMPT_VERSION = "prompt_version"  # str
    INDEX_VERSION = "index_version"  # str
    ENCODER_VERSION = "encoder_version"  # str
    SESSION = "session"  # str
    USER = "user"  # str
    TENANT = "tenant"  # str
    LOCALE = "locale"  # str
    INTENT = "intent"  # str
    METADATA = "metadata"  # Mapping[str, object]: the application's own keys
    STEP = "step"  # str: this span's name within the pipeline above it
    STEP_FILTERS = (
        "step_filters"  # Mapping[str, Predicate | str]: what a pipeline gave its steps, by their names
    )
    STEP_DOCUMENTS = "step_documents"  # Mapping[str, tuple[FoundDocument, ...]]: what a pipeline's steps gave
    FEEDBACK = "feedback"  # tuple[Feedback, ...]


class FoundDocument(NamedTuple):
    """A document as one span told of it; the normaliser settles its id."""

    id: str | None = None
    id_source: IdSource | None = None
    score: float | None = None
    score_kind: ScoreKind | None = None
    metadata: Mapping[str, Any] | None = None
    text: str | None = None


Read = Callable[[Span, AttributeValue, set[Flag]], Any]
"""From the span and the value of the rule's attribute: the field's value, or None where it does not say. What a
reader of the trace must know (redacted, truncated) goes into the set."""


@dataclass(slots=True, frozen=True)
class Rule:
    """One attribute that gives a field.

    `attribute` must be there for `read` to be called, and names the source. Where many attributes or events give one
    value (`retrieval.documents.N...`), `spread` says so: `attribute` is then the beginning of their names, and `read`
    may be called with None. Where one beginning is not enough, `shown_by` has all of them: on a span without any such
    attribute or event, `read` is not called. Nor is it on a span of which `only` says no: a name that several
    conventions write is read on each one's own spans.

    Where a span event gives the field, `event` says so: `attribute` is then the event's name, and `read` is called with
    the attributes of the first such event. `named` is what to call the source where `attribute` only shows that the
    convention is spoken.
    """

    attribute: str
    read: Read
    spread: bool = False
    event: bool = False
    named: str = ""
    shown_by: tuple[str, ...] = ()
    only: Callable[[Span], bool] | None = None

    def raw(self, span: Span) -> AttributeValue:
        """What `read` is to be called with; None where the span does not hold it."""
        if not self.event:
            return span.attributes.get(self.attribute)
        return next((dict(event.attributes) for event in span.events if event.name == self.attribute), None)

    @property
    def source(self) -> str:
        return self.named or self.attribute


@dataclass(slots=True, frozen=True)
class Convention:
    """One convention: its name in `RagTrace.sources`, its table, and its word for a span's kind.

    `answers` are attributes or events that show that a model or a request has answered. `kinds_by` are attributes
    without any of which `kind_of` says nothing; none are given where it looks at more than attributes.
    """

    name: str
    rules: Mapping[Field, tuple[Rule, ...]]
    kind_of: Callable[[Span], SpanKind | None] = field(default=lambda span: None)
    answers: tuple[str, ...] = ()
    kinds_by: tuple[str, ...] = ()
