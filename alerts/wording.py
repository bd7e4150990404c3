"""What an alert says, in words: at least how bad, the interval, how much evidence, and why."""

from __future__ import annotations

from alerts.guardrail import GuardrailState, Page, Transition
from alerts.plain import plain_reason, plain_slice
from alerts.signals import ALL, BY_NAME, Kind, Reading
from alerts.spec import GuardrailSpec


def summary(transition: Transition, page: Page, *, ended: bool) -> str:
    """One line for the page that a transition raises, or ends where `ended`."""
    spec = transition.spec
    if page is Page.NO_EVIDENCE:
        text = _evidence_is_back(transition) if ended else _no_evidence(transition)
    elif transition.after is GuardrailState.NO_DATA:
        text = "its evidence ended while it was firing; this is no repair"
    else:
        text = _breach_text(spec, transition.judged or transition.reading, ended=ended)
    where = "" if transition.slice == ALL else f" [{plain_slice(transition.slice)}]"
    return f"{spec.name}{where}: {text}"


def describe(spec: GuardrailSpec, reading: Reading) -> str:
    """What a reading says, without judging it.

    >>> from alerts.spec import DEFAULT_GUARDRAILS
    >>> describe(DEFAULT_GUARDRAILS[4], Reading("cost_per_query_usd", "all", 0.02, 0.018, 0.023, 90, 41.6))
    '0.02 USD [0.018, 0.023], n = 90, effective 42, a query'
    """
    signal = BY_NAME[spec.signal]
    if signal.kind is Kind.ALARM:
        return signal.phrase if reading.estimate else "the detector sees no change"
    return f"{_interval(spec, reading)}, {signal.phrase}"


def describe_breach(spec: GuardrailSpec, reading: Reading) -> str:
    """What is at least how bad.

    >>> from alerts.spec import DEFAULT_GUARDRAILS
    >>> spec = DEFAULT_GUARDRAILS[2]
    >>> describe_breach(spec, Reading(spec.signal, "all", 0.041, 0.029, 0.058, 412, 412.0))
    'at least 2.9 % (4.1 % [2.9, 5.8], n = 412) of queries lost every known answer'
    """
    signal = BY_NAME[spec.signal]
    if signal.kind is Kind.ALARM:
        return signal.phrase
    below = reading.low is not None and reading.upper is not None and reading.upper < reading.low
    bound = f"at most {amount(spec, reading.upper)}" if below else f"at least {amount(spec, reading.lower)}"
    return f"{bound} ({_interval(spec, reading)}) {signal.phrase}"


def objective(spec: GuardrailSpec, reading: Reading | None) -> str:
    """What should hold; empty for alarms and for a band that is not known yet."""
    if spec.objective is not None:
        return f"at most {amount(spec, spec.objective)}"
    if reading is not None and reading.low is not None and reading.high is not None:
        return f"between {amount(spec, reading.low)} and {amount(spec, reading.high)}"
    return ""


def amount(spec: GuardrailSpec, number: float | None) -> str:
    """A number in its signal's unit; `?` where there is none."""
    return f"{_number(spec, number)} {'%' if spec.kind is Kind.RATE else BY_NAME[spec.signal].unit}"


def _breach_text(spec: GuardrailSpec, reading: Reading, *, ended: bool) -> str:
    if ended:
        return f"holds again: {describe(spec, reading)}"
    reason = plain_reason(reading.reason)
    return describe_breach(spec, reading) + (f"; {reason}" if reason else "")


def _no_evidence(transition: Transition) -> str:
    spec, reading = transition.spec, transition.reading
    if spec.kind is Kind.ALARM or reading.evidence == 0:
        return f"no evidence for {spec.no_data_after_s:.0f} s"
    return (
        f"too little evidence for {spec.no_data_after_s:.0f} s: {reading.effective_evidence:.0f} effective "
        f"units of the {spec.minimum_evidence:g} needed"
    )


def _evidence_is_back(transition: Transition) -> str:
    if transition.reading.estimate is None:
        return "there is evidence again, not yet judged"
    return f"there is evidence again: {describe(transition.spec, transition.reading)}"


def _interval(spec: GuardrailSpec, reading: Reading) -> str:
    weighted = round(reading.effective_evidence) != reading.evidence
    effective = f", effective {reading.effective_evidence:.0f}" if weighted else ""
    bounds = f"[{_number(spec, reading.lower)}, {_number(spec, reading.upper)}]"
    return f"{amount(spec, reading.estimate)} {bounds}, n = {reading.evidence}{effective}"


def _number(spec: GuardrailSpec, number: float | None) -> str:
    if number is None:  # a reading without an interval is never judged, but may still be shown
        return "?"
    return f"{number * 100:.1f}" if spec.kind is Kind.RATE else f"{number:.3g}"
