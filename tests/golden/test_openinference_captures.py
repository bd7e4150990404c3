"""Real OpenInference captures against what their scenarios truly were.

`LACKS` says per capture what its instrumentation does not hold; where one trace holds something else than the truth,
`HELD_INSTEAD` says what, and why. `openinference_captures.json` pins everything else (documents, sources, flags);
after reading the difference, rewrite it with `UPDATE_GOLDEN=1 pytest tests/golden`.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from collectors.assembly import Assembler, AssemblySettings
from collectors.normalise import Normaliser, NormaliseSettings
from collectors.predicate import Eq, clauses
from collectors.replay import read_batches
from collectors.trace import Flag, RagTrace

pytestmark = pytest.mark.part("shared")

GOLDEN = Path(__file__).with_name("openinference_captures.json")
CAPTURES = (
    "openinference-haystack",
    "openinference-langchain-memory",
    "openinference-langchain-memory-private",
    "openinference-langchain-qdrant",
    "openinference-llamaindex-simple",
    "trap-attrlimit",
)
SCENARIOS = ("multi_turn_1", "multi_turn_2", "filtered", "streaming", "reranked", "empty", "error")

NO_FILTER = "LangChain's and LlamaIndex's instrumentations log no filter"
HIDDEN = "OPENINFERENCE_HIDE_* was set: the content was never exported, and the flag says so"
CHAT_ENGINE = "the simulated model gave the chat engine this answer, in a session of its own"

AGENTIC = {
    "query": "What is the API rate limit and do webhooks retry?",
    "filters": None,
    "answer": "600 requests per minute [kb-301]; webhooks are retried for 24 hours [kb-302].",
    "error": False,
    "session": "sess-7",
}
"""The agent's scenario, which the manifest's truth leaves out; from the capture's root span."""

Held = dict[str, tuple[Any, str]]

# What no trace of a capture holds: field -> (what is read instead, why).
LACKS: dict[str, Held] = {
    "openinference-langchain-memory": {"filters": (None, NO_FILTER)},
    "openinference-langchain-memory-private": {
        "filters": (None, NO_FILTER),
        "query": (None, HIDDEN),
        "answer": (None, HIDDEN),
    },
    "openinference-langchain-qdrant": {"filters": (None, NO_FILTER)},
    "openinference-llamaindex-simple": {"filters": (None, NO_FILTER)},
    "trap-attrlimit": {"filters": (None, NO_FILTER)},
}

# What a capture holds in place of the truth: (capture, scenario, session) -> field -> (held, why).
HELD_INSTEAD: dict[tuple[str, str, str], Held] = {
    ("openinference-llamaindex-simple", "empty", "sess-5"): {
        "answer": ("Empty Response", "LlamaIndex answers so by itself, without asking the model"),
    },
    ("openinference-llamaindex-simple", "multi_turn_1", "sess-8"): {
        "session": ("sess-8", CHAT_ENGINE),
        "answer": ("Refunds take 5 business days [kb-101].", CHAT_ENGINE),
    },
    ("openinference-llamaindex-simple", "multi_turn_2", "sess-8"): {
        "session": ("sess-8", CHAT_ENGINE),
        "answer": ("Refunds take 5 business days [kb-101].", CHAT_ENGINE),
    },
    ("trap-attrlimit", "multi_turn_1", "sess-9"): {
        "session": ("sess-9", "the trap was recorded in a session of its own"),
        "answer": ("5 days [chunk-005]", "the trap has its own knowledge base and answer"),
    },
}


def held(capture: str, scenario: str, session: str, truth: dict[str, Any]) -> dict[str, Any]:
    """What a reader of this capture can know of the scenario."""
    known = dict(AGENTIC if scenario == "agentic" else truth[scenario])
    for held_instead in (LACKS.get(capture, {}), HELD_INSTEAD.get((capture, scenario, session), {})):
        known.update({field: value for field, (value, _) in held_instead.items()})
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


@cache
def traces(directory: Path, capture: str) -> dict[str, RagTrace | None]:
    """Every trace of the capture by its trace id, through the real decoder, assembler and normaliser."""
    assembler = Assembler(AssemblySettings())
    for batch in read_batches([directory / f"{capture}.requests.jsonl"]):
        assert not batch.rejected
        assembler.add(batch, now=0.0)
    normaliser = Normaliser(NormaliseSettings())
    return {one.trace_id: normaliser.normalise(one) for one in assembler.flush(now=1.0)}


