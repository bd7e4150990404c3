"""How long spans are waited for and how many are held; and what came of it, in numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field


class AssemblySettings(BaseModel):
    """How long a request may take to arrive, and how much is held meanwhile. All times by arrival, in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answered_wait_s: float = Field(
        12,
        gt=0,
        description="Close a trace so long after its last span, once an anchor and an answer are there.",
    )
    idle_wait_s: float = Field(
        30, gt=0, description="Close a trace so long after its last span, whatever is there."
    )
    max_wait_s: float = Field(
        120, gt=0, description="Close a trace so long after its first span at the latest."
    )
    revision_window_s: float = Field(
        300, ge=0, description="Spans that come within this time after closing make a new revision."
    )
    max_open_spans: int = Field(
        200_000, ge=1, description="Spans held at most, those of closed traces included."
    )
    max_open_bytes: int = Field(
        64 * 2**20,
        ge=1,
        description="Memory that held spans may take, in bytes: their share of the messages, and a KiB for each.",
    )
    max_open_traces: int = Field(50_000, ge=1, description="Traces held at most, closed ones included.")
    max_spans_per_trace: int = Field(
        5_000, ge=1, description="A trace that grows to this is closed early, in parts."
    )
    feedback_window_s: float = Field(
        86_400, ge=0, description="Feedback joins its request for so long after the request closed."
    )
    max_remembered_requests: int = Field(
        100_000,
        ge=1,
        description="Closed requests whose ids are remembered at most, for feedback to find them.",
    )


@dataclass(slots=True)
class AssemblyCounts:
    """What assembly holds (`open_*`), and what it has done since it was made."""

    open_spans: int = 0
    open_traces: int = 0
    open_bytes: int = 0
    spans: int = 0
    duplicate_spans: int = 0
    requests: int = 0
    revisions: int = 0
    feedback_joined: int = 0
    feedback_late: int = 0
    """Feedback that joined a request whose spans were gone already."""
    feedback_unjoined: int = 0
    """Feedback whose request did not come within the revision window, or could not be told from its neighbours."""
    forgotten_early: int = 0
    """Closed traces that made room before their window ended: what still comes for them starts a new request."""
    closed: Counter[str] = field(default_factory=Counter)
    """Closings of traces by reason: answered, idle, max_wait, spans_cap, memory, flush."""
