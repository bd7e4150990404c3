"""What must hold, and the state machine that says whether it does: ok, pending, firing, no data.

A guardrail fires on the confidence bound, never on the point estimate, and only on enough evidence. What
happens when evidence ends is decided here and nowhere else:

- Nothing judged yet is `no_data`, not `ok`.
- A look without enough evidence changes nothing at first: a firing guardrail keeps firing, marked stale, and
  the time that it must be good for before it resolves starts anew.
- After `no_data_after_s` without enough evidence the guardrail is `no_data`. Its breach, if it was firing,
  gives way to the alert "no evidence", which says so; when evidence returns and the bound still breaks, it
  fires at once.
- Silence pages for the whole traffic only. A tenant that went home is no incident, unless its guardrail was
  firing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from pydantic import BaseModel, ConfigDict

from alerts.signals import ALL, Kind, Reading
from alerts.spec import DEFAULT_GUARDRAILS, Direction, GuardrailSpec

__all__ = [
    "DEFAULT_GUARDRAILS",
    "Direction",
    "Guardrail",
    "GuardrailSpec",
    "GuardrailState",
    "Look",
    "Memory",
    "Page",
    "Transition",
    "judge",
]


class GuardrailState(StrEnum):
    """What a guardrail says."""

    OK = "ok"
    PENDING = "pending"
    """The bound breaks, not yet for long enough."""
    FIRING = "firing"
    NO_DATA = "no_data"
    """There is not enough evidence to say anything."""


class Page(StrEnum):
    """What a person is told, if anybody is told anything."""

    BREACH = "breach"
    NO_EVIDENCE = "no_evidence"


class Look(Enum):
    """What one reading says, without regard to time."""

    GOOD = auto()
    BREACH = auto()
    BLIND = auto()
    """Not enough evidence."""
    LEARNING = auto()
    """Evidence, but nothing to hold it against yet: no control band, or a reference that still fills."""


def judge(spec: GuardrailSpec, reading: Reading) -> Look:
    """Hold a reading against its guardrail.

    >>> spec = GuardrailSpec(name="latency", signal="slow_request_rate", title="p95", objective=0.05)
    >>> judge(spec, Reading(spec.signal, "all", 0.08, 0.04, 0.15, 60, 60.0)).name
    'GOOD'
    >>> judge(spec, Reading(spec.signal, "all", 0.09, 0.06, 0.14, 200, 200.0)).name
    'BREACH'
    """
    if spec.kind is Kind.ALARM:
        return _judge_alarm(reading)
    bounds = (reading.estimate, reading.lower, reading.upper)
    if reading.lower is None or reading.upper is None or not all(_finite(bound) for bound in bounds):
        return Look.BLIND
    if reading.effective_evidence < spec.minimum_evidence:
        return Look.BLIND
    if spec.direction is Direction.CEILING:
        broken = spec.objective is not None and reading.lower > spec.objective
        return Look.BREACH if broken else Look.GOOD
    if reading.low is None or reading.high is None:
        return Look.LEARNING
    return Look.BREACH if reading.lower > reading.high or reading.upper < reading.low else Look.GOOD


def _judge_alarm(reading: Reading) -> Look:
    if reading.estimate is None or not math.isfinite(reading.estimate):
        return Look.LEARNING if reading.evidence > 0 else Look.BLIND
    return Look.BREACH if reading.estimate >= 0.5 else Look.GOOD


def _finite(number: float | None) -> bool:
    return number is not None and math.isfinite(number)


class Memory(BaseModel):
    """All that a guardrail remembers between two looks; times are Unix seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    condition: GuardrailState = GuardrailState.NO_DATA
    since: float | None = None
    """When the condition began; None before the first look."""
    good_since: float | None = None
    """Firing, and the bound holds since then."""
    blind_since: float | None = None
    """Not enough evidence since then."""
    page: Page | None = None
    page_since: float | None = None
    interrupted: bool = False
    """`no_data`, and it was firing when the evidence ended."""
    judged: Reading | None = None
    """The last reading that could be judged."""

    def entering(self, condition: GuardrailState, now: float, page: Page | None = None) -> Memory:
        """The memory after a change of condition or page."""
        since = self.since if condition is self.condition and self.since is not None else now
        interrupted = condition is GuardrailState.NO_DATA and (
            self.interrupted or self.condition is GuardrailState.FIRING
        )
        return Memory(
            condition=condition,
            since=since,
            blind_since=self.blind_since,
            page=page,
            page_since=None if page is None else now,
            interrupted=interrupted,
            judged=self.judged,
        )


