"""What the status page says, made from a `Status`: the headline, the rows and their charts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from markupsafe import Markup

from alerts.signals import ALL, BY_NAME
from monitor.status import AlertRecord, DriftStatus, GuardrailStatus, Marker, Status
from monitor.web import figures
from monitor.web.axes import Window
from monitor.web.chart import Chart, Mark, draw

_LEAST_WINDOW_S = 60.0
_MOST_ALERTS = 20
_TROUBLE = ("firing", "pending")
_WORDS = {"ok": "holds", "pending": "pending", "firing": "firing", "no_data": "no evidence"}


@dataclass(slots=True, frozen=True)
class Detail:
    """One line below the headline, and the row that it points to (empty: none)."""

    text: str
    anchor: str = ""


@dataclass(slots=True, frozen=True)
class Headline:
    """How things stand: `tone` is `unwell` (the monitor itself), or a guardrail's state."""

    tone: str
    sentence: str
    details: tuple[Detail, ...] = ()


@dataclass(slots=True, frozen=True)
class Row:
    """One guardrail on one slice."""

    anchor: str
    item: GuardrailStatus
    scope: str
    state_word: str
    meaning: str
    nothing: str
    """How the row says that there is no estimate: not yet, or not now."""
    chart: Markup


@dataclass(slots=True, frozen=True)
class Group:
    """A guardrail: its row for all traffic, then the slices that are firing or pending, then the others."""

    main: Row
    troubled: tuple[Row, ...]
    others: tuple[Row, ...]


@dataclass(slots=True, frozen=True)
class DriftCard:
    """One drift detector and its evidence over time."""

    anchor: str
    item: DriftStatus
    chart: Markup


@dataclass(slots=True, frozen=True)
class Page:
    """Everything that the templates show."""

    status: Status
    headline: Headline
    groups: tuple[Group, ...]
    drift: tuple[DriftCard, ...]
    alerts: tuple[AlertRecord, ...]
    older_alerts: int
    changes: tuple[tuple[str, Marker], ...]
    """Newest first, each with the number that flags it on the charts."""


def page(status: Status) -> Page:
    """The page for one snapshot."""
    window = _window(status)
    marks = [Mark(marker.time, str(index)) for index, marker in enumerate(_by_time(status.markers), 1)]
    rows = [_row(item, status, window, marks) for item in status.guardrails]
    alerts = sorted(status.alerts, key=lambda alert: alert.fired_at, reverse=True)
    numbered = [(mark.label, marker) for mark, marker in zip(marks, _by_time(status.markers), strict=True)]
    return Page(
        status=status,
        headline=headline(status),
        groups=_grouped(rows),
        drift=tuple(_drift_card(item, window, marks) for item in status.drift),
        alerts=tuple(alerts[:_MOST_ALERTS]),
        older_alerts=max(0, len(alerts) - _MOST_ALERTS),
        changes=tuple(reversed(numbered)),
    )


def headline(status: Status) -> Headline:
    """How things stand in one sentence, the worst first: the monitor itself, then the guardrails."""
    guardrails = _guardrails_headline(status.guardrails, status.now)
    if status.healthy:
        return guardrails
    sentence = f"The monitor itself is unwell: {status.problem or 'it does not say why'}"
    details = (
        Detail("What stands below may be out of date."),
        Detail(f"When it last looked: {guardrails.sentence}"),
    )
    return Headline("unwell", sentence, details)


def _guardrails_headline(items: Sequence[GuardrailStatus], now: float) -> Headline:
    if not items:
        return Headline("no_data", "No guardrail is configured, so nothing is watched")
    for state in _TROUBLE:
        found = sorted((item for item in items if item.state == state), key=lambda item: item.slice != ALL)
        several, every = len({item.guardrail for item in found}), len({item.guardrail for item in items})
        if several == 1:
            details = [Detail(_since(found[0], now), anchor(found[0]))]
            details += [Detail(f"Also {_sentence(item)}", anchor(item)) for item in found[1:]]
            return Headline(state, _sentence(found[0]), tuple(details))
        if found:
            details = [Detail(_sentence(item), anchor(item)) for item in found]
            return Headline(state, f"{several} of {every} guardrails are {state}", tuple(details))
    return _quiet_headline(items)


def _quiet_headline(items: Sequence[GuardrailStatus]) -> Headline:
    mains = _mains(items)
    every, unknown = len(mains), sum(item.state != "ok" for item in mains)
    noun = "guardrail" if every == 1 else "guardrails"
    if unknown == every:
        when = "now" if any(_seen(item) for item in items) else "yet"
        details = (
            Detail("Rates stand here as soon as there is enough to judge; until then nothing is known."),
        )
        return Headline("no_data", f"No evidence {when} for any of {every} {noun}", details)
    if unknown:
        verb = "has" if unknown == 1 else "have"
        return Headline("no_data", f"{every - unknown} of {every} {noun} hold; {unknown} {verb} no evidence")
    return Headline("ok", f"All {every} guardrails hold" if every > 1 else "The one guardrail holds")


