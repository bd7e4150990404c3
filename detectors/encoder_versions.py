"""Encoder versions: which reference may raise an alarm, and what it takes for a new version's to do so.

Vectors of two versions are never compared, so each version has a reference of its own. Pure: no clock, no vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError


class VersionPolicy(StrEnum):
    """What a new encoder version needs before its detectors are armed.

    `freeze`: a person adopts it, and the versions adopted before stay armed (a roll-back finds its reference).
    `adopt_after_review`: a person adopts it once its reference is full, and the versions before are retired.
    `adopt_after_quiet`: it is adopted once its reference is full and nothing has alarmed for a while.
    Two versions that serve side by side for long want `freeze`: under the others each would retire the other.
    """

    FREEZE = "freeze"
    ADOPT_AFTER_REVIEW = "adopt_after_review"
    ADOPT_AFTER_QUIET = "adopt_after_quiet"


class VersionState(StrEnum):
    """Only an armed version may alarm. A retired one that comes back collects a new reference."""

    COLLECTING = "collecting"
    WAITING = "waiting"
    ARMED = "armed"
    RETIRED = "retired"


class EncoderVersionSettings(BaseModel):
    """How a new encoder version is taken up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: VersionPolicy = Field(
        VersionPolicy.ADOPT_AFTER_QUIET,
        description="A new version's reference is used: `adopt_after_quiet` of alarms, `adopt_after_review` by a "
        "person, or `freeze`: by a person, and the old references stay in use.",
    )
    adopted: tuple[str, ...] = Field(
        (),
        description="Versions that a person has reviewed, by the names on the page: their references are used.",
    )
    quiet_s: float = Field(
        86_400.0, ge=0.0, description="Seconds without an alarm that `adopt_after_quiet` waits for."
    )


@dataclass(slots=True, frozen=True)
class Transition:
    """`version` went from `before` (None: it is new) to `after` (None: it is forgotten) at `at` seconds, and why."""

    version: str
    before: VersionState | None
    after: VersionState | None
    at: float
    why: str


@dataclass(slots=True)
class _Version:
    state: VersionState
    units: int
    since: float
    """Seconds at which it began to collect."""
    seen: float


class VersionError(ValueError):
    """What a person asked for cannot be done; it changed nothing."""


class UnreadableVersionsError(ValueError):
    """A stored state that is not one."""


