"""OpenInference attributes (semantic conventions 0.1.42): LangChain, LlamaIndex, Haystack and others.

Source: github.com/Arize-ai/openinference, spec/semantic_conventions.md. Lists are flattened with zero-based indices.
`input.value` and `output.value` rank below other conventions and have their own file, `openinference_io`.
"""

from __future__ import annotations

from collections.abc import Mapping

from collectors.conventions import values
from collectors.conventions.convention import Convention, Field, FoundDocument, Read, Rule, SpanKind
from collectors.conventions.messages import last_assistant_text, last_user_text
from collectors.conventions.mlflow import is_mlflow
from collectors.span import AttributeValue, Span
from collectors.trace import Feedback, Flag, IdSource, ScoreKind

_KINDS = {
    "CHAIN": SpanKind.CHAIN,
    "AGENT": SpanKind.AGENT,
    "RETRIEVER": SpanKind.RETRIEVER,
    "RERANKER": SpanKind.RERANKER,
    "EMBEDDING": SpanKind.EMBEDDING,
    "LLM": SpanKind.LLM,
    "TOOL": SpanKind.TOOL,
    "PROMPT": SpanKind.PROMPT,
    "EVALUATOR": SpanKind.EVALUATOR,
    "GUARDRAIL": SpanKind.GUARDRAIL,
}
_KIND = "openinference.span.kind"
_FIRST_TOKEN = "First Token Stream Event"  # noqa: S105
_ANNOTATIONS = ("annotations.", "trace.annotations.", "session.annotations.")
_PARTS = "message.contents."
_CONTEXT_VARIABLES = ("context", "context_str")
_VERDICTS = {"thumbs_up", "thumbs_down", "regenerate", "copy"}


def _kind_of(span: Span) -> SpanKind | None:
    name = span.attributes.get(_KIND)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is SpanKind.LLM and _only_builds_a_prompt(span):
        return SpanKind.PROMPT
    return kind


def _only_builds_a_prompt(span: Span) -> bool:
    """Haystack's PromptBuilder calls itself an LLM: it has a template, and neither a model nor messages."""
    attributes = span.attributes
    return (
        "llm.prompt_template.template" in attributes
        and "llm.model_name" not in attributes
        and "llm.output_messages.0.message.role" not in attributes
        and "llm.token_count.completion" not in attributes
    )


