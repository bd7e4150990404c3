"""Haystack's own tracing: `haystack.pipeline.*`, `haystack.component.*` and `haystack.agent.*`.

Source: haystack, core/pipeline/base.py and pipeline.py, components/agents/agent.py, tracing/utils.py (3.4.1). What a
component took and gave is there only with content tracing on (`HAYSTACK_CONTENT_TRACING_ENABLED`); the pipeline's input
always is, so the question and each step's run-time filters are known without it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from collectors.conventions import calls, quoted, values
from collectors.conventions.convention import Convention, Field, FoundDocument, Read, Rule, SpanKind
from collectors.conventions.payloads import document
from collectors.predicate import Predicate
from collectors.span import AttributeValue, Span
from collectors.trace import Flag, ScoreKind

_OPERATIONS = {
    "haystack.pipeline.run": SpanKind.CHAIN,
    "haystack.async_pipeline.run": SpanKind.CHAIN,
    "haystack.agent.run": SpanKind.AGENT,
    "haystack.agent.step.llm": SpanKind.LLM,
    "haystack.agent.step.tool": SpanKind.TOOL,
}
_TYPES = (
    ("Retriever", SpanKind.RETRIEVER),
    ("Ranker", SpanKind.RERANKER),
    ("Embedder", SpanKind.EMBEDDING),
    ("Generator", SpanKind.LLM),
    ("PromptBuilder", SpanKind.PROMPT),
)
"""By how the component's class is called, which is Haystack's own way to name them."""
_TYPE, _NAME = "haystack.component.type", "haystack.component.name"
_TAKEN, _GIVEN = "haystack.component.input", "haystack.component.output"
_PIPELINE_TAKEN, _PIPELINE_GIVEN = "haystack.pipeline.input_data", "haystack.pipeline.output_data"
_OWN_KEYS = {"id", "content", "blob", "score", "embedding", "sparse_embedding", "dataframe", "meta"}
"""A document's own keys; with them, in one map, are those of its metadata."""
MAX_PRINTED = 100_000
"""Longer printed Python is not read."""
_OBJECT = re.compile(
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|<[^'"]{1,300}? at 0x[0-9a-fA-F]+>""", re.DOTALL
)
"""A string, to be passed over, or an object that prints as its address."""


def _load(raw: AttributeValue, flags: set[Flag]) -> Any:
    """What a tag stands for. JSON, or, where something in it could not become JSON (a streaming callback), printed
    Python: of that, whatever is not a literal is left out."""
    value = quoted.decoded(raw, flags)
    if not isinstance(value, str) or not value.startswith(("{'", "[{'")):
        return value
    if len(value) > MAX_PRINTED:
        return None
    try:
        return ast.literal_eval(_OBJECT.sub(lambda found: found[1] or "None", value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _kind_of(span: Span) -> SpanKind | None:
    kind = _OPERATIONS.get(span.name)
    name = span.attributes.get(_TYPE) if kind is None else None
    if not isinstance(name, str):
        return kind
    return next((one for ending, one in _TYPES if name.endswith(ending)), None)


def _documents(kind: ScoreKind) -> Read:
    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
        listed = _entry(raw, "documents", flags)
        return tuple(_document(item, kind) for item in listed) if isinstance(listed, list) else None

    return read


def _document(item: object, kind: ScoreKind) -> FoundDocument:
    if isinstance(item, dict) and "meta" not in item:
        item = {**item, "meta": {key: value for key, value in item.items() if key not in _OWN_KEYS}}
    return document(item, kind)


def _entry(raw: AttributeValue, name: str, flags: set[Flag]) -> Any:
    taken = _load(raw, flags)
    return taken.get(name) if isinstance(taken, dict) else None


def _context(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[str, ...] | None:
    """The texts of the documents that a prompt was built from."""
    found = _sent(span, raw, flags)
    texts = None if found is None else tuple(one.text for one in found)
    return None if texts is None or None in texts else texts  # type: ignore[return-value]


def _context_ids(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[str, ...] | None:
    found = _sent(span, raw, flags)
    ids = None if found is None else tuple(one.id for one in found)
    return None if ids is None or None in ids else ids  # type: ignore[return-value]


def _sent(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
    if _kind_of(span) is not SpanKind.PROMPT:
        return None
    found: tuple[FoundDocument, ...] | None = _documents(ScoreKind.SIMILARITY)(span, raw, flags)
    return found


def _embedded(
    span: Span, raw: AttributeValue, flags: set[Flag]
) -> tuple[tuple[str, tuple[float, ...]], ...] | None:
    """A text embedder's; a document embedder's documents are no question."""
    text = _entry(raw, "text", flags)
    vector = values.vector(span, _entry(span.attributes.get(_GIVEN), "embedding", flags), flags)
    return ((text, vector),) if isinstance(text, str) and vector is not None else None


def _about_model(raw: AttributeValue, flags: set[Flag]) -> Mapping[str, Any]:
    """What a generator or an embedder says of its call: `meta` beside the replies, or in each of them."""
    given = _load(raw, flags)
    if not isinstance(given, dict):
        return {}
    found = given.get("meta")
    if found is None and isinstance(replies := given.get("replies"), list) and replies:
        found = replies[0].get("meta") if isinstance(replies[0], dict) else None
    if isinstance(found, list):
        found = found[0] if found else None
    return found if isinstance(found, dict) else {}


def _tokens(*names: str) -> Read:
    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
        usage = _about_model(raw, flags).get("usage")
        counts = (
            (values.whole(span, usage.get(name), flags) for name in names) if isinstance(usage, dict) else ()
        )
        return next((count for count in counts if count is not None), None)

    return read


def _model(kind: SpanKind) -> Read:
    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
        return (
            values.label(span, _about_model(raw, flags).get("model"), flags)
            if _kind_of(span) is kind
            else None
        )

    return read


def _step_filters(span: Span, raw: AttributeValue, flags: set[Flag]) -> Mapping[str, Predicate | str] | None:
    """The run-time filters by the name of the component that they were given to."""
    given = _load(raw, flags) if isinstance(raw, str) and "filters" in raw else None
    if not isinstance(given, dict):
        return None
    found = {name: calls.filter_in(span, one, flags) for name, one in given.items() if isinstance(one, dict)}
    return {name: one for name, one in found.items() if one is not None} or None


_RULES = {
    Field.INPUT: (
        Rule(_PIPELINE_TAKEN, calls.asked(_load)),
        Rule("haystack.agent.input", calls.asked(_load)),
        Rule(_TAKEN, calls.asked(_load)),
        Rule("haystack.agent.step.llm.input", calls.asked(_load)),
    ),
    Field.OUTPUT: (
        Rule(_PIPELINE_GIVEN, calls.said(_load)),
        Rule("haystack.agent.output", calls.said(_load)),
        Rule(_GIVEN, calls.said(_load)),
        Rule("haystack.agent.step.llm.output", calls.said(_load)),
    ),
    Field.DOCUMENTS: (Rule(_GIVEN, _documents(ScoreKind.SIMILARITY)),),
    Field.RERANK_INPUT: (Rule(_TAKEN, _documents(ScoreKind.SIMILARITY)),),
    Field.RERANKED: (Rule(_GIVEN, _documents(ScoreKind.RERANK)),),
    Field.FILTER: (Rule(_TAKEN, calls.applied_filter(_load)),),
    Field.STEP: (Rule(_NAME, values.filled),),
    Field.STEP_FILTERS: (Rule(_PIPELINE_TAKEN, _step_filters),),
    Field.TOP_K: (Rule(_TAKEN, calls.top_k(_load)),),
    Field.CONTEXT: (Rule(_TAKEN, _context),),
    Field.CONTEXT_IDS: (Rule(_TAKEN, _context_ids),),
    Field.EMBEDDINGS: (Rule(_TAKEN, _embedded),),
    Field.INPUT_TOKENS: (Rule(_GIVEN, _tokens("prompt_tokens", "input_tokens")),),
    Field.OUTPUT_TOKENS: (Rule(_GIVEN, _tokens("completion_tokens", "output_tokens")),),
    Field.MODEL: (Rule(_GIVEN, _model(SpanKind.LLM)),),
    Field.ENCODER_VERSION: (Rule(_GIVEN, _model(SpanKind.EMBEDDING)),),
    Field.METADATA: (Rule("haystack.pipeline.metadata", values.mapping),),
}

CONVENTION = Convention("haystack", _RULES, _kind_of, (_PIPELINE_GIVEN, _GIVEN, "haystack.agent.output"))
