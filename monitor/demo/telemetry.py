"""The demo service's instrumentation: OpenInference attributes, and `rag.*` for what no convention has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, Span, SpanContext, Tracer

from monitor.demo.answerer import Answer
from monitor.demo.retriever import Clause, Hit
from monitor.demo.traffic import Ask

Attribute = str | bool | int | float | Sequence[str] | Sequence[float]
MODEL = "extractive-templates-1"
PROMPT_VERSION = "7"
INDEX_VERSION = "help-2026-11"
USD_PER_INPUT_TOKEN, USD_PER_OUTPUT_TOKEN = 3e-6, 15e-6
INSTRUCTIONS = (
    "Answer only from the articles below and cite their ids in square brackets. If they do not, say so."
)
_SCOPE = "helpdesk.instrumentation"


def tracer_provider(endpoint: str, service_version: str) -> TracerProvider:
    """What a production service sets up at its start: batches over OTLP/gRPC, one resource per release."""
    resource = Resource.create({"service.name": "helpdesk-rag", "service.version": service_version})
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=5)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=200))
    return provider


def tracer_of(provider: TracerProvider, service_version: str) -> Tracer:
    return provider.get_tracer(_SCOPE, service_version)


def request_attributes(ask: Ask, intent: str) -> dict[str, Attribute]:
    """The root span's, known when the request comes in."""
    return {
        "openinference.span.kind": "CHAIN",
        "input.value": ask.query,
        "input.mime_type": "text/plain",
        "session.id": ask.session,
        "user.id": ask.user,
        "metadata": json.dumps({"channel": "product_page" if ask.product else "help_centre"}),
        "rag.tenant.id": ask.tenant,
        "rag.locale": ask.locale,
        "rag.intent": intent,
    }


def embedding_attributes(query: str, encoder: str) -> dict[str, Attribute]:
    return {
        "openinference.span.kind": "EMBEDDING",
        "embedding.model_name": encoder,
        "embedding.embeddings.0.embedding.text": query,
    }


def retrieval_attributes(
    query: str,
    vector: Sequence[float],
    entitlement: Sequence[Clause],
    relevance: Sequence[Clause],
    encoder: str,
) -> dict[str, Attribute]:
    """The retriever span's, known before the search."""
    return {
        "openinference.span.kind": "RETRIEVER",
        "input.value": query,
        "rag.filter.entitlement": _clauses(entitlement),
        "rag.filter.relevance": _clauses(relevance),
        "rag.query.embedding": vector,
        "rag.index.version": INDEX_VERSION,
        "rag.encoder.version": encoder,
    }


def document_attributes(hits: Sequence[Hit]) -> dict[str, Attribute]:
    """What came back, best first; an empty result is told as such, not left out."""
    if not hits:
        return {"output.value": "[]", "output.mime_type": "application/json"}
    attributes: dict[str, Attribute] = {}
    for i, hit in enumerate(hits):
        prefix = f"retrieval.documents.{i}.document"
        attributes[f"{prefix}.id"] = hit.article.id
        attributes[f"{prefix}.content"] = hit.article.text
        attributes[f"{prefix}.score"] = round(hit.score, 4)
        attributes[f"{prefix}.metadata"] = json.dumps({**hit.article.metadata, "title": hit.article.title})
    return attributes


def prompt_attributes(query: str, context: Sequence[Hit]) -> dict[str, Attribute]:
    """The LLM span's, known before the model answers."""
    prompt = "\n\n".join([INSTRUCTIONS, *(f"[{hit.article.id}] {hit.article.text}" for hit in context)])
    return {
        "openinference.span.kind": "LLM",
        "llm.model_name": MODEL,
        "llm.prompt_template.version": PROMPT_VERSION,
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": prompt,
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": query,
        "llm.token_count.prompt": tokens(prompt) + tokens(query),
        "rag.context.document_ids": [hit.article.id for hit in context],
    }


def completion_attributes(text: str, prompt_tokens: int) -> dict[str, Attribute]:
    """The LLM span's, known once the model has answered."""
    completion_tokens = tokens(text)
    prompt_usd, completion_usd = prompt_tokens * USD_PER_INPUT_TOKEN, completion_tokens * USD_PER_OUTPUT_TOKEN
    return {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": text,
        "llm.token_count.completion": completion_tokens,
        "llm.token_count.total": prompt_tokens + completion_tokens,
        "llm.cost.prompt": prompt_usd,
        "llm.cost.completion": completion_usd,
        "llm.cost.total": prompt_usd + completion_usd,
    }


def answer_attributes(answer: Answer) -> dict[str, Attribute]:
    """The root span's, known at the end."""
    return {
        "output.value": answer.text,
        "output.mime_type": "text/plain",
        "rag.answer.refused": answer.refused,
        "rag.citations": json.dumps([{"document_id": article_id} for article_id in answer.citations]),
    }


def export_feedback(tracer: Tracer, label: str, request: SpanContext) -> None:
    """A user's reaction, in a later trace of its own that links to the request's root."""
    attributes: Mapping[str, Attribute] = {
        "openinference.span.kind": "EVALUATOR",
        "trace.annotations.0.annotation.name": "user_feedback",
        "trace.annotations.0.annotation.label": label,
        "trace.annotations.0.annotation.annotator_kind": "HUMAN",
        "trace.annotations.0.annotation.identifier": f"ui-{label}",
    }
    span: Span = tracer.start_span("user feedback", links=[Link(request)], attributes=attributes)
    span.end()


def tokens(text: str) -> int:
    """A rough count: four characters a token.

    >>> tokens("Rain keeps roofs clean.")
    6
    """
    return -(-len(text) // 4)


def _clauses(clauses: Sequence[Clause]) -> str:
    return json.dumps([{"field": clause.field, "op": "eq", "value": clause.value} for clause in clauses])
