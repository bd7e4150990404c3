"""A drift alarm as a picture: the units of the reference and of the alarm in one plane, and what moved beside them."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from monitor.drift_alarms import DriftAlarm, Place

_SIDE, _MARGIN, _BAR, _ROW = 420, 24, 220, 44
_STYLE = (
    "text{font:12px sans-serif;fill:#1b1f24}.small{font-size:11px;fill:#57606a}"
    ".before{fill:none;stroke:#57606a}.now{fill:#b35900;stroke:#fff;stroke-width:.5}"
    ".bar-before{fill:#afb8c1}.bar-now{fill:#b35900}.whisker{stroke:#1b1f24}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.before{stroke:#9198a1}"
    ".bar-before{fill:#57606a}.whisker{stroke:#e6edf3}}"
)
_SHOWN = 8


def draw(alarm: DriftAlarm) -> str:
    """The picture as SVG. Rings are units of the reference, filled dots those of the alarm; bars are shares of units
    before and now, with their 95 % intervals."""
    findings = () if alarm.explanation is None else alarm.explanation.findings[:_SHOWN]
    height = max(_SIDE + 2 * _MARGIN, _MARGIN * 3 + _ROW * len(findings))
    width = _SIDE + _BAR + 320
    svg = ElementTree.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", role="img"
    )
    ElementTree.SubElement(svg, "title").text = f"{alarm.id}: queries of {alarm.encoder}"
    ElementTree.SubElement(svg, "style").text = _STYLE
    _plane(svg, alarm.reference, alarm.current)
    left = _SIDE + 3 * _MARGIN
    _text(svg, left, _MARGIN, "Share of units before (grey) and now", "small")
    for row, finding in enumerate(findings):
        top = 2 * _MARGIN + row * _ROW
        _text(
            svg,
            left,
            top,
            f"{finding.field} = {finding.value}" if finding.kind != "topic" else f"topic {finding.value}",
        )
        for offset, share, name in ((6, finding.before, "bar-before"), (18, finding.now, "bar-now")):
            _bar(svg, left, top + offset, share.rate, (share.lower, share.upper), name)
    return ElementTree.tostring(svg, encoding="unicode")


def _plane(svg: ElementTree.Element, reference: Sequence[Place], current: Sequence[Place]) -> None:
    places = [*reference, *current]
    if not places:
        _text(svg, _MARGIN, 2 * _MARGIN, "no places are kept of this alarm", "small")
        return
    lows = [min(place[axis] for place in places) for axis in (0, 1)]
    spread = max(max(place[axis] for place in places) - lows[axis] for axis in (0, 1)) or 1.0
    for name, side, radius in (("before", reference, 3.0), ("now", current, 4.0)):
        for x, y in side:
            ElementTree.SubElement(
                svg,
                "circle",
                {"class": name, "r": f"{radius:g}"},
                cx=f"{_MARGIN + (x - lows[0]) / spread * _SIDE:.1f}",
                cy=f"{_MARGIN + (y - lows[1]) / spread * _SIDE:.1f}",
            )


def _bar(
    svg: ElementTree.Element, left: float, top: float, rate: float, interval: tuple[float, float], name: str
) -> None:
    ElementTree.SubElement(
        svg, "rect", {"class": name}, x=f"{left}", y=f"{top}", width=f"{max(rate * _BAR, 1):.1f}", height="10"
    )
    ends = {"x1": f"{left + interval[0] * _BAR:.1f}", "x2": f"{left + interval[1] * _BAR:.1f}"}
    ElementTree.SubElement(svg, "line", {"class": "whisker"} | ends, y1=f"{top + 5}", y2=f"{top + 5}")
    _text(svg, left + _BAR + 8, top + 10, f"{rate:.1%}", "small")


def _text(svg: ElementTree.Element, x: float, y: float, said: str, name: str = "") -> None:
    ElementTree.SubElement(svg, "text", {"class": name} if name else {}, x=f"{x}", y=f"{y}").text = said
