"""OpenLLMetry (Traceloop): `traceloop.*` entities, their input and output as JSON, association properties.

Source: traceloop/openllmetry, opentelemetry.semconv_ai and the LangChain, LlamaIndex and Haystack instrumentations
(0.62). LangChain wraps what a step took and gave as `{"inputs": ..., "metadata": ...}` and `{"outputs": ...}`;
LlamaIndex logs each method's arguments and names its spans after classes (`VectorIndexRetriever.task`); Haystack gives
the outputs of all components on the workflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collectors.conventions import payloads, values
from collectors.conventions.convention import Convention, Field, FoundDocument, Read, Rule, SpanKind
from collectors.conventions.messages import answer_in, question_in
from collectors.span import AttributeValue, Span
from collectors.trace import Flag, ScoreKind

INPUT, OUTPUT = "traceloop.entity.input", "traceloop.entity.output"
PROPERTIES = "traceloop.association.properties"

_KINDS = {"workflow": SpanKind.WORKFLOW, "agent": SpanKind.AGENT, "tool": SpanKind.TOOL}
_REQUEST_TYPES = {
    "chat": SpanKind.LLM,
    "completion": SpanKind.LLM,
    "embedding": SpanKind.EMBEDDING,
    "rerank": SpanKind.RERANKER,
}
_CLASSES = (
    ("Retriever", SpanKind.RETRIEVER),
    ("Reranker", SpanKind.RERANKER),
    ("Rerank", SpanKind.RERANKER),
    ("LLM", SpanKind.LLM),
)
"""What the name of a LlamaIndex class ends in."""
_LLAMAINDEX = "opentelemetry.instrumentation.llamaindex"
_PROMPTS = ("PromptTemplate", "RefineProgram")
_CONTEXTS = ("context", "context_str")


def _kind_of(span: Span) -> SpanKind | None:
    attributes = span.attributes
    if attributes.get("gen_ai.operation.name") == "vector_db_retrieve":
        return SpanKind.RETRIEVER
    kind = _REQUEST_TYPES.get(_word(attributes.get("llm.request.type")))
    if kind is None and span.scope.name == _LLAMAINDEX:
        kind = _class_kind(span)
    return kind or _KINDS.get(_word(attributes.get("traceloop.span.kind")))


def _class_kind(span: Span) -> SpanKind | None:
    name = _word(span.attributes.get("traceloop.entity.name")).partition(".")[0]
    if "gen_ai.output.messages" in span.attributes:
        return SpanKind.LLM
    return next((kind for ending, kind in _CLASSES if name.endswith(ending)), None)


def _word(value: AttributeValue) -> str:
    return value if isinstance(value, str) else ""


def _payload(raw: AttributeValue, flags: set[Flag]) -> Any:
    """The JSON; text that is none is taken as it is."""
    parsed = values.structured(raw, flags)
    return raw if parsed is None and isinstance(raw, str) and raw[:1] not in ("{", "[") else parsed


def _inputs(payload: Any) -> Any:
    return payload["inputs"] if isinstance(payload, dict) and "inputs" in payload else payload


def _asked(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return question_in(_inputs(_payload(raw, flags)))


def _asked_of_stream(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    """A stream's input is empty when it starts; what it was is told with its end."""
    payload = _payload(raw, flags)
    told = payload.get("kwargs") if isinstance(payload, dict) else None
    return question_in(told["inputs"]) if isinstance(told, dict) and "inputs" in told else None


