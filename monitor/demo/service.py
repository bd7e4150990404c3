"""The demo's RAG service: embed, retrieve under filters, answer, and tell of it in spans.

A request stays open between `begin` and `complete`, as long as the simulated model takes: the spans' times are real,
and no thread sleeps through them.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanContext, Tracer, set_span_in_context

from monitor.demo import telemetry
from monitor.demo.analysis import significant
from monitor.demo.answerer import Answer, Release, answer, relevant
from monitor.demo.retriever import ArticleIndex, Clause, Encoder, Hit
from monitor.demo.traffic import Ask

TOP_K = 3
Vector = npt.NDArray[np.float32]


@dataclass(slots=True, frozen=True)
class InFlight:
    """A request that waits for the model. `latency_s` is how long the model takes."""

    ask: Ask
    answer: Answer
    root: Span
    llm: Span
    prompt_tokens: int
    first_token_ns: int
    latency_s: float


@dataclass(slots=True, frozen=True)
class Reply:
    """What the user got, and the request's root for feedback to link to."""

    answer: Answer
    request: SpanContext


class RagService:
    """One release of the service at a time; `deploy` replaces it. Not thread-safe: the loop owns it."""

    def __init__(self, index: ArticleIndex, encoder: Encoder, endpoint: str, seed: int) -> None:
        self._index = index
        self._encoder = encoder
        self._endpoint = endpoint
        self._rng = random.Random(seed)
        self._providers: dict[str, TracerProvider] = {}
        self._release: Release | None = None

    def deploy(self, release: Release) -> None:
        """Put a release into service. The old one's telemetry stays up for what it still has in flight."""
        if release.version not in self._providers:
            self._providers[release.version] = telemetry.tracer_provider(self._endpoint, release.version)
        self._release = release

    def close(self) -> None:
        """Flush and close the telemetry of every release."""
        for provider in self._providers.values():
            provider.shutdown()

    def begin(self, ask: Ask) -> InFlight:
        """Retrieve and prompt; the answer is ready after `latency_s`."""
        release, tracer = self._current()
        root = tracer.start_span("answer question")
        parent = set_span_in_context(root)
        with tracer.start_as_current_span(
            "embed query",
            context=parent,
            attributes=telemetry.embedding_attributes(ask.query, self._encoder.name),
        ):
            vector = self._encoder.encode([significant(ask.query)])[0]
        entitlement, relevance = filters(ask, release)
        root.set_attributes(telemetry.request_attributes(ask, self._intent(vector, entitlement)))
        attributes = telemetry.retrieval_attributes(
            ask.query, [float(x) for x in vector], entitlement, relevance, self._encoder.name
        )
        with tracer.start_as_current_span("search articles", context=parent, attributes=attributes) as span:
            hits = self._index.search(vector, (*entitlement, *relevance), TOP_K)
            span.set_attributes(telemetry.document_attributes(hits))
        return self._prompt(ask, release, root, relevant(hits), tracer)

    def complete(self, waiting: InFlight) -> Reply:
        """The model has answered: end the spans."""
        waiting.llm.set_attributes(
            telemetry.completion_attributes(waiting.answer.text, waiting.prompt_tokens)
        )
        waiting.llm.add_event("First Token Stream Event", timestamp=waiting.first_token_ns)
        waiting.llm.end()
        waiting.root.set_attributes(telemetry.answer_attributes(waiting.answer))
        waiting.root.end()
        return Reply(waiting.answer, waiting.root.get_span_context())

    def regenerate(self, reply: Reply) -> None:
        """The user asks to have the answer again."""
        _, tracer = self._current()
        telemetry.export_feedback(tracer, "regenerate", reply.request)

    def _prompt(
        self, ask: Ask, release: Release, root: Span, context: tuple[Hit, ...], tracer: Tracer
    ) -> InFlight:
        attributes = telemetry.prompt_attributes(ask.query, context)
        llm = tracer.start_span("generate answer", context=set_span_in_context(root), attributes=attributes)
        first_token_s = self._rng.uniform(0.05, 0.15)
        return InFlight(
            ask=ask,
            answer=answer(context, ask.locale, release, self._rng),
            root=root,
            llm=llm,
            prompt_tokens=int(str(attributes["llm.token_count.prompt"])),
            first_token_ns=time.time_ns() + round(first_token_s * 1e9),
            latency_s=first_token_s + min(self._rng.lognormvariate(-1.4, 0.4), 1.0),
        )

    def _intent(self, vector: Vector, entitlement: tuple[Clause, ...]) -> str:
        """The section of the article nearest to the query in any language, or `other` where none is near."""
        nearest = self._index.search(vector, entitlement, 1)
        return nearest[0].article.metadata["section"] if relevant(nearest) else "other"

    def _current(self) -> tuple[Release, Tracer]:
        if self._release is None:
            raise RuntimeError("no release is deployed")
        version = self._release.version
        return self._release, telemetry.tracer_of(self._providers[version], version)


def filters(ask: Ask, release: Release) -> tuple[tuple[Clause, ...], tuple[Clause, ...]]:
    """What the user may see, and what is relevant to the user: two filters that are never mixed.

    A fault of the release sits in the second.
    """
    relevance = [Clause("locale", release.hard_coded_locale or ask.locale)]
    if ask.product is not None:
        relevance.append(Clause("product", ask.product))
    return (Clause("tenant", ask.tenant),), tuple(relevance)
