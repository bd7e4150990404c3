"""`groundwatch drift calibrate`: injected shifts on a small sample, what is told of them, samples that do not do."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from detectors.attribution import QueryUnit
from monitor.cli import main
from monitor.drift_tools.shifts import laboratory


def _vectors(count: int, seed: int = 1) -> np.ndarray:
    """Six topics far apart."""
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(6, 12)) * 3.0
    return (places[rng.integers(6, size=count)] + rng.normal(size=(count, 12))).astype(np.float32)


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.npy"
    np.save(path, _vectors(400))
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "groundwatch.yaml"
    path.write_text(
        "query_drift: {smallest_shift: 0.3, slowdown: 9.0, reference_size: 100, window_size: 50}\n"
    )
    return path


def test_large_shifts_are_seen_and_told_in_a_table_as_json_and_as_a_picture(
    sample: Path, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "delays.svg"
    arguments = [
        "drift",
        "calibrate",
        str(sample),
        "--quick",
        "--units-per-day",
        "300",
        "--config",
        str(config),
    ]
    assert main([*arguments, "--json", "--picture", str(picture)]) == 0
    told = json.loads(capsys.readouterr().out)
    by = {(one["kind"], one["size"]): one for one in told["shifts"]}
    novel = by["novel topic", "30%"]
    assert (novel["seen"], novel["streams"], novel["power"]) == (5, 5, 1.0)
    assert novel["median_delay"] < 150
    assert novel["power_lower"] < 1.0 == novel["power_upper"]
    assert by["topic grown", "8 x"]["seen"] == 5
    assert told["smallest"]["novel topic"] in {"5%", "10%", "20%", "30%"}
    assert told["calm_units"] == 600
    assert told["false_alarms"] <= 1
    assert told["false_alarms_upper"] > told["false_alarms_a_period"]
    assert any("other script" in reason for reason in told["skipped"])
    root = ElementTree.parse(picture).getroot()
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == len(told["shifts"])


def test_halves_are_disjoint_and_hold_nothing_of_the_novel_topic() -> None:
    rows = _vectors(300)
    units = [QueryUnit(row[None], (f"q{i}",), ({},)) for i, row in enumerate(rows)]
    made = laboratory(units, np.random.default_rng(3))
    keys = [{unit.tobytes() for unit in side} for side in (made.reference, made.calm.usual)]
    novel = next(shift for shift in made.shifts if shift.kind == "novel topic")
    added = {unit.tobytes() for unit in novel.added}
    assert not keys[0] & keys[1]
    assert not added & (keys[0] | keys[1])
    assert len(keys[0] | keys[1] | added) == 300
    drawn = [
        next(stream).tobytes() for stream in [novel.stream(np.random.default_rng(1))] for _ in range(1000)
    ]
    assert 10 < sum(one in added for one in drawn) < 110, "5 % of a thousand"


def test_units_of_another_script_are_mixed_in_where_there_are_some() -> None:
    rows = _vectors(300)
    texts = ["パスワードを忘れました" if i % 10 == 0 else f"question {i}" for i in range(300)]
    units = [QueryUnit(row[None], (text,), ({},)) for row, text in zip(rows, texts, strict=True)]
    made = laboratory(units, np.random.default_rng(3))
    foreign = next(shift for shift in made.shifts if shift.kind == "other script")
    assert len(foreign.added) == 30
    assert made.skipped == ()


def test_most_of_a_sample_is_never_another_script() -> None:
    rows = _vectors(300)
    texts = [f"question {i}" if i % 10 == 0 else "パスワードを忘れました" for i in range(300)]
    units = [QueryUnit(row[None], (text,), ({},)) for row, text in zip(rows, texts, strict=True)]
    foreign = next(
        one for one in laboratory(units, np.random.default_rng(3)).shifts if one.kind == "other script"
    )
    assert len(foreign.added) == 30


def test_queries_that_are_all_alike_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "alike.npy"
    np.save(path, np.ones((300, 4), dtype=np.float32))
    assert main(["drift", "calibrate", str(path)]) == 2
    assert "all alike" in capsys.readouterr().err


def test_a_reference_that_is_too_small_once_parted_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.npy"
    np.save(path, _vectors(201))
    assert main(["drift", "calibrate", str(path)]) == 2
    assert "are left of 201" in capsys.readouterr().err


def test_a_sample_that_is_too_small_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "few.npy"
    np.save(path, _vectors(50))
    assert main(["drift", "calibrate", str(path)]) == 2
    assert "needs 200 units, half of them as reference: has 50" in capsys.readouterr().err