class EncoderVersions:
    """The state machine. One owner; times are seconds of any one clock.

    A version's reference is full after `units` closed units; of more than `kept` versions the one longest unseen is
    forgotten.

    >>> versions = EncoderVersions(EncoderVersionSettings(policy="adopt_after_review"), units=2)
    >>> [(step.version, str(step.after)) for _ in range(2) for step in versions.seen("a", at=0.0)]
    [('a', 'collecting'), ('a', 'armed')]
    >>> [str(step.after) for _ in range(2) for step in versions.seen("b", at=1.0)]
    ['collecting', 'waiting']
    >>> [(step.version, str(step.after)) for step in versions.adopt("b", at=2.0, by="ana")]
    [('b', 'armed'), ('a', 'retired')]
    """

    def __init__(
        self, settings: EncoderVersionSettings | None = None, *, units: int = 500, kept: int = 4
    ) -> None:
        self.settings = settings or EncoderVersionSettings()
        self.units, self.kept = units, kept
        self._versions: dict[str, _Version] = {}
        self._alarmed: float | None = None

    def states(self) -> dict[str, VersionState]:
        """Every known version's state."""
        return {name: version.state for name, version in self._versions.items()}

    def may_alarm(self, version: str) -> bool:
        """Whether what this version's detectors say may become an alarm."""
        known = self._versions.get(version)
        return known is not None and known.state is VersionState.ARMED

    def seen(self, version: str, *, at: float) -> tuple[Transition, ...]:
        """One closed unit of this version. Where it begins to collect, its detectors must start anew."""
        known = self._versions.get(version)
        steps: list[Transition] = []
        if known is None or known.state is VersionState.RETIRED:
            before = known.state if known else None
            known = self._versions[version] = _Version(VersionState.COLLECTING, 0, at, at)
            steps.append(Transition(version, before, known.state, at, "its queries came"))
            steps += self._forget(version, at)
        known.seen = max(known.seen, at)
        known.units += 1
        return (*steps, *self.tick(at=at))

    def alarmed(self, *, at: float) -> None:
        """Something alarmed (any detector or guardrail): quiet begins anew, since a reference must not be taken from
        a time of trouble."""
        self._alarmed = at if self._alarmed is None else max(self._alarmed, at)

    def tick(self, *, at: float) -> tuple[Transition, ...]:
        """What time alone allows: a full reference waits, the very first is armed, a quiet one is adopted."""
        steps: list[Transition] = []
        for name, version in list(self._versions.items()):
            if version.state is VersionState.COLLECTING and version.units >= self.units:
                if any(one.state is VersionState.ARMED for one in self._versions.values()):
                    steps.append(self._move(name, VersionState.WAITING, at, "its reference is full"))
                else:
                    steps += self._arm(name, at, "its reference is full and there is none before it")
            if version.state is VersionState.WAITING and self._is_quiet(version, at):
                steps += self._arm(name, at, f"no alarm for {self.settings.quiet_s:g} s")
            elif version.state is VersionState.WAITING and name in self.settings.adopted:
                steps += self._arm(name, at, "the configuration names it as reviewed")
        return tuple(steps)

    def adopt(self, version: str, *, at: float, by: str) -> tuple[Transition, ...]:
        """A person arms a waiting version. Raises VersionError for one that does not wait."""
        self._waiting(version)
        return self._arm(version, at, f"adopted by {by}")

    def reject(self, version: str, *, at: float, by: str) -> tuple[Transition, ...]:
        """A person throws a waiting version's reference away: it collects anew. Raises VersionError."""
        known = self._waiting(version)
        known.units, known.since = 0, at
        return (self._move(version, VersionState.COLLECTING, at, f"its reference was rejected by {by}"),)

    def notice(self, version: str) -> str:
        """One sentence for pages and alerts on how this version stands."""
        known = self._versions.get(version)
        if known is None:
            return f"Encoder {version}: no query seen."
        if known.state is VersionState.COLLECTING:
            return f"Encoder {version}: {known.units} of {self.units} units of its reference; no alarms yet."
        if known.state is VersionState.WAITING:
            return f"Encoder {version}: its reference is full; no alarms until {self._awaited()}."
        if known.state is VersionState.ARMED:
            return f"Encoder {version}: compared with its own reference; alarms are on."
        return f"Encoder {version}: retired; its queries would start a new reference."

    def state(self) -> dict[str, Any]:
        """Plain numbers and strings, for storing."""
        return {
            "alarmed": self._alarmed,
            "versions": {
                name: asdict(one) | {"state": str(one.state)} for name, one in self._versions.items()
            },
        }

    @classmethod
    def from_state(
        cls, settings: EncoderVersionSettings, stored: Mapping[str, Any], *, units: int = 500, kept: int = 4
    ) -> Self:
        """Goes on where `state` was taken. Raises UnreadableVersionsError."""
        made = cls(settings, units=units, kept=kept)
        try:
            made._alarmed = TypeAdapter(float | None).validate_python(stored["alarmed"])
            made._versions = TypeAdapter(dict[str, _Version]).validate_python(stored["versions"])
        except (KeyError, ValidationError) as error:
            raise UnreadableVersionsError(f"encoder versions cannot be read: {error}") from error
        return made

    def _awaited(self) -> str:
        if self.settings.policy is VersionPolicy.ADOPT_AFTER_QUIET:
            return f"{self.settings.quiet_s:g} s have passed without an alarm"
        return "a person names it in encoder_versions.adopted"

    def _is_quiet(self, version: _Version, at: float) -> bool:
        if self.settings.policy is not VersionPolicy.ADOPT_AFTER_QUIET:
            return False
        trouble = version.since if self._alarmed is None else max(version.since, self._alarmed)
        return at - trouble >= self.settings.quiet_s

    def _waiting(self, version: str) -> _Version:
        known = self._versions.get(version)
        if known is None or known.state is not VersionState.WAITING:
            state = "unknown" if known is None else str(known.state)
            raise VersionError(
                f"encoder {version!r} is {state}: only one that waits can be adopted or rejected"
            )
        return known

    def _arm(self, version: str, at: float, why: str) -> tuple[Transition, ...]:
        others = (
            []
            if self.settings.policy is VersionPolicy.FREEZE
            else [name for name, one in self._versions.items() if one.state is VersionState.ARMED]
        )
        armed = self._move(version, VersionState.ARMED, at, why)
        return (
            armed,
            *(self._move(name, VersionState.RETIRED, at, f"{version} took over") for name in others),
        )

    def _move(self, version: str, after: VersionState, at: float, why: str) -> Transition:
        known = self._versions[version]
        before, known.state = known.state, after
        return Transition(version, before, after, at, why)

    def _forget(self, newest: str, at: float) -> list[Transition]:
        """Armed references go last: a flood of odd version names must not switch the alarms off."""
        steps = []
        while len(self._versions) > self.kept:
            rest = {name: one for name, one in self._versions.items() if name != newest}
            gone = min(rest, key=lambda name: (rest[name].state is VersionState.ARMED, rest[name].seen))
            steps.append(Transition(gone, self._versions.pop(gone).state, None, at, "too many versions"))
        return steps
