"""`groundwatch drift explain`: past alarms out of the state file, as a list, as text, as JSON and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from detectors.explanation import DriftExplanation, DriftFinding, MovedBy, Share
from monitor.cli import main
from monitor.drift_alarms import DriftAlarm, alarms_in, save_alarm
from monitor.store import Store

FINDING = DriftFinding(
    MovedBy.MIX,
    "intent",
    "visa <b>",
    Share(13, 200, 0.065, 0.04, 0.11),
    Share(44, 200, 0.22, 0.17, 0.28),
    1e-5,
    4e-4,
    ("do I need a visa", "visa for Japan"),
)
ALARM = DriftAlarm(
    id="drift-20261201-000000",
    encoder="minilm-1",
    detectors=("novelty",),
    began_at=1796083200.0,
    explained_at=1796083200.0,
    explanation=DriftExplanation((FINDING,), 42, 500, 100, 0.1),
    reference=((0.0, 0.0), (1.0, 1.0)),
    current=((3.0, 2.0),),
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "state.sqlite") as store:
        save_alarm(store, ALARM, 0.0)
        later = {"id": "drift-20261202-000000", "began_at": ALARM.began_at + 86_400, "explanation": None}
        save_alarm(store, ALARM.model_copy(update=later), 0.0)
    path = tmp_path / "groundwatch.yaml"
    path.write_text(f"store:\n  path: {tmp_path / 'state.sqlite'}\n")
    return path


def test_an_alarm_comes_back_as_it_was(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.open(config.parent / "state.sqlite") as store:
        assert alarms_in(store)[ALARM.id] == ALARM
    assert main(["drift", "explain", ALARM.id, "--config", str(config), "--json"]) == 0
    assert DriftAlarm.model_validate_json(capsys.readouterr().out) == ALARM


def test_the_list_and_one_alarm_are_told(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drift", "explain", "--config", str(config)]) == 0
    listed = capsys.readouterr().out
    assert listed.index("drift-20261201-000000") < listed.index("drift-20261202-000000")
    assert main(["drift", "explain", ALARM.id, "--config", str(config)]) == 0
    told = capsys.readouterr().out
    assert "intent = visa <b> grew from 6.5 % to 22 % of units (q < 0.001)" in told
    assert '"visa for Japan"' in told
    assert "1 of 42 slices and topics" in told
    assert main(["drift", "explain", "last", "--config", str(config)]) == 0
    assert "too few units were kept" in capsys.readouterr().out


def test_the_picture_is_well_formed_and_holds_units_and_shares(config: Path, tmp_path: Path) -> None:
    picture = tmp_path / "alarm.svg"
    assert main(["drift", "explain", ALARM.id, "--config", str(config), "--picture", str(picture)]) == 0
    root = ElementTree.parse(picture).getroot()
    classes = [one.get("class") for one in root.iter("{http://www.w3.org/2000/svg}circle")]
    assert classes == ["before", "before", "now"]
    assert any("visa <b>" in (one.text or "") for one in root.iter())


def test_what_is_not_there_is_said(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drift", "explain", "drift-1", "--config", str(config)]) == 1
    assert "no drift alarm drift-1; the last is drift-20261202-000000" in capsys.readouterr().err
    other = tmp_path / "other.yaml"
    other.write_text(f"store:\n  path: {tmp_path / 'none.sqlite'}\n")
    assert main(["drift", "explain", "--config", str(other)]) == 2
    assert "there is no state file" in capsys.readouterr().err
    assert not (tmp_path / "none.sqlite").exists()


def test_only_the_last_hundred_are_kept_and_others_versions_do_not_harm(config: Path) -> None:
    with Store.open(config.parent / "state.sqlite") as store:
        store.save_state("drift_alarm/drift-1", {"alarm": json.dumps({"id": 3})}, 0.0)
        assert len(alarms_in(store)) == 2
        for number in range(120):
            save_alarm(store, ALARM.model_copy(update={"id": f"drift-2027{number:04d}"}), 0.0)
        assert len(store.state_names("drift_alarm/")) == 100
        assert "drift-20270119" in alarms_in(store)