def _state_word(item: GuardrailStatus) -> str:
    if item.state == "no_data" and item.estimate is not None:
        return "too little evidence"
    return _WORDS.get(item.state, figures.words(item.state))


def _mains(items: Sequence[GuardrailStatus]) -> list[GuardrailStatus]:
    """For each guardrail, in the given order, its row on all traffic; the first where there is none."""
    by_name: dict[str, GuardrailStatus] = {}
    for item in items:
        if item.slice == ALL or item.guardrail not in by_name:
            by_name[item.guardrail] = item
    return list(by_name.values())


def _sentence(item: GuardrailStatus) -> str:
    """Which guardrail is in which state where, at least how bad, and why, as far as each is known."""
    signal = BY_NAME.get(item.signal)
    amount = _amount(item)
    known = signal is not None and (amount or item.kind == "alarm")
    breach = f"{amount} {signal.phrase}".strip() if signal is not None and known else amount
    parts = "; ".join(part for part in (breach, item.reason) if part)
    return f"{item.guardrail} is {item.state} on {scope(item.slice)}{': ' if parts else ''}{parts}"


def _amount(item: GuardrailStatus) -> str:
    """The bound that counts against a ceiling; else the whole interval, as a band breaks on either side."""
    if item.kind == "alarm" or item.estimate is None or item.lower is None or item.upper is None:
        return ""
    estimate, lower, upper = (
        figures.value(number, item.kind, item.unit) for number in (item.estimate, item.lower, item.upper)
    )
    return f"at least {lower}" if item.objective is not None else f"{estimate} ({lower} to {upper})"


def _since(item: GuardrailStatus, now: float) -> str:
    limit = "" if item.objective is None else f"limit {figures.tick(item.objective, item.kind, item.unit)}, "
    length = figures.duration(now - item.since)
    return f"{item.title}: {limit}{item.state} since {figures.clock(item.since, now)} UTC ({length})"


def scope(slice_name: str) -> str:
    """A slice in words.

    >>> scope("all"), scope("locale=de")
    ('all traffic', 'locale=de')
    """
    return "all traffic" if slice_name == ALL else slice_name


def anchor(item: GuardrailStatus) -> str:
    """A row's id on the page: the same on every refresh, and another for every guardrail and slice."""
    return _identifier(f"{item.guardrail}\0{item.slice}")


def _identifier(name: str) -> str:
    return f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')[:40]}-{crc32(name.encode()):08x}"


def _row(item: GuardrailStatus, status: Status, window: Window, marks: Sequence[Mark]) -> Row:
    spans = [
        (alert.fired_at, status.now if alert.resolved_at is None else alert.resolved_at)
        for alert in status.alerts
        if (alert.guardrail, alert.slice) == (item.guardrail, item.slice)
    ]
    label = f"{item.title} on {scope(item.slice)}"
    chart = Chart(label, item.history, item.kind, item.unit, item.objective, "at most", spans, marks)
    return Row(
        anchor=anchor(item),
        item=item,
        scope=scope(item.slice),
        state_word=_state_word(item),
        meaning=BY_NAME[item.signal].meaning if item.signal in BY_NAME else "",
        nothing="no evidence now" if _seen(item) else "no evidence yet",
        chart=draw(chart, window),
    )


def _grouped(rows: Sequence[Row]) -> tuple[Group, ...]:
    """Rows by guardrail in the given order; the row for all traffic leads, else the first."""
    groups = []
    for main_item in _mains([row.item for row in rows]):
        members = [row for row in rows if row.item.guardrail == main_item.guardrail]
        main = next(row for row in members if row.item is main_item)
        slices = [row for row in members if row is not main]
        troubled = tuple(row for row in slices if row.item.state in _TROUBLE)
        groups.append(Group(main, troubled, tuple(row for row in slices if row not in troubled)))
    return tuple(groups)


def _drift_card(item: DriftStatus, window: Window, marks: Sequence[Mark]) -> DriftCard:
    label = f"Evidence of drift by {item.detector}"
    chart = Chart(label, item.history, "evidence", "", item.threshold, "alarm at", (), marks)
    return DriftCard(_identifier(item.detector), item, draw(chart, window))


def _seen(item: GuardrailStatus) -> bool:
    return any(point.estimate is not None for point in item.history)


def _by_time(markers: Sequence[Marker]) -> list[Marker]:
    return sorted(markers, key=lambda marker: marker.time)


def _window(status: Status) -> Window:
    """From the oldest point of any history (else the start of the sidecar) until now."""
    histories = [item.history for item in status.guardrails] + [item.history for item in status.drift]
    times = [point.time for history in histories for point in history]
    end = max([status.now, *times])
    first = min(times) if times else status.started_at
    return Window(min(first, end - _LEAST_WINDOW_S), end)