def _documents(prefix: str, kind: ScoreKind) -> Read:
    """`{prefix}N.document.{id,score,content,metadata}`; holes stay as unknown documents, so that ranks stay true."""
    bare = prefix.removesuffix(".")

    def read(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[FoundDocument, ...] | None:
        found = values.indexed(span, prefix)
        if not found:
            return () if span.attributes.get(bare) == [] else None
        return tuple(_document(span, item, kind, flags) for item in values.in_order(found))

    return read


def _document(
    span: Span, item: Mapping[str, AttributeValue], kind: ScoreKind, flags: set[Flag]
) -> FoundDocument:
    identity = values.label(span, item.get("document.id"), flags)
    metadata = values.structured(item.get("document.metadata"), flags)
    score = values.as_number(item.get("document.score"))
    return FoundDocument(
        id=identity,
        id_source=None if identity is None else IdSource.LOGGED,
        score=score,
        score_kind=None if score is None else kind,
        metadata=metadata if isinstance(metadata, dict) else None,
        text=values.text(span, item.get("document.content"), flags),
    )


def _messages(span: Span, prefix: str) -> list[dict[str, object]]:
    """`{prefix}N.message.*` as `{role, content}`; multi-part contents become a list of parts."""
    messages: list[dict[str, object]] = []
    for item in values.in_order(values.indexed(span, prefix)):
        content: object = item.get("message.content")
        if content is None:
            content = _parts(item)
        messages.append({"role": item.get("message.role"), "content": content})
    return messages


def _parts(item: Mapping[str, AttributeValue]) -> list[dict[str, AttributeValue]]:
    """`message.contents.N.message_content.{type,text}` in the order of their numbers, whatever order they came in."""
    found: dict[int, dict[str, AttributeValue]] = {}
    for name, part in item.items():
        index, _, rest = name.removeprefix(_PARTS).partition(".")
        if name.startswith(_PARTS) and rest == "message_content.text" and index.isdecimal():
            kind = item.get(f"{_PARTS}{index}.message_content.type", "text")
            found[int(index)] = {"type": kind, "text": part}
    return [found[index] for index in sorted(found)]


def _asked(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return _visible(last_user_text(_messages(span, "llm.input_messages.")), flags)


def _said(span: Span, raw: AttributeValue, flags: set[Flag]) -> str | None:
    return _visible(last_assistant_text(_messages(span, "llm.output_messages.")), flags)


def _visible(found: str | None, flags: set[Flag]) -> str | None:
    if found == values.REDACTED:
        flags.add(Flag.REDACTED)
        return None
    return found


def _embeddings(
    span: Span, raw: AttributeValue, flags: set[Flag]
) -> tuple[tuple[str, tuple[float, ...]], ...] | None:
    pairs = []
    for item in values.indexed(span, "embedding.embeddings.").values():
        said = values.text(span, item.get("embedding.text"), flags)
        vector = values.vector(span, item.get("embedding.vector"), flags)
        if said is not None and vector is not None:
            pairs.append((said, vector))
    return tuple(pairs) or None


def _context(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[str, ...] | None:
    """The prompt template's context variable. Where the rest of the span is hidden this one leaks through: it is
    then left alone, for hiding it was meant."""
    if span.attributes.get("input.value") == values.REDACTED:
        flags.add(Flag.REDACTED)
        return None
    variables = values.structured(raw, flags)
    if not isinstance(variables, dict):
        return None
    found = next(
        (variables[name] for name in _CONTEXT_VARIABLES if isinstance(variables.get(name), str)), None
    )
    return None if found is None else ((found,) if found else ())


def _first_token(span: Span, raw: AttributeValue, flags: set[Flag]) -> int | None:
    return next((event.time_ns for event in span.events if event.name == _FIRST_TOKEN), None)


def _is_own(span: Span) -> bool:
    """Names that are not OpenInference's alone are its own only on its spans, which always have a kind."""
    return _KIND in span.attributes


def _is_not_mlflows(span: Span) -> bool:
    """MLflow writes metadata under the same name, which its own table reads."""
    return not is_mlflow(span)


def _feedback(span: Span, raw: AttributeValue, flags: set[Flag]) -> tuple[Feedback, ...] | None:
    """What people annotated; a judge's annotations are no feedback."""
    items = [item for prefix in _ANNOTATIONS for item in values.indexed(span, prefix).values()]
    found = []
    for item in items:
        name, verdict = item.get("annotation.name"), item.get("annotation.label")
        human = item.get("annotation.annotator_kind", "HUMAN") == "HUMAN"
        score = values.as_number(item.get("annotation.score"))
        if not human or not (name == "user_feedback" or verdict in _VERDICTS):
            continue
        if not isinstance(verdict, str):
            if score is None:
                continue
            verdict = "thumbs_up" if score > 0 else "thumbs_down"
        found.append(Feedback(label=verdict, score=score, time_ns=span.start_ns))
    return tuple(found) or None


_RULES = {
    Field.INPUT: (Rule("llm.input_messages", _asked, spread=True),),
    Field.OUTPUT: (Rule("llm.output_messages", _said, spread=True),),
    Field.DOCUMENTS: (
        Rule("retrieval.documents", _documents("retrieval.documents.", ScoreKind.SIMILARITY), spread=True),
    ),
    Field.RERANK_INPUT: (
        Rule(
            "reranker.input_documents",
            _documents("reranker.input_documents.", ScoreKind.SIMILARITY),
            spread=True,
        ),
    ),
    Field.RERANKED: (
        Rule(
            "reranker.output_documents",
            _documents("reranker.output_documents.", ScoreKind.RERANK),
            spread=True,
        ),
    ),
    Field.EMBEDDINGS: (Rule("embedding.embeddings", _embeddings, spread=True),),
    Field.CONTEXT: (Rule("llm.prompt_template.variables", _context),),
    Field.INPUT_TOKENS: (Rule("llm.token_count.prompt", values.whole),),
    Field.OUTPUT_TOKENS: (Rule("llm.token_count.completion", values.whole),),
    Field.COST: (Rule("llm.cost.total", values.number),),
    Field.FIRST_TOKEN_NS: (Rule(_FIRST_TOKEN, _first_token, spread=True),),
    Field.MODEL: (Rule("llm.model_name", values.label),),
    Field.PROMPT_VERSION: (Rule("llm.prompt_template.version", values.label),),
    Field.ENCODER_VERSION: (Rule("embedding.model_name", values.label),),
    Field.SESSION: (Rule("session.id", values.label, only=_is_own),),
    Field.USER: (Rule("user.id", values.label, only=_is_own),),
    Field.METADATA: (Rule("metadata", values.mapping, only=_is_not_mlflows),),
    Field.FEEDBACK: (Rule("annotations", _feedback, spread=True, shown_by=_ANNOTATIONS),),
}

CONVENTION = Convention(
    "openinference", _RULES, _kind_of, ("llm.output_messages.0.message.content",), kinds_by=(_KIND,)
)