def _said(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    payload = _payload(raw, flags)
    return answer_in(payload["outputs"] if isinstance(payload, dict) and "outputs" in payload else payload)


def _documents(kind: ScoreKind) -> Read:
    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
        payload = values.structured(raw, flags)
        if isinstance(payload, dict) and "outputs" in payload:
            payload = payload["outputs"]
        return payloads.documents_in(payload, kind)

    return read


def _step_documents(
    span: Span, raw: AttributeValue, flags: set[Flag]
) -> Mapping[str, tuple[FoundDocument, ...]] | None:
    """Haystack's components by name, those that gave documents."""
    if not isinstance(raw, str) or '"documents"' not in raw:
        return None
    given = values.structured(raw, flags)
    if not isinstance(given, dict):
        return None
    steps = {name: payloads.documents_in(step) for name, step in given.items() if isinstance(step, dict)}
    return {name: found for name, found in steps.items() if found is not None}


def _embeddings(
    span: Span, raw: AttributeValue, flags: set[Flag]
) -> tuple[tuple[str, tuple[float, ...]], ...] | None:
    """LlamaIndex: `{"query": text}` beside one vector, `{"texts": [...]}` beside as many."""
    if span.attributes.get("gen_ai.operation.name") != "embeddings":
        return None
    taken, given = values.structured(span.attributes.get(INPUT), flags), values.structured(raw, flags)
    if not isinstance(taken, dict) or not isinstance(given, list):
        return None
    texts = taken.get("texts", [taken.get("query", taken.get("text"))])
    vectors = given if given and isinstance(given[0], list) else [given]
    if not isinstance(texts, list) or len(texts) != len(vectors):
        return None
    pairs = (
        (text, vector)
        for text, item in zip(texts, vectors, strict=True)
        if isinstance(text, str) and (vector := values.vector(span, item, flags)) is not None
    )
    return tuple(pairs) or None


def _is_prompt(span: Span) -> bool:
    """By its name, which is the entity's with its kind."""
    return any(name in span.name for name in _PROMPTS)


def _context(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[str, ...] | None:
    """The variable of the prompt's template."""
    name = _word(span.attributes.get("traceloop.entity.name")).partition(".")[0]
    taken = _payload(raw, flags) if name.endswith(_PROMPTS) else None
    variables = (
        next((taken[key] for key in ("inputs", "kwds", "kwargs") if isinstance(taken.get(key), dict)), None)
        if isinstance(taken, dict)
        else None
    )
    found = (
        next((variables[key] for key in _CONTEXTS if isinstance(variables.get(key), str)), None)
        if variables
        else None
    )
    return None if found is None else ((found,) if found else ())


def _usage(*names: str) -> Read:
    """Counts in a model's raw response, where no attribute has them."""

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
        usage = _response(raw, flags).get("usage")
        found = [usage[name] for name in names if name in usage] if isinstance(usage, dict) else []
        return values.whole(span, found[0], flags) if found else None

    return read


def _responding_model(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return values.label(span, _response(raw, flags).get("model"), flags)


def _response(raw: AttributeValue, flags: set[Flag]) -> Mapping[str, Any]:
    """What a model said of its call: LlamaIndex's `raw`, or the `meta` of the one Haystack component with a usage."""
    payload = values.structured(raw, flags) if isinstance(raw, str) and '"usage"' in raw else None
    if not isinstance(payload, dict):
        return {}
    metas = (part["meta"] for part in payload.values() if isinstance(part, dict) and "meta" in part)
    of_components = (meta[0] for meta in metas if isinstance(meta, list) and len(meta) == 1)
    told = [one for one in (payload.get("raw"), *of_components) if isinstance(one, dict) and "usage" in one]
    return told[0] if len(told) == 1 else {}


def _properties(span: Span, raw: AttributeValue, flags: set[Flag]) -> Mapping[str, Any] | None:
    skip = len(PROPERTIES) + 1
    prefix = f"{PROPERTIES}."
    return {name[skip:]: span.attributes[name] for name in span.attributes if name.startswith(prefix)} or None


_RULES = {
    Field.INPUT: (Rule(INPUT, _asked), Rule(OUTPUT, _asked_of_stream)),
    Field.OUTPUT: (Rule(OUTPUT, _said),),
    Field.DOCUMENTS: (Rule(OUTPUT, _documents(ScoreKind.SIMILARITY)),),
    Field.STEP_DOCUMENTS: (Rule(OUTPUT, _step_documents),),
    Field.RERANK_INPUT: (Rule(INPUT, _documents(ScoreKind.SIMILARITY)),),
    Field.RERANKED: (Rule(OUTPUT, _documents(ScoreKind.RERANK)),),
    Field.EMBEDDINGS: (Rule(OUTPUT, _embeddings),),
    Field.CONTEXT: (Rule(INPUT, _context, only=_is_prompt),),
    Field.INPUT_TOKENS: (Rule(OUTPUT, _usage("prompt_tokens", "input_tokens")),),
    Field.OUTPUT_TOKENS: (Rule(OUTPUT, _usage("completion_tokens", "output_tokens")),),
    Field.MODEL: (Rule(f"{PROPERTIES}.ls_model_name", values.label), Rule(OUTPUT, _responding_model)),
    Field.PROMPT_VERSION: (Rule("traceloop.prompt.version", values.label),),
    Field.USER: (Rule(f"{PROPERTIES}.user_id", values.label),),
    Field.METADATA: (Rule(PROPERTIES, _properties, spread=True),),
}

CONVENTION = Convention(
    "openllmetry",
    _RULES,
    _kind_of,
    (OUTPUT,),
    kinds_by=(
        "gen_ai.operation.name",
        "llm.request.type",
        "traceloop.span.kind",
        "traceloop.entity.name",
        "gen_ai.output.messages",
    ),
)
