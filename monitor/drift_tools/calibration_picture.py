"""Delays by shift as a picture: a dot for the median, a line to the 90th percentile, a day from left to right."""

from __future__ import annotations

from xml.etree import ElementTree

from monitor.drift_tools.calibration import CalibrationReport, ShiftResult

_LEFT, _WIDTH, _ROW, _TOP = 220, 520, 26, 56
_HOURS = (0, 6, 12, 18, 24)
_STYLE = (
    "text{font:12px sans-serif;fill:#1b1f24}.small{font-size:11px;fill:#57606a}.grid{stroke:#d0d7de}"
    ".line{stroke:#0a5cad;stroke-width:3}.dot{fill:#0a5cad}.missed{fill:none;stroke:#0a5cad;stroke-width:2}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}.grid{stroke:#30363d}"
    ".line{stroke:#58a6ff}.dot{fill:#58a6ff}.missed{stroke:#58a6ff}}"
)


def draw(report: CalibrationReport) -> str:
    """The picture as SVG. A ring at the right edge is a median of more than a day."""
    height = _TOP + _ROW * len(report.shifts) + 40
    svg = ElementTree.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_LEFT + _WIDTH + 120} {height}", role="img"
    )
    ElementTree.SubElement(svg, "title").text = "Delays of drift alarms by shift"
    ElementTree.SubElement(svg, "style").text = _STYLE
    said = f"Hours to the alarm at {report.units_per_day:,.0f} units a day: median, and up to the 90th percentile"
    _text(svg, 16, 24, said)
    for hour in _HOURS:
        x = _x(hour)
        ElementTree.SubElement(
            svg, "line", {"class": "grid", "x1": x, "x2": x, "y1": f"{_TOP - 12}", "y2": f"{height - 30}"}
        )
        _text(svg, float(x) - 8, height - 12, f"{hour} h", "small")
    for number, result in enumerate(report.shifts):
        _row(svg, result, _TOP + number * _ROW, report.units_per_day)
    return ElementTree.tostring(svg, encoding="unicode")


def _row(svg: ElementTree.Element, result: ShiftResult, y: int, units_per_day: float) -> None:
    _text(svg, 16, y + 4, f"{result.kind} {result.size}".strip())
    _text(svg, _LEFT + _WIDTH + 16, y + 4, f"{result.seen} of {result.streams}", "small")
    if result.median_delay is None:
        ElementTree.SubElement(svg, "circle", {"class": "missed", "cx": _x(24), "cy": f"{y}", "r": "5"})
        return
    middle = 24 * result.median_delay / units_per_day
    late = 24.0 if result.p90_delay is None else 24 * result.p90_delay / units_per_day
    ends = {"x1": _x(middle), "x2": _x(late), "y1": f"{y}", "y2": f"{y}"}
    ElementTree.SubElement(svg, "line", {"class": "line"} | ends)
    ElementTree.SubElement(svg, "circle", {"class": "dot", "cx": _x(middle), "cy": f"{y}", "r": "5"})


def _x(hours: float) -> str:
    return f"{_LEFT + min(hours, 24.0) / 24.0 * _WIDTH:.1f}"


def _text(svg: ElementTree.Element, x: float, y: float, said: str, name: str = "") -> None:
    ElementTree.SubElement(svg, "text", {"class": name} if name else {}, x=f"{x}", y=f"{y}").text = said
