"""An assembled request as a `RagTrace`: each field by precedence, with its source, and flags for what is missing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from collectors.conventions import ANCHOR_KINDS, Field, SpanKind
from collectors.documents import DocumentReader
from collectors.feedback import distinct
from collectors.normalise_settings import NormaliseSettings
from collectors.open_trace import Assembled
from collectors.request import RequestView
from collectors.span import Span, SpanFlag, StatusCode
from collectors.trace import Completeness, Feedback, Flag, RagTrace, Retrieval, Tokens, TraceError, Versions

__all__ = ["NormaliseSettings", "Normaliser"]

_SKEW_NS = 1_000_000_000
_REQUEST_KINDS = {SpanKind.WORKFLOW, SpanKind.AGENT, SpanKind.RETRIEVER, SpanKind.RERANKER, SpanKind.LLM}
_SPEAKS = frozenset({*ANCHOR_KINDS, SpanKind.LLM, None})
"""Kinds whose input may be the question and whose output may be the answer."""
_STAGES = {
    SpanKind.RETRIEVER: "retrieval",
    SpanKind.RERANKER: "rerank",
    SpanKind.LLM: "llm",
    SpanKind.EMBEDDING: "embedding",
}
_ANY_KIND = frozenset({*SpanKind, None})
_ERROR = StatusCode.ERROR
_EXPLAINED = frozenset({Flag.REDACTED, Flag.TRUNCATED_JSON, Flag.ATTRS_DROPPED})


class Normaliser:
    """Turns assembled requests into traces. Pure: what it gives depends on the spans and the settings alone."""

    def __init__(self, settings: NormaliseSettings) -> None:
        self._settings = settings

    def normalise(self, assembled: Assembled) -> RagTrace | None:
        """The trace, or None for spans that are no question to a RAG service (an indexing job, a lone step)."""
        view = RequestView(assembled)
        if view.kinds.isdisjoint(_REQUEST_KINDS) and not (
            assembled.has_root and SpanKind.CHAIN in view.kinds
        ):
            return None
        trace = _Reader(assembled, view, self._settings).trace()
        for span in assembled.spans:
            span.fold()
        return trace


class _Reader:
    """One request being read."""

    def __init__(self, assembled: Assembled, view: RequestView, settings: NormaliseSettings) -> None:
        self._assembled = assembled
        self._view = view
        self._settings = settings
        self._metadata = view.first_of_each(Field.METADATA)
        self._speakers = [span for span in view.speakers if view.kind(span) in _SPEAKS]
        """Spans that may be asked the question and give the answer of the whole request."""

    def trace(self) -> RagTrace | None:
        view, assembled = self._view, self._assembled
        retrievals, reranked = self._documents()
        query = self._query(retrievals)
        answer, error = self._answer()
        if view.kinds.isdisjoint(_REQUEST_KINDS) and (query is None or (answer is None and error is None)):
            return None
        self._flag(query, answer, error)
        start_ns, end_ns = self._interval()
        return RagTrace(
            id=f"{assembled.trace_id}:{assembled.anchor_span_id}",
            trace_id=assembled.trace_id,
            revision=assembled.revision,
            start_time_ns=start_ns,
            duration_s=max(end_ns - start_ns, 0) / 1e9,
            query=query,
            rewritten_queries=_others(query, retrievals),
            query_embedding=self._embedding(query, retrievals),
            retrievals=retrievals,
            reranked=reranked,
            context=view.first(Field.CONTEXT, "context"),
            context_document_ids=view.first(Field.CONTEXT_IDS, "context_document_ids"),
            answer=answer,
            citations=view.first(Field.CITATIONS, "citations"),
            gold_document_ids=view.first(Field.GOLD_IDS, "gold_document_ids"),
            refused=view.first(Field.REFUSED, "refused"),
            error=error,
            stage_durations_s=self._stages(),
            time_to_first_token_s=self._first_token_s(start_ns),
            tokens=self._tokens(),
            cost_usd=self._cost(),
            cache_hits=dict(reversed(view.every(Field.CACHE_HIT))),
            versions=self._versions(),
            slices=self._slices(),
            session=self._session(),
            user_hash=self._user_hash(),
            feedback=self._feedback(),
            sampling_probability=self._sampling_probability(),
            instrumentation=self._instrumentation(),
            completeness=self._completeness(answer, error),
            flags=frozenset(view.flags),
            sources=view.sources,
        )

    def _documents(self) -> Any:
        keys, fields = self._settings.document_id_keys, self._settings.entitlement_fields
        return DocumentReader(self._view, keys, fields).read()

    def _query(self, retrievals: Sequence[Retrieval]) -> str | None:
        """As asked: what says so, else what went into the anchor, else what was searched for first, else the last word
        of the user in what the first model was sent (which may be a prompt that the service wrote around it)."""
        view = self._view
        query = view.first(Field.QUERY, "query")
        if query is None:
            query = view.first_of(Field.INPUT, self._speakers, "query")
        if query is None:
            query = next((one.query for one in retrievals if one.query is not None), None)
            if query is not None:
                view.sources["query"] = view.sources["retrievals.query"]
        if query is None:
            query = view.first_of(Field.INPUT, view.of_kind(SpanKind.LLM), "query")
            if query is not None:
                view.flags.add(Flag.QUERY_FROM_LEAF)
        return query if query is None or isinstance(query, str) else str(query)

    def _answer(self) -> tuple[str | None, TraceError | None]:
        """The answer and the error. A failed request has no answer, unless the service says which it gave."""
        view = self._view
        said: str | None = view.first(Field.ANSWER, "answer")
        failed = [span for span in view.spans if span.status is _ERROR]
        if view.anchor is not None and view.anchor.status is _ERROR:
            return said, self._error(failed)
        if said is None:
            said = self._spoken()
        return said, self._error(failed) if said is None and failed else None

    def _spoken(self) -> str | None:
        view = self._view
        said: str | None = view.first_of(Field.OUTPUT, self._speakers, "answer")
        if said is not None:
            return said
        models = sorted(
            view.of_kind(SpanKind.LLM), key=lambda span: (span.end_ns, span.start_ns), reverse=True
        )
        said = view.first_of(Field.OUTPUT, models, "answer")
        if said is not None:
            view.flags.add(Flag.ANSWER_FROM_LEAF)
        return said

    def _error(self, failed: Sequence[Span]) -> TraceError:
        """Type and message from the most believed span that tells either."""
        kind = message = None
        for span in failed:
            raised = next((event.attributes for event in span.events if event.name == "exception"), {})
            kind = kind or raised.get("exception.type") or span.attributes.get("error.type")
            message = message or raised.get("exception.message") or span.status_message
        return TraceError(type=_text_or_none(kind), message=_text_or_none(message))

    def _embedding(self, query: str | None, retrievals: Sequence[Retrieval]) -> tuple[float, ...] | None:
        """As logged; else the embedding of a text that was asked or searched for, never a document's."""
        view = self._view
        logged: tuple[float, ...] | None = view.first(Field.QUERY_EMBEDDING, "query_embedding")
        if logged is not None:
            return logged
        texts = [text for text in (query, *(one.query for one in retrievals)) if text is not None]
        for span in view.outermost(SpanKind.EMBEDDING) if texts else ():
            vectors = dict(view.read(Field.EMBEDDINGS, span) or ())
            found: tuple[float, ...] | None = next((vectors[text] for text in texts if text in vectors), None)
            if found is not None:
                view.read(Field.EMBEDDINGS, span, "query_embedding")
                return found
        return None

    def _interval(self) -> tuple[int, int]:
        anchor = self._view.anchor
        spans = self._view.spans if anchor is None else [anchor]
        return min(span.start_ns for span in spans), max(span.end_ns for span in spans)

    def _stages(self) -> dict[str, float]:
        """Seconds in each stage; what ran side by side counts once."""
        found = {name: self._view.outermost(kind) for kind, name in _STAGES.items()}
        return {name: _covered_s(spans) for name, spans in found.items() if spans}

    def _first_token_s(self, start_ns: int) -> float | None:
        models = reversed(self._view.of_kind(SpanKind.LLM))
        at_ns = self._view.first_of(Field.FIRST_TOKEN_NS, list(models), "time_to_first_token_s")
        return None if at_ns is None else max(at_ns - start_ns, 0) / 1e9

    def _tokens(self) -> Tokens:
        counted = {}
        for name, field in (("input", Field.INPUT_TOKENS), ("output", Field.OUTPUT_TOKENS)):
            found = self._view.topmost_values(field, {SpanKind.LLM}, f"tokens.{name}")
            found = found or self._view.topmost_values(field, ANCHOR_KINDS, f"tokens.{name}")
            counted[name] = sum(found) if found else None
        return Tokens(**counted)

    def _cost(self) -> float | None:
        found = self._view.topmost_values(Field.COST, _ANY_KIND, "cost_usd")
        return sum(found) if found else None

    def _versions(self) -> Versions:
        view = self._view
        service = self._leading().resource.get("service.version")
        return Versions(
            service=_text_or_none(service),
            model=view.first_of(
                Field.MODEL, [*view.of_kind(SpanKind.LLM)[::-1], *self._speakers], "versions.model"
            ),
            prompt=view.first(Field.PROMPT_VERSION, "versions.prompt")
            or self._meta("versions.prompt", "prompt_version"),
            index=view.first(Field.INDEX_VERSION, "versions.index")
            or self._meta("versions.index", "index_version"),
            encoder=view.first(Field.ENCODER_VERSION, "versions.encoder"),
        )

    def _slices(self) -> dict[str, str]:
        view = self._view
        found = {
            "service": _text_or_none(self._leading().resource.get("service.name")),
            "tenant": view.first(Field.TENANT, "slices.tenant"),
            "locale": view.first(Field.LOCALE, "slices.locale"),
            "intent": view.first(Field.INTENT, "slices.intent"),
        }
        for name, keys in self._settings.slice_keys.items():
            if found.get(name) is None:
                found[name] = self._meta(f"slices.{name}", *keys)
        return {name: value for name, value in found.items() if value is not None}

    def _session(self) -> str | None:
        logged: str | None = self._view.first(Field.SESSION, "session")
        return logged or self._meta("session", *self._settings.session_keys)

    def _user_hash(self) -> str | None:
        logged: str | None = self._view.first(Field.USER, "user_hash")
        user = logged or self._meta("user_hash", *self._settings.user_keys)
        if user is None:
            return None
        salted = self._settings.user_salt.get_secret_value() + user
        return hashlib.sha256(salted.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def _meta(self, into: str, *keys: str) -> str | None:
        """From the application's own metadata."""
        for key in keys:
            for metadata, source in self._metadata:
                value = metadata.get(key)
                if isinstance(value, str | int) and value != "":
                    self._view.sources[into] = f"{source}.{key}"
                    return str(value)
        return None

    def _feedback(self) -> tuple[Feedback, ...]:
        told = self._view.feedback_by_source()
        if told:
            self._view.sources["feedback"] = " and ".join(sorted(told))
        return distinct(told)

    def _sampling_probability(self) -> float:
        states = (span.trace_state for span in self._view.spans if span.trace_state)
        return next((p for p in map(_probability, states) if p is not None), 1.0)

    def _instrumentation(self) -> tuple[str, ...]:
        # Spans of one process share both.
        distinct = {(id(span.scope), id(span.resource)): span for span in self._view.spans}
        return tuple(sorted(set(map(_named_scope, distinct.values()))))

    def _completeness(self, answer: str | None, error: TraceError | None) -> Completeness:
        ended = answer is not None or error is not None
        if self._view.is_anchored and ended:
            return Completeness.COMPLETE
        return Completeness.PARTIAL if self._view.is_anchored or ended else Completeness.FRAGMENT

    def _leading(self) -> Span:
        return self._view.anchor or self._view.spans[0]

    def _flag(self, query: str | None, answer: str | None, error: TraceError | None) -> None:
        view, flags = self._view, self._view.flags
        for span, parent in view.with_parents():
            if span.dropped_attributes or (span.own_flags and SpanFlag.ATTRIBUTES_CAPPED in span.own_flags):
                flags.add(Flag.ATTRS_DROPPED)
            if span.dropped_events:
                flags.add(Flag.EVENTS_DROPPED)
            if parent is not None and span.start_ns < parent.start_ns and _skewed(span, parent):
                flags.add(Flag.CLOCK_SKEW)
        silent = answer is None and error is None and (view.is_anchored or SpanKind.LLM in view.kinds)
        if (query is None or silent) and flags.isdisjoint(_EXPLAINED):
            flags.add(Flag.CONTENT_NOT_CAPTURED)


def _named_scope(span: Span) -> str:
    """`scope@version`. A vendor's SDK whose scope has no version has one as the telemetry SDK that it is."""
    name, version, resource = span.scope.name, span.scope.version, span.resource
    sdk = resource.get("telemetry.sdk.name")
    if not version and isinstance(sdk, str) and name.startswith(sdk):
        version = _text_or_none(resource.get("telemetry.sdk.version")) or ""
    return f"{name}@{version}" if version else name


def _others(query: str | None, retrievals: Iterable[Retrieval]) -> tuple[str, ...]:
    """What was searched for instead of what was asked, each once."""
    return tuple(
        dict.fromkeys(one.query for one in retrievals if one.query is not None and one.query != query)
    )


def _covered_s(spans: Iterable[Span]) -> float:
    covered = reached = 0
    for span in sorted(spans, key=lambda one: one.start_ns):
        covered += max(span.end_ns - max(span.start_ns, reached), 0)
        reached = max(reached, span.end_ns)
    return covered / 1e9


def _skewed(span: Span, parent: Span) -> bool:
    """A child that starts well before its parent, on another service's clock."""
    return span.start_ns < parent.start_ns - _SKEW_NS and (
        span.resource.get("service.name") != parent.resource.get("service.name")
    )


def _probability(trace_state: str) -> float | None:
    """What an upstream sampler kept the trace with: `ot=th:` holds the rejection threshold, up to 14 hex digits of a
    fraction of 2^56 (OpenTelemetry, "TraceState: probability sampling").

    >>> _probability("vendor=x,ot=rv:9b8233f7e3a151;th:8"), _probability("ot=th:c"), _probability("ot=th:zz")
    (0.5, 0.25, None)
    """
    for member in trace_state.split(","):
        key, _, value = member.strip().partition("=")
        for part in value.split(";") if key == "ot" else ():
            name, _, threshold = part.partition(":")
            if name == "th" and 0 < len(threshold) <= 14:
                try:
                    return 1 - int(threshold.ljust(14, "0"), 16) / 2**56
                except ValueError:
                    return None
    return None


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
