"""The demo as a person watches it: a live table on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from monitor.demo.report import Report, Sighting
from monitor.demo.scenario import ScheduledAct
from monitor.status import GuardrailStatus, Status

_STYLES = {"ok": "green", "pending": "yellow", "firing": "bold white on red", "no_data": "dim"}
_COUNTS_SHOWN = 6


@dataclass(slots=True, frozen=True)
class Moment:
    """What there is to show now; `act` is None until the service has begun."""

    elapsed_s: float
    duration_s: float
    act: ScheduledAct | None
    status: Status
    alerts: Sequence[Sighting]


class View(Protocol):
    """Where the demo is shown. A context manager."""

    def show(self, moment: Moment) -> None: ...

    def conclude(self, report: Report) -> None:
        """The last word: what was expected and what came."""
        ...

    def say(self, text: str) -> None:
        """A message outside the story, such as a crash."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def view_for(stream: TextIO | None, page_url: str) -> View:
    """The live view where the stream (standard output by default) is a terminal, else lines."""
    stream = stream or sys.stdout
    return LiveView(stream, page_url) if stream.isatty() else LineView(stream, page_url)


class LineView:
    """A line for each thing that changes."""

    def __init__(self, stream: TextIO, page_url: str) -> None:
        self._stream = stream
        self._page_url = page_url
        self._act = ""
        self._alerts: dict[tuple[str, str, float], bool] = {}

    def __enter__(self) -> Self:
        self.say(f"status page {self._page_url}  metrics {self._page_url}metrics")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.flush()

    def show(self, moment: Moment) -> None:
        at = f"{moment.elapsed_s:6.1f}s"
        if moment.act is not None and moment.act.act.name != self._act:
            self._act = moment.act.act.name
            self.say(f"{at}  act {self._act}: {moment.act.act.title}")
        for alert in moment.alerts:
            key, resolved = (alert.guardrail, alert.slice, alert.fired_at), alert.resolved_at is not None
            if key not in self._alerts:
                self.say(f"{at}  FIRING   {_alert_line(alert)}")
            if resolved and not self._alerts.get(key, False):
                self.say(f"{at}  resolved {alert.guardrail} on {alert.slice}")
            self._alerts[key] = resolved

    def conclude(self, report: Report) -> None:
        for line in summary_lines(report):
            self.say(line)

    def say(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


class LiveView:
    """One screen that is drawn anew: the act, the guardrails, the alerts, the counts."""

    def __init__(self, stream: TextIO, page_url: str) -> None:
        self._console = Console(file=stream)
        self._page_url = page_url
        self._live = Live(console=self._console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, moment: Moment) -> None:
        title = "starting the service" if moment.act is None else moment.act.act.title
        bar = ProgressBar(total=moment.duration_s, completed=min(moment.elapsed_s, moment.duration_s))
        body = Group(
            Text(title, style="bold cyan"),
            Padding(bar),  # a bare bar ends no line
            guardrail_table(moment.status.guardrails),
            _alert_text(moment.alerts),
            Text(_counts_line(moment.status), style="dim"),
            Text(f"{self._page_url}   {self._page_url}metrics", style="blue"),
        )
        heading = f"Groundwatch demo  {moment.elapsed_s:.0f} of {moment.duration_s:.0f} s"
        self._live.update(Panel(body, title=heading), refresh=True)

    def conclude(self, report: Report) -> None:
        self._live.stop()
        for line in summary_lines(report):
            self.say(line)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)


def guardrail_table(guardrails: Sequence[GuardrailStatus]) -> Table:
    """State, rate with interval, evidence and objective of every guardrail over all traffic."""
    table = Table(expand=True, box=None, pad_edge=False)
    for heading in ("guardrail", "state", "now", "interval", "evidence", "objective", "reason"):
        table.add_column(heading, justify="right" if heading in {"now", "evidence", "objective"} else "left")
    for g in guardrails:
        if g.slice == "all":
            table.add_row(
                g.title,
                Text(g.state, style=_STYLES.get(g.state, "")),
                "-" if g.kind == "alarm" else number(g.estimate, g.unit),  # an alarm is its state
                "" if g.kind == "alarm" or g.lower is None else _interval(g),
                str(g.evidence),
                number(g.objective, g.unit),
                Text(g.reason, overflow="ellipsis", no_wrap=True),
            )
    return table


def _interval(guardrail: GuardrailStatus) -> str:
    return f"[{number(guardrail.lower, guardrail.unit)}, {number(guardrail.upper, guardrail.unit)}]"


def number(value: float | None, unit: str) -> str:
    """A value as people read it.

    >>> number(0.0412, "1"), number(0.0021, "USD"), number(None, "1")
    ('4.1 %', '$0.0021', '-')
    """
    if value is None:
        return "-"
    return f"${value:.4f}" if unit == "USD" else f"{100 * value:.1f} %"


def summary_lines(report: Report) -> list[str]:
    """What was expected, what came, and why it did not pass where it did not."""
    lines = []
    for e in report.expectations:
        when = (
            "" if e.fired_at is None else f", fired {e.fired_at - report.acts[0].start:.1f} s into the demo"
        )
        lines.append(f"{e.act}: {e.guardrail} {e.verdict.replace('_', ' ')}{when}")
    lines += [f"problem: {problem}" for problem in report.problems]
    return [*lines, "passed" if report.passed else "FAILED"]


def _alert_line(alert: Sighting) -> str:
    return alert.summary if alert.slice == "all" else f"{alert.summary} on {alert.slice}"


def _alert_text(alerts: Sequence[Sighting]) -> Text:
    text = Text()
    for alert in alerts:
        state, style = ("resolved", "green") if alert.resolved_at is not None else ("FIRING", "bold red")
        text.append(f"{state:9}", style=style).append(_alert_line(alert) + "\n")
    return text


def _counts_line(status: Status) -> str:
    shown = list(status.counts.items())[:_COUNTS_SHOWN]
    return "   ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown)