@pytest.fixture(scope="module")
def directory(shared: Path) -> Path:
    return shared / "fixtures" / "otlp"


@pytest.fixture(scope="module")
def manifest(directory: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((directory / "MANIFEST.json").read_text())
    return loaded


def scenarios_of(capture: str, manifest: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Trace ids with their scenario in recorded order; None is no request. A capture without content cannot name
    its scenarios, but they were run in the same order as in all others."""
    recorded = manifest["fixtures"][capture]["traces"]
    if capture.endswith("-private"):
        return list(zip((one["trace_id"] for one in recorded), (*SCENARIOS, "agentic"), strict=True))
    return [(one["trace_id"], next(iter(one["scenarios"]), None)) for one in recorded]


@pytest.mark.parametrize("capture", CAPTURES)
def test_gives_the_truth_wherever_the_capture_holds_it(
    capture: str, directory: Path, manifest: dict[str, Any]
) -> None:
    seen = traces(directory, capture)
    rows = scenarios_of(capture, manifest)
    assert seen.keys() == {trace_id for trace_id, _ in rows}
    for trace_id, scenario in rows:
        trace = seen[trace_id]
        if scenario is None:
            assert trace is None, f"{capture} {trace_id} indexes documents: it is no request"
            continue
        assert trace is not None
        assert told(trace) == held(capture, scenario, trace.session or "", manifest["scenario_truth"]), (
            scenario
        )


def test_every_scenario_is_in_every_capture_of_a_framework(directory: Path, manifest: dict[str, Any]) -> None:
    for capture in CAPTURES[:5]:
        found = {scenario for _, scenario in scenarios_of(capture, manifest)}
        assert set(SCENARIOS) <= found, capture


def test_openinference_captures_of_the_manifest_are_all_here(manifest: dict[str, Any]) -> None:
    speaking = {
        name
        for name, one in manifest["fixtures"].items()
        if any(scope.startswith("openinference.") for scope in one["scopes"])
    }
    assert speaking == set(CAPTURES)


def test_hidden_content_is_flagged_and_not_guessed(directory: Path) -> None:
    for trace in traces(directory, "openinference-langchain-memory-private").values():
        assert trace is not None
        assert Flag.REDACTED in trace.flags
        assert trace.context is None, "the prompt variables leak it; hiding was meant"
        texts = [document.text for one in trace.retrievals for document in one.documents or ()]
        assert not any(texts)
        counts = [len(one.documents) for one in trace.retrievals if one.documents is not None]
        assert len(counts) == len(trace.retrievals), "the number of documents is known all the same"


def test_a_full_span_loses_its_top_documents_but_not_their_places(directory: Path) -> None:
    (trace,) = (one for one in traces(directory, "trap-attrlimit").values() if one is not None)
    assert Flag.ATTRS_DROPPED in trace.flags
    documents = trace.retrievals[0].documents
    assert documents is not None
    assert len(documents) == 50
    assert [one.text is None for one in documents] == [True] * 19 + [False] * 31
    assert documents[0].id == "chunk-028"
    assert documents[19].id == "chunk-054"


def test_the_rest_stands_as_it_was_last_read_by_a_person(directory: Path) -> None:
    found = {
        capture: {
            trace_id: None if trace is None else _pinned(trace)
            for trace_id, trace in sorted(traces(directory, capture).items())
        }
        for capture in CAPTURES
    }
    text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert json.loads(GOLDEN.read_text()) == json.loads(text)


def _pinned(trace: RagTrace) -> dict[str, Any]:
    return {
        "documents": [
            None
            if one.documents is None
            else [f"{document.id} ({document.id_source})" for document in one.documents]
            for one in trace.retrievals
        ],
        "reranked": None
        if trace.reranked is None
        else [f"{one.id} {one.score}" for one in trace.reranked.documents or ()],
        "rewritten": list(trace.rewritten_queries),
        "error": None if trace.error is None else trace.error.type,
        "tokens": trace.tokens.model_dump(),
        "versions": trace.versions.model_dump(exclude_none=True),
        "slices": dict(trace.slices),
        "embedding": trace.query_embedding and len(trace.query_embedding),
        "stages": sorted(trace.stage_durations_s),
        "first_token": trace.time_to_first_token_s is not None,
        "completeness": trace.completeness,
        "flags": sorted(trace.flags),
        "sources": dict(trace.sources),
    }
