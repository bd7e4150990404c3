"""Real OpenInference captures against what their scenarios truly were.

`LACKS` says per capture what its instrumentation does not hold; where one trace holds something else than the truth,
`HELD_INSTEAD` says what, and why. `openinference_captures.json` pins everything else (documents, sources, flags);
after reading the difference, rewrite it with `UPDATE_GOLDEN=1 pytest tests/golden`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from captures import SCENARIOS, Held, check_golden, held, scenarios_of, told, traces

from collectors.trace import Flag

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

NO_FILTER = "LangChain's and LlamaIndex's instrumentations log no filter"
HIDDEN = "OPENINFERENCE_HIDE_* was set: the content was never exported, and the flag says so"
CHAT_ENGINE = "the simulated model gave the chat engine this answer, in a session of its own"

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
        instead = HELD_INSTEAD.get((capture, scenario, trace.session or ""))
        known = held(scenario, manifest["scenario_truth"], LACKS.get(capture, {}), instead)
        assert told(trace) == known, scenario


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
    check_golden(GOLDEN, {capture: traces(directory, capture) for capture in CAPTURES})
