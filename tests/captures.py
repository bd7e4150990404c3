"""Real captures read as the service reads them, what their scenarios truly were, and what was last read of them.

A test names per capture what its instrumentation does not hold (`lacks`) and what it holds in place of the truth
(`instead`), each with the reason; everything else must be the truth. `check_golden` pins the rest (documents, sources,
flags), and the table of which source gave which field how often: after reading the difference, rewrite it with
`UPDATE_GOLDEN=1 pytest tests/golden`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from collectors.assembly import Assembler, AssemblySettings
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.predicate import Eq, clauses, to_text
from collectors.replay import read_batches
from collectors.trace import Document, RagTrace, Retrieval

SCENARIOS = ("multi_turn_1", "multi_turn_2", "filtered", "streaming", "reranked", "empty", "error")
AGENTIC = {
    "query": "What is the API rate limit and do webhooks retry?",
    "filters": None,
    "answer": "600 requests per minute [kb-301]; webhooks are retried for 24 hours [kb-302].",
    "error": False,
    "session": "sess-7",
}
"""The agent's scenario, which the manifest's truth leaves out; from the captures' root spans."""

FIELDS = (
    "query", "retrievals.query", "retrievals.documents", "retrievals.filter", "reranked.documents", "query_embedding",
    "context", "context_document_ids", "answer", "session", "user_hash", "slices.tenant", "slices.locale",
    "slices.intent", "tokens.input", "tokens.output", "cost_usd", "time_to_first_token_s", "versions.model",
    "versions.prompt", "versions.index", "versions.encoder",
)  # fmt: skip
"""What a capture may hold."""

Held = Mapping[str, tuple[Any, str]]
"""Field -> (what is read instead, why)."""
Traces = dict[str, RagTrace | None]


@cache
def traces(directory: Path, capture: str) -> Traces:
    """Every trace of a capture with one request a trace, by trace id, through the real decoder, assembler and
    normaliser."""
    assembler = Assembler(AssemblySettings())
    for batch in read_batches([directory / f"{capture}.requests.jsonl"]):
        assert not batch.rejected
        assembler.add(batch, now=0.0)
    normaliser = Normaliser(NormaliseSettings())
    assembled = assembler.flush(now=1.0)
    found = {one.trace_id: normaliser.normalise(one) for one in assembled}
    assert len(found) == len(assembled), f"{capture} has several requests in a trace"
    return found


def scenarios_of(capture: str, manifest: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Trace ids with their scenario in recorded order; None is no request. A capture without content cannot name
    its scenarios, but they were run in the same order as in all others."""
    recorded = manifest["fixtures"][capture]["traces"]
    if capture.endswith("-private"):
        return list(zip((one["trace_id"] for one in recorded), (*SCENARIOS, "agentic"), strict=True))
    return [(one["trace_id"], next(iter(one["scenarios"]), None)) for one in recorded]


def held(
    scenario: str, truth: Mapping[str, Mapping[str, Any]], lacks: Held, instead: Held | None = None
) -> dict[str, Any]:
    """What a reader of the capture can know of the scenario."""
    known = dict(AGENTIC if scenario == "agentic" else truth[scenario])
    for other in (lacks, instead or {}):
        known.update({field: value for field, (value, _) in other.items()})
    return {field: known[field] for field in ("query", "filters", "answer", "error", "session")}


def told(trace: RagTrace) -> dict[str, Any]:
    """The same fields as the trace tells them."""
    filters = [one.filter for one in trace.retrievals if one.filter is not None]
    parsed = None
    if filters:
        assert filters[0].relevance is not None
        parsed = {one.field: one.value for one in clauses(filters[0].relevance) if isinstance(one, Eq)}
    return {
        "query": trace.query,
        "filters": parsed,
        "answer": trace.answer,
        "error": trace.error is not None,
        "session": trace.session,
    }


def pinned(trace: RagTrace) -> dict[str, Any]:
    """What the truth does not say: where each field came from, and all the rest."""
    return {
        "documents": [
            None if one.documents is None else [_named(document) for document in one.documents]
            for one in trace.retrievals
        ],
        "filters": [_filter_text(one) for one in trace.retrievals],
        "reranked": None
        if trace.reranked is None
        else [f"{one.id} {one.score}" for one in trace.reranked.documents or ()],
        "rewritten": list(trace.rewritten_queries),
        "context": None if trace.context is None else len(trace.context),
        "error": None if trace.error is None else trace.error.type,
        "tokens": trace.tokens.model_dump(),
        "versions": trace.versions.model_dump(exclude_none=True),
        "slices": dict(trace.slices),
        "embedding": trace.query_embedding and len(trace.query_embedding),
        "stages": sorted(trace.stage_durations_s),
        "first_token": trace.time_to_first_token_s is not None,
        "instrumentation": list(trace.instrumentation),
        "completeness": trace.completeness,
        "flags": sorted(trace.flags),
        "sources": dict(trace.sources),
    }


def table(found: Iterable[RagTrace]) -> dict[str, Any]:
    """Which source gave which field in how many requests, and how many carry which flag."""
    requests = list(found)
    fields = {
        field: dict(sorted(Counter(one.sources.get(field, "-") for one in requests).items()))
        for field in FIELDS
    }
    return {
        "requests": len(requests),
        "instrumentation": sorted({name for one in requests for name in one.instrumentation}),
        "fields": fields,
        "flags": dict(sorted(Counter(flag for one in requests for flag in one.flags).items())),
    }


def check_golden(path: Path, found: Mapping[str, Traces]) -> None:
    """Everything of these captures stands as a person last read it."""
    given = {
        capture: {
            "table": table(one for one in by_id.values() if one is not None),
            "traces": {key: None if one is None else pinned(one) for key, one in sorted(by_id.items())},
        }
        for capture, by_id in found.items()
    }
    text = json.dumps(given, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert json.loads(path.read_text()) == json.loads(text)


def _named(document: Document) -> str:
    return f"{document.id} ({document.id_source})"


def _filter_text(retrieval: Retrieval) -> str | None:
    found = retrieval.filter
    if found is None or found.relevance is None:
        return None if found is None else found.text
    return to_text(found.relevance)
