"""One series over time as inline SVG: estimate, interval, objective, changes and firing spans on one axis.

The drawing is fluid without scaling its text: x is in per cent of the width, y in pixels, and the two curves
sit in a nested viewport that stretches. It holds no colour and no inline style: static/page.css paints its
classes, so that a content security policy without inline style holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from xml.etree import ElementTree

from markupsafe import Markup

from monitor.status import Point
from monitor.web import figures
from monitor.web.axes import Scale, Window, fitting_scale

COLUMNS = 240
"""Most points drawn; where there are more, each column shows its worst (more is always worse)."""
Attributes = dict[str, str | float]
_TOP, _BOTTOM = 18, 20
_PLOT, _LOW_PLOT = 84, 36
_STRETCH = 1000.0
_CLOSE = 0.03


@dataclass(slots=True, frozen=True)
class Mark:
    """A change at a time, with the number under which the page lists it."""

    time: float
    label: str


@dataclass(slots=True, frozen=True)
class Chart:
    """What one chart shows. `spans` are (start, end) in Unix seconds: when an alert was firing."""

    label: str
    points: Sequence[Point]
    kind: str
    unit: str
    objective: float | None = None
    objective_word: str = "at most"
    spans: Sequence[tuple[float, float]] = ()
    marks: Sequence[Mark] = ()


def draw(chart: Chart, window: Window) -> Markup:
    """The chart as an `<svg>` element, safe to put into a page: every text goes through the XML writer."""
    points = _thinned(
        [_drawable(point) for point in chart.points if 0 <= window.part(point.time) <= 1], window
    )
    canvas = _Canvas(window, fitting_scale(points, chart.kind, chart.objective), chart.kind == "alarm")
    canvas.svg.set("aria-label", _spoken(chart, points, window))
    _draw_spans(canvas, chart.spans)
    _draw_grid(canvas, chart)
    _draw_times(canvas)
    _draw_marks(canvas, chart.marks)
    _draw_curves(canvas, points)
    _draw_objective(canvas, chart)
    if not any(point.estimate is not None for point in points):
        canvas.text("50%", canvas.base - canvas.plot / 2 + 4, "no evidence yet", "empty")
    return Markup(ElementTree.tostring(canvas.svg, encoding="unicode"))  # noqa: S704


class _Canvas:
    """The `<svg>` under way, and where times and values lie on it. An alarm's two values need little height."""

    def __init__(self, window: Window, scale: Scale, stepped: bool) -> None:
        self.window = window
        self.scale = scale
        self.stepped = stepped
        self.plot = _LOW_PLOT if stepped else _PLOT
        self.base = _TOP + self.plot
        size = {"width": "100%", "height": str(self.base + _BOTTOM)}
        self.svg = ElementTree.Element("svg", {"class": "chart", "role": "img", **size})

    def x(self, time: float) -> str:
        return _share(self.window.part(time))

    def y(self, amount: float) -> float:
        return self.base - self.plot * self.scale.part(amount)

    def add(self, name: str, kind: str, attributes: Attributes) -> ElementTree.Element:
        texts = {key: str(text) for key, text in attributes.items()}
        return ElementTree.SubElement(self.svg, name, {"class": kind, **texts})

    def line(self, kind: str, x: tuple[str, str], y: tuple[float, float]) -> None:
        self.add("line", kind, {"x1": x[0], "x2": x[1], "y1": f"{y[0]:.1f}", "y2": f"{y[1]:.1f}"})

    def text(self, x: str, y: float, text: str, kind: str, dx: float = 0) -> None:
        self.add("text", kind, {"x": x, "y": f"{y:.1f}", **({"dx": dx} if dx else {})}).text = text

    def path(self, corners: Sequence[tuple[float, float | None]]) -> str:
        """Path data in the stretched viewport; a single corner becomes a dot."""
        parts: list[str] = []
        for time, amount in corners:
            x, y = f"{_STRETCH * self.window.part(time):.1f}", f"{self.y(amount or 0.0):.1f}"
            parts.append(f"M{x} {y}" if not parts else f"H{x}V{y}" if self.stepped else f"L{x} {y}")
        return "".join(parts) if len(parts) > 1 else parts[0] + "h0.1"


def _drawable(point: Point) -> Point:
    """Infinities and NaN cannot be drawn: to the eye they are no evidence."""
    values = (point.estimate, point.lower, point.upper)
    if all(amount is None or math.isfinite(amount) for amount in values):
        return point
    return Point(time=point.time)


def _thinned(points: list[Point], window: Window) -> list[Point]:
    if len(points) <= COLUMNS:
        return points
    columns: dict[int, Point] = {}
    for point in points:
        column = min(int(window.part(point.time) * COLUMNS), COLUMNS - 1)
        if column not in columns or _worse(point, columns[column]):
            columns[column] = point
    return list(columns.values())


def _worse(point: Point, held: Point) -> bool:
    if point.estimate is None or held.estimate is None:
        return held.estimate is None
    return point.estimate >= held.estimate