@dataclass(slots=True, frozen=True)
class Transition:
    """A change of what a guardrail says, or of what people are told; `at` is Unix seconds.

    `resolved` is the page that ends (it began at `resolved_since`), `raised` the one that begins. `judged` is
    the last reading that could be judged; it is `reading` itself unless the evidence has ended.
    """

    spec: GuardrailSpec
    slice: str
    before: GuardrailState
    after: GuardrailState
    at: float
    reading: Reading
    judged: Reading | None = None
    resolved: Page | None = None
    resolved_since: float | None = None
    raised: Page | None = None
    interrupted: bool = False


class Guardrail:
    """One guardrail on one slice, in time. Not thread-safe: whoever evaluates owns it."""

    def __init__(self, spec: GuardrailSpec, slice: str = ALL) -> None:  # noqa: A002
        self.spec = spec
        self.slice = slice
        self._memory = Memory()

    @property
    def condition(self) -> GuardrailState:
        """What it says now."""
        return self._memory.condition

    @property
    def memory(self) -> Memory:
        """All that it remembers; never changes in place."""
        return self._memory

    @property
    def stale(self) -> bool:
        """It fires, but on evidence that has ended since."""
        return self.condition is GuardrailState.FIRING and self._memory.blind_since is not None

    def evaluate(self, reading: Reading, now: float) -> Transition | None:
        """Take a look at `now` (Unix seconds, never before the last look) and say what changed, if anything.

        Raises ValueError for a reading of another signal or slice.
        """
        if (reading.signal, reading.slice) != (self.spec.signal, self.slice):
            wanted = f"{self.spec.signal}/{self.slice}"
            raise ValueError(f"{self.spec.name} watches {wanted}, not {reading.signal}/{reading.slice}")
        before = self._memory
        self._memory = after = self._step(before, reading, now)
        if (before.condition, before.page) == (after.condition, after.page):
            return None
        changed_page = before.page is not after.page
        return Transition(
            self.spec,
            self.slice,
            before.condition,
            after.condition,
            now,
            reading,
            judged=after.judged,
            resolved=before.page if changed_page else None,
            resolved_since=before.page_since if changed_page else None,
            raised=after.page if changed_page else None,
            interrupted=after.interrupted,
        )

    def state(self) -> dict[str, object]:
        """The memory as plain JSON values."""
        return self._memory.model_dump(mode="json")

    def restore(self, state: Mapping[str, object]) -> None:
        """Take back what `state` gave. Raises pydantic's ValidationError (a ValueError) for anything else."""
        self._memory = Memory.model_validate(state)

    def _step(self, memory: Memory, reading: Reading, now: float) -> Memory:
        if memory.since is None:
            memory = memory.model_copy(update={"since": now})
        look = judge(self.spec, reading)
        if look is Look.BLIND:
            return self._blind(memory, now)
        memory = memory.model_copy(update={"blind_since": None})
        if look is Look.LEARNING:
            return self._learning(memory, now)
        memory = memory.model_copy(update={"judged": reading})
        return self._breach(memory, now) if look is Look.BREACH else self._good(memory, now)

    def _blind(self, memory: Memory, now: float) -> Memory:
        since = now if memory.blind_since is None else memory.blind_since
        memory = memory.model_copy(update={"blind_since": since, "good_since": None})
        if now - since < self.spec.no_data_after_s:
            return memory
        was_firing = memory.interrupted or memory.condition is GuardrailState.FIRING
        page = Page.NO_EVIDENCE if was_firing or self.slice == ALL else None
        if (memory.condition, memory.page) == (GuardrailState.NO_DATA, page):
            return memory
        return memory.entering(GuardrailState.NO_DATA, now, page)

    def _learning(self, memory: Memory, now: float) -> Memory:
        if memory.page is Page.NO_EVIDENCE and not memory.interrupted:
            return memory.entering(GuardrailState.NO_DATA, now)
        return memory.model_copy(update={"good_since": None})

    def _breach(self, memory: Memory, now: float) -> Memory:
        match memory.condition:
            case GuardrailState.FIRING:
                return memory.model_copy(update={"good_since": None})
            case GuardrailState.PENDING if memory.since is not None:
                held = now - memory.since >= self.spec.hold_s
            case _:
                held = memory.interrupted or self.spec.hold_s == 0
        if held:
            return memory.entering(GuardrailState.FIRING, now, Page.BREACH)
        return memory.entering(GuardrailState.PENDING, now)

    def _good(self, memory: Memory, now: float) -> Memory:
        if memory.condition is not GuardrailState.FIRING:
            return (
                memory if memory.condition is GuardrailState.OK else memory.entering(GuardrailState.OK, now)
            )
        since = now if memory.good_since is None else memory.good_since
        if now - since >= self.spec.clear_s:
            return memory.entering(GuardrailState.OK, now)
        return memory.model_copy(update={"good_since": since})
