"""What explains a drift, as plain data: which slices and topics moved, by how much, with which queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class MovedBy(StrEnum):
    """What was compared."""

    MIX = "mix"
    """The share of units that fall into a slice."""
    MEANING = "meaning"
    """What is asked inside a slice."""
    TOPIC = "topic"
    """The share of units about a topic that was found without labels."""


@dataclass(slots=True, frozen=True)
class Share:
    """`units` of `of` units, as a rate with its 95 % Wilson interval."""

    units: int
    of: int
    rate: float
    lower: float
    upper: float


@dataclass(slots=True, frozen=True)
class DriftFinding:
    """One slice or topic that moved. `q_value` is its p-value adjusted for everything that was tested with it
    (Benjamini & Hochberg 1995): findings with q <= 0.1 are wrong in a tenth of cases at most, on average."""

    kind: MovedBy
    field: str
    """The slice's name; `topic` for a topic without one."""
    value: str
    before: Share
    now: Share
    p_value: float
    q_value: float
    examples: tuple[str, ...] = ()
    """Queries of the side on which there are more of them, the most telling first."""

    @property
    def wording(self) -> str:
        """One line for an alert.

        >>> DriftFinding(MovedBy.MIX, "intent", "travel", Share(13, 200, .065, .04, .11), Share(44, 200, .22, .17, .28),
        ...              1e-5, 4e-4, ("book a flight",)).wording
        'intent = travel grew from 6.5 % to 22 % of units (q < 0.001), e.g. "book a flight"'
        """
        name = f"topic {self.value}" if self.kind is MovedBy.TOPIC else f"{self.field} = {self.value}"
        certainty = "q < 0.001" if self.q_value < 0.001 else f"q = {self.q_value:.3f}"
        example = f', e.g. "{self.examples[0]}"' if self.examples else ""
        if self.kind is MovedBy.MEANING:
            return f"{name}: other queries than before ({certainty}){example}"
        verb = "grew" if self.now.rate > self.before.rate else "shrank"
        change = f"from {_percent(self.before.rate)} to {_percent(self.now.rate)} of units"
        return f"{name} {verb} {change} ({certainty}){example}"


@dataclass(slots=True, frozen=True)
class DriftExplanation:
    """Findings, the surest first, and how many hypotheses they were chosen from."""

    findings: tuple[DriftFinding, ...]
    tested: int
    reference_size: int
    current_size: int
    false_discovery_rate: float
    not_tested: Mapping[str, int] = field(default_factory=dict)
    """How many hypotheses were not tested, by what was asked and why: `mix_too_few_units`, `mix_over_the_cap`,
    `mix_in_every_unit`, the same of `topic` and `meaning`, and `fields_over_the_cap`."""

    @property
    def wording(self) -> str:
        """The surest finding, or that none was found."""
        if self.findings:
            return self.findings[0].wording
        return f"no slice and no topic stands out of {self.tested} tested"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"wording": self.wording}


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %" if rate < 0.1 else f"{100 * rate:.0f} %"