def _runs(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Stretches with evidence; a point without an estimate ends one, as does a long silence."""
    steps = [after.time - before.time for before, after in pairwise(points)]
    silence = 5 * median(steps) if steps else math.inf
    run: list[Point] = []
    for point in points:
        if run and (point.estimate is None or point.time - run[-1].time > silence):
            yield run
            run = []
        if point.estimate is not None:
            run.append(point)
    if run:
        yield run


def _draw_curves(canvas: _Canvas, points: Sequence[Point]) -> None:
    place: Attributes = {"x": 0, "y": _TOP, "width": "100%", "height": canvas.plot}
    box = f"0 {_TOP} {_STRETCH:.0f} {canvas.plot}"
    curves = canvas.add("svg", "curves", {**place, "viewBox": box, "preserveAspectRatio": "none"})
    last: Point | None = None
    for run in _runs(points):
        last = run[-1]
        banded = [point for point in run if point.lower is not None and point.upper is not None]
        if banded:
            edge = [(point.time, point.upper) for point in banded]
            edge += [(point.time, point.lower) for point in reversed(banded)]
            ElementTree.SubElement(curves, "path", {"class": "band", "d": canvas.path(edge) + "Z"})
        line = canvas.path([(point.time, point.estimate) for point in run])
        ElementTree.SubElement(curves, "path", {"class": "estimate", "d": line})
    if last is not None and last.estimate is not None:
        middle = {"cx": canvas.x(last.time), "cy": f"{canvas.y(last.estimate):.1f}"}
        canvas.add("circle", "latest", {**middle, "r": 3.5})


def _draw_spans(canvas: _Canvas, spans: Sequence[tuple[float, float]]) -> None:
    for start, end in spans:
        left, right = (min(max(canvas.window.part(time), 0.0), 1.0) for time in (start, end))
        if right <= left:
            continue
        place: Attributes = {"x": _share(left), "width": _share(right - left)}
        canvas.add("rect", "firing-span", {**place, "y": _TOP, "height": canvas.plot})
        canvas.add("rect", "firing-bar", {**place, "y": canvas.base, "height": 4})
        if right - left > 0.15:
            canvas.text(_share(left), _TOP + 12, "firing", "firing-word", dx=6)


def _draw_grid(canvas: _Canvas, chart: Chart) -> None:
    for amount in canvas.scale.ticks():
        y = canvas.y(amount)
        canvas.line("grid base" if amount == canvas.scale.low else "grid", ("0", "100%"), (y, y))
        canvas.text("-8", y + 4, figures.tick(amount, chart.kind, chart.unit), "y-label")


def _draw_times(canvas: _Canvas) -> None:
    for time, label in canvas.window.ticks():
        part, x = canvas.window.part(time), canvas.x(time)
        canvas.line("tick", (x, x), (canvas.base, canvas.base + 5))
        side = " from-left" if part < 0.05 else " from-right" if part > 0.95 else ""
        canvas.text(x, canvas.base + 17, label, "x-label" + side)


def _draw_marks(canvas: _Canvas, marks: Sequence[Mark]) -> None:
    """A dashed line a change; changes too close to tell apart share a flag."""
    part = canvas.window.part
    flags: list[list[Mark]] = []
    for mark in sorted(marks, key=lambda mark: mark.time):
        if not 0 <= part(mark.time) <= 1:
            continue
        canvas.line("change", (canvas.x(mark.time),) * 2, (_TOP - 2, canvas.base))
        if flags and part(mark.time) - part(flags[-1][0].time) < _CLOSE:
            flags[-1].append(mark)
        else:
            flags.append([mark])
    for flag in flags:
        text = flag[0].label if len(flag) == 1 else f"{flag[0].label}–{flag[-1].label}"
        canvas.text(canvas.x(flag[0].time), 11, text, "change-flag")


def _draw_objective(canvas: _Canvas, chart: Chart) -> None:
    if chart.objective is None or canvas.stepped or not math.isfinite(chart.objective):
        return
    y = canvas.y(chart.objective)
    canvas.line("objective", ("0", "100%"), (y, y))
    text = f"{chart.objective_word} {figures.tick(chart.objective, chart.kind, chart.unit)}"
    canvas.text("100%", y - 5, text, "objective-label")


def _spoken(chart: Chart, points: Sequence[Point], window: Window) -> str:
    """What the chart shows, for those who do not see it."""
    estimates = [point.estimate for point in points if point.estimate is not None]
    length = figures.duration(window.end - window.start)
    if not estimates:
        return f"{chart.label}: no evidence in the last {length}."
    bounds = (min(estimates), max(estimates), estimates[-1])
    low, high, latest = (figures.value(bound, chart.kind, chart.unit) for bound in bounds)
    return f"{chart.label}, last {length}: between {low} and {high}, lately {latest}."


def _share(part: float) -> str:
    return f"{100 * part:.2f}%"
