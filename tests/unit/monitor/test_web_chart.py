"""The charts: what is drawn where, what is left out, and what they say to those who do not see them."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from monitor.status import Point
from monitor.web.axes import Window, fitting_scale
from monitor.web.chart import COLUMNS, Chart, Mark, draw

WINDOW = Window(1_700_000_000.0, 1_700_000_600.0)


def point(second: float, estimate: float | None, half: float = 0.01) -> Point:
    if estimate is None:
        return Point(time=WINDOW.start + second)
    return Point(time=WINDOW.start + second, estimate=estimate, lower=estimate - half, upper=estimate + half)


def drawn(*points: Point, kind: str = "rate", **rest: object) -> ElementTree.Element:
    return ElementTree.fromstring(draw(Chart("Rate", points, kind, "1", **rest), WINDOW))  # type: ignore[arg-type]


def found(svg: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [element for element in svg.iter() if name in element.get("class", "").split()]


def test_a_point_without_evidence_parts_the_line_and_the_band() -> None:
    svg = drawn(point(0, 0.1), point(10, 0.1), point(20, None), point(30, 0.1), point(40, 0.1))
    assert len(found(svg, "estimate")) == 2
    assert len(found(svg, "band")) == 2


def test_a_long_silence_parts_the_line_too() -> None:
    steady = [point(10 * index, 0.1) for index in range(8)]
    assert len(found(drawn(*steady), "estimate")) == 1
    assert len(found(drawn(*steady, point(400, 0.1), point(410, 0.1)), "estimate")) == 2


def test_a_single_point_is_a_dot_not_nothing() -> None:
    (line,) = found(drawn(point(300, 0.1)), "estimate")
    assert re.fullmatch(r"M500\.0 \d+\.\dh0\.1", line.get("d", ""))


@pytest.mark.parametrize("points", [(), (point(0, None), point(10, None)), (point(0, math.nan, math.inf),)])
def test_without_evidence_it_says_so_and_draws_no_line(points: tuple[Point, ...]) -> None:
    svg = drawn(*points, objective=0.05)
    assert [text.text for text in found(svg, "empty")] == ["no evidence yet"]
    assert not found(svg, "estimate")
    assert not found(svg, "latest")
    assert "no evidence" in svg.get("aria-label", "")
    assert len(found(svg, "objective")) == 1


def test_higher_values_stand_higher_and_later_ones_further_right() -> None:
    (line,) = found(drawn(point(60, 0.02), point(540, 0.08)), "estimate")
    match = re.fullmatch(r"M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)", line.get("d", ""))
    assert match is not None
    x0, y0, x1, y1 = map(float, match.groups())
    assert (x0, x1) == (100.0, 900.0)
    assert y1 < y0


def test_the_objective_stands_at_its_value_with_its_unit() -> None:
    svg = drawn(point(0, 0.02), point(10, 0.05), objective=0.05)
    (line,) = found(svg, "objective")
    (latest,) = found(svg, "latest")
    assert line.get("y1") == line.get("y2") == latest.get("cy")
    assert [text.text for text in found(svg, "objective-label")] == ["at most 5\u202f%"]


def test_firing_spans_share_the_time_axis_and_are_cut_at_its_ends() -> None:
    spans = [(WINDOW.start - 50, WINDOW.start + 60), (WINDOW.start + 300, WINDOW.end + 99), (0.0, 10.0)]
    svg = drawn(point(0, 0.1), spans=spans)
    places = [(span.get("x"), span.get("width")) for span in found(svg, "firing-span")]
    assert places == [("0.00%", "10.00%"), ("50.00%", "50.00%")]
    assert [word.text for word in found(svg, "firing-word")] == ["firing"]


def test_changes_close_together_share_a_flag_but_each_has_its_line() -> None:
    times = (60, 300, 304, 9999)
    marks = [Mark(WINDOW.start + second, str(index)) for index, second in enumerate(times, 1)]
    svg = drawn(point(0, 0.1), marks=marks)
    assert len(found(svg, "change")) == 3
    assert [flag.text for flag in found(svg, "change-flag")] == ["1", "2–3"]


def test_a_long_history_is_thinned_to_its_worst_points() -> None:
    peak = 2345
    points = [point(600 * index / 6000, 0.5 if index == peak else 0.1) for index in range(6000)]
    (line,) = found(drawn(*points), "estimate")
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", line.get("d", ""))]
    assert len(heights) == COLUMNS
    assert min(heights) < sorted(heights)[1] - 20


def test_an_alarm_is_a_step_between_two_words() -> None:
    points = [
        Point(time=WINDOW.start + second, estimate=on) for second, on in ((0, 0.0), (300, 1.0), (600, 1.0))
    ]
    svg = drawn(*points, kind="alarm")
    assert [text.text for text in found(svg, "y-label")] == ["quiet", "alarm"]
    (line,) = found(svg, "estimate")
    assert re.fullmatch(r"M0\.0 \d+\.0H500\.0V18\.0H1000\.0V18\.0", line.get("d", ""))


def test_labels_are_escaped_and_no_style_is_inline() -> None:
    hostile = '"><script>alert(1)</script>'
    text = str(
        draw(Chart(hostile, [point(0, 0.1)], "rate", "1", marks=[Mark(WINDOW.start + 9, hostile)]), WINDOW)
    )
    assert "<script" not in text
    assert " style=" not in text
    assert ElementTree.fromstring(text).get("aria-label", "").startswith(hostile)


def test_the_first_wide_intervals_do_not_press_the_rest_flat() -> None:
    early = [Point(time=float(index), estimate=0.02, lower=0.0, upper=0.9) for index in range(3)]
    later = [Point(time=3.0 + index, estimate=0.02, lower=0.01, upper=0.04) for index in range(60)]
    assert fitting_scale([*early, *later], "rate", None).high <= 0.05
    assert fitting_scale(early, "rate", None).high == pytest.approx(1.0)


def test_evidence_below_zero_is_on_the_scale() -> None:
    scale = fitting_scale([Point(time=0.0, estimate=-1.4), Point(time=1.0, estimate=0.5)], "evidence", 3.0)
    assert scale.low <= -1.4
    assert scale.high >= 3.0
    assert 0.0 in [round(tick, 9) for tick in scale.ticks()]


@pytest.mark.parametrize("length", [60, 61, 90, 600, 3600, 86400, 7 * 86400, 90 * 86400])
def test_there_are_few_time_labels_and_all_lie_within(length: int) -> None:
    window = Window(1_700_000_123.0, 1_700_000_123.0 + length)
    ticks = list(window.ticks())
    assert 1 <= len(ticks) <= 5
    assert all(0 <= window.part(time) <= 1 for time, _ in ticks)
    assert len({label for _, label in ticks}) == len(ticks)
