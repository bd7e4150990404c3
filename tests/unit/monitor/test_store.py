"""The store: what is kept, what supersedes what, what the numbers and texts survive."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.finding import Finding, Outcome
from monitor.status import AlertRecord, Marker
from monitor.store import (
    ClosedRequest,
    ForeignFileError,
    Recorded,
    SchemaTooNewError,
    Store,
    StoreDamagedError,
    StoredFinding,
    StoreError,
)
from monitor.store.encoding import EVIDENCE_CAP, clean_text, decode_state, encode_evidence, encode_state
from monitor.store.schema import MIGRATIONS


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


def scored(
    request: str, revision: int = 0, value: float = 0.0, weight: float = 1.0, **more: object
) -> Finding:
    check = str(more.pop("check", "faithfulness"))
    return Finding(request, revision, check, Outcome.SCORED, value, weight, **more)  # type: ignore[arg-type]


def keep(store: Store, *findings: Finding, at: float = 1.0, scorer: str = "lexical-1") -> Recorded:
    closed = [ClosedRequest(finding.trace_id, finding.revision) for finding in findings]
    return store.record(closed, [StoredFinding(finding, scorer, at) for finding in findings], at)


def kept(store: Store) -> list[Finding]:
    return [stored.finding for stored in store.findings(0.0)]


def test_findings_come_back_whole_and_oldest_first(store: Store) -> None:
    evidence = {"sentence": "It opens at nine.", "scores": [0.25, 0.5]}
    first = scored("a:1", value=1.0, weight=20.0, slices={"tenant": "acme"}, evidence=evidence)
    second = Finding("b:1", 0, "faithfulness", Outcome.NOT_SCORABLE, reason="docs_unknown")
    keep(store, second, at=20.0)
    keep(store, first, at=10.0, scorer="hhem-2.1-open")
    assert list(store.findings(0.0)) == [
        StoredFinding(first, "hhem-2.1-open", 10.0),
        StoredFinding(second, "lexical-1", 20.0),
    ]
    assert [stored.finding for stored in store.findings(20.0)] == [second]


def test_findings_of_one_check_alone(store: Store) -> None:
    keep(store, scored("a:1"), scored("a:1", check="filter_exclusion"))
    assert [stored.finding.check for stored in store.findings(0.0, "filter_exclusion")] == [
        "filter_exclusion"
    ]


def test_findings_beyond_a_page_come_once_each_and_in_order(store: Store) -> None:
    for second in range(5):  # 2,500 rows, 500 to a time: page borders fall inside equal times
        keep(store, *(scored(f"{second}-{i}:1") for i in range(500)), at=float(second))
    ids = [stored.finding.trace_id for stored in store.findings(0.0)]
    assert ids == [f"{second}-{i}:1" for second in range(5) for i in range(500)]


def test_reading_a_page_lets_writers_in(store: Store) -> None:
    keep(store, *(scored(f"{i}:1") for i in range(1_500)))
    reading = store.findings(0.0)
    next(reading)
    keep(store, scored("late:1"), at=2.0)  # would wait for ever if the iterator held the lock
    assert [stored.finding.trace_id for stored in reading][-1] == "late:1"


def test_reading_again_changes_nothing(store: Store) -> None:
    finding = scored("a:1", value=1.0)
    assert keep(store, finding, at=1.0) == Recorded(stored=1, ignored=0, withdrawn=0, not_finite=0)
    assert keep(store, scored("a:1", value=0.0), at=2.0) == Recorded(0, ignored=1, withdrawn=0, not_finite=0)
    assert list(store.findings(0.0)) == [StoredFinding(finding, "lexical-1", 1.0)]


def test_a_higher_revision_takes_the_place_of_a_lower_one(store: Store) -> None:
    keep(store, scored("a:1", weight=20.0), at=1.0)
    keep(store, scored("a:1", revision=1, value=1.0, weight=1.0), at=5.0, scorer="hhem-2.1-open")
    assert list(store.findings(0.0)) == [
        StoredFinding(scored("a:1", revision=1, value=1.0), "hhem-2.1-open", 5.0)
    ]
    assert keep(store, scored("a:1"), at=6.0).ignored == 1
    assert kept(store)[0].revision == 1


def test_a_revision_that_was_not_selected_withdraws_the_earlier_finding(store: Store) -> None:
    keep(store, scored("a:1"), scored("a:1", check="latency"), scored("b:1"))
    revised = [StoredFinding(scored("a:1", revision=1, check="latency"), "census", 2.0)]
    assert store.record([ClosedRequest("a:1", 1)], revised, 2.0) == Recorded(1, 0, withdrawn=1, not_finite=0)
    assert [(item.trace_id, item.check) for item in kept(store)] == [
        ("b:1", "faithfulness"),
        ("a:1", "latency"),
    ]


def test_a_slow_finding_of_a_revision_already_replaced_is_ignored(store: Store) -> None:
    store.record([ClosedRequest("a:1", 1)], [], 1.0)
    assert store.record([], [StoredFinding(scored("a:1"), "lexical-1", 2.0)], 2.0).ignored == 1
    assert kept(store) == []


def test_tombstones_keep_the_highest_revision(store: Store) -> None:
    assert store.closed_revision("a:1") is None
    store.record([ClosedRequest("a:1", 2)], [], 1.0)
    store.record([ClosedRequest("a:1", 1)], [], 2.0)
    assert store.closed_revision("a:1") == 2


def test_counts_by_check_and_outcome(store: Store) -> None:
    refused = Finding("c:1", 0, "faithfulness", Outcome.NOT_APPLICABLE, reason="refusal")
    keep(store, scored("a:1"), scored("b:1"), refused, scored("a:1", check="latency", value=0.4))
    assert store.finding_counts() == {
        ("faithfulness", Outcome.SCORED): 2,
        ("faithfulness", Outcome.NOT_APPLICABLE): 1,
        ("latency", Outcome.SCORED): 1,
    }


@pytest.mark.parametrize(
    "finding",
    [
        scored("a:1", value=math.nan),
        scored("a:1", value=math.inf),
        scored("a:1", value=-math.inf),
        scored("a:1", weight=math.inf),
    ],
)
def test_a_number_that_is_none_makes_an_invalid_finding_and_costs_no_other(
    store: Store, finding: Finding
) -> None:
    recorded = keep(store, finding, scored("b:1"))
    assert (recorded.stored, recorded.not_finite) == (2, 1)
    broken = kept(store)[0]
    assert (broken.outcome, broken.reason, broken.value) == (Outcome.INVALID, "not_finite", None)
    assert math.isfinite(broken.weight)


def test_the_schema_itself_refuses_a_score_without_a_value(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    Store.open(path).close()
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        connection.execute(
            "INSERT INTO finding VALUES (1, 'a:1', 'c', 0, 's', 'scored', ?, 1, '', '{}', '{}', 0)",
            (math.nan,),
        )
    connection.close()


NASTY = "nul \x00 high \ud800 low \udc00 astral \U0001f600 bom \ufeff"


def test_hostile_text_survives_in_json_and_is_cleaned_by_rule_elsewhere(store: Store) -> None:
    finding = scored("id\x00\ud800", slices={"tenant": NASTY}, evidence={"said": NASTY, NASTY: "key"})
    keep(store, finding)
    back = kept(store)[0]
    assert back.trace_id == "id\x00\ufffd"
    assert back.slices == {"tenant": NASTY}
    assert back.evidence == {"said": NASTY, NASTY: "key"}
    assert store.closed_revision("id\x00\ud800") == 0
    store.add_marker(Marker(time=1.0, kind="prompt", service=NASTY, before=NASTY, after=NASTY))
    assert store.markers(1)[0].after == clean_text(NASTY)
    store.record_alert(AlertRecord(guardrail="g", slice=NASTY, severity="page", summary=NASTY, fired_at=1.0))
    assert store.alerts(1)[0].summary == clean_text(NASTY)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_proper_text_is_never_changed(text: str) -> None:
    assert clean_text(text) == text


@given(st.text(st.characters(categories=["Cs", "Lu", "Cc"])))
def test_any_text_becomes_utf8_of_the_same_reading(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode()
    assert clean_text(cleaned) == cleaned


def test_evidence_is_strict_json_of_plain_values() -> None:
    evidence = {
        "nan": math.nan,
        "infinite": [math.inf, -math.inf],
        "array": np.array([1.5, math.nan]),
        "scalar": np.float32(0.5),
        "outcome": Outcome.SCORED,
        "marker": Marker(time=1.0, kind="model", service="s", before=None, after="b"),
        "path": Path("a/b"),
        "pair": (1, True),
    }
    assert encode_evidence(evidence) == (
        '{"nan":"NaN","infinite":["Infinity","-Infinity"],"array":[1.5,"NaN"],"scalar":0.5,"outcome":"scored",'
        '"marker":{"time":1.0,"kind":"model","service":"s","before":null,"after":"b"},"path":"a/b","pair":[1,true]}'
    )


def test_evidence_that_is_too_long_is_cut_where_it_is_long(store: Store) -> None:
    keep(store, scored("a:1", evidence={"clause": "locale = en-US", "context": "word " * 10_000}))
    evidence = kept(store)[0].evidence
    assert evidence["clause"] == "locale = en-US"
    assert str(evidence["context"]).startswith("word word")
    assert str(evidence["context"]).endswith("…")


def test_evidence_that_no_cut_saves_leaves_its_keys() -> None:
    encoded = encode_evidence({"numbers": list(range(100_000)), "clause": "x"})
    assert encoded == '{"cut": ["numbers", "clause"]}'


def test_evidence_that_holds_itself_ends() -> None:
    loop: dict[str, object] = {"a": 1}
    loop["self"] = loop
    assert r'"self":"\u2026"' in encode_evidence(loop)


@given(st.dictionaries(st.text(max_size=40), st.text(max_size=8_000), max_size=40))
def test_evidence_never_exceeds_its_cap(evidence: dict[str, str]) -> None:
    assert len(encode_evidence(evidence)) <= EVIDENCE_CAP


def same(left: object, right: object) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    return type(left) is type(right) and repr(left) == repr(right)


def test_a_state_comes_back_to_the_bit(store: Store) -> None:
    rng = np.random.default_rng(7)
    odd = rng.normal(size=(3, 4, 5)).astype(np.float32)
    odd[0, 0] = [math.nan, math.inf, -math.inf, -0.0, np.finfo(np.float32).smallest_subnormal]
    state = {
        "window": odd,
        "fortran": np.asfortranarray(rng.normal(size=(4, 6))),
        "strided": rng.integers(0, 9, (8, 8))[::2, ::3],
        "empty": np.zeros((0, 16)),
        "zero-dimensional": np.array(2.5),
        "labels": np.array(["a", "ü", "\U0001f600"]),
        "mask": np.array([True, False]),
        "big-endian": np.arange(3, dtype=">i4"),
        "pi": math.pi,
        "nan": math.nan,
        "minus zero": -0.0,
        "count": 2**80,
        "flag": True,
        "text": NASTY,
    }
    store.save_state("query_drift/hashed-ngram-1", state, 1.0)
    loaded = store.load_state("query_drift/hashed-ngram-1")
    assert loaded is not None
    assert list(loaded) == list(state)
    assert [key for key in state if not same(state[key], loaded[key])] == []


@given(
    st.dictionaries(st.text(max_size=5), st.floats() | st.integers() | st.text() | st.booleans(), max_size=5)
)
def test_scalars_of_a_state_come_back_as_they_were(state: dict[str, float | int | str]) -> None:
    assert repr(decode_state(encode_state(state))) == repr(state)


def test_a_numpy_number_comes_back_as_pythons(store: Store) -> None:
    store.save_state("s", {"n": np.int64(3), "x": np.float32(0.1)}, 1.0)  # type: ignore[dict-item]
    assert store.load_state("s") == {"n": 3, "x": float(np.float32(0.1))}


@pytest.mark.parametrize(
    "value", [np.array([object()], dtype=object), [1, 2], None, np.ma.masked_array([1.0])]
)
def test_a_state_of_other_types_is_refused_and_the_old_one_stays(store: Store, value: object) -> None:
    store.save_state("s", {"n": 1}, 1.0)
    with pytest.raises(TypeError, match="state entry 'bad'"):
        store.save_state("s", {"n": 2, "bad": value}, 2.0)  # type: ignore[dict-item]
    assert store.load_state("s") == {"n": 1}


def test_a_state_takes_the_place_of_the_one_before(store: Store) -> None:
    store.save_state("a/1", {"x": 1, "y": 2}, 1.0)
    store.save_state("a/1", {"x": 3}, 2.0)
    store.save_state("a/2", {}, 2.0)
    store.save_state("b", {"x": 4}, 2.0)
    assert store.load_state("a/1") == {"x": 3}
    assert store.load_state("a/2") == {}
    assert store.load_state("c") is None
    assert store.state_names("a/") == ("a/1", "a/2")


def test_alert_states_are_kept_as_a_whole(store: Store) -> None:
    assert store.load_alert_states() == {}
    store.save_alert_states(
        {"faithfulness": {"state": "firing", "since": 12.5}, "cost": {"worst": math.inf}}, 1.0
    )
    store.save_alert_states({"faithfulness": {"state": "ok", "since": 13.0, "note": None}}, 2.0)
    assert store.load_alert_states() == {"faithfulness": {"state": "ok", "since": 13.0, "note": None}}


def test_an_alert_is_told_once_and_then_resolved(store: Store) -> None:
    firing = AlertRecord(
        guardrail="faithfulness", slice="all", severity="page", summary="4.1 %", fired_at=10.0
    )
    other = firing.model_copy(update={"fired_at": 20.0})
    for alert in (firing, other, firing.model_copy(update={"resolved_at": 30.0})):
        store.record_alert(alert)
    assert store.alerts(10) == (other, firing.model_copy(update={"resolved_at": 30.0}))
    assert store.alerts(1) == (other,)


def test_a_marker_is_kept_once(store: Store) -> None:
    first = Marker(time=1.0, kind="model", service="help", before=None, after="m1")
    second = Marker(time=2.0, kind="model", service="help", before="m1", after="m2")
    assert [store.add_marker(marker) for marker in (first, first, second)] == [True, False, True]
    assert store.add_marker(second.model_copy(update={"time": 9.0})) is False
    assert store.add_marker(second.model_copy(update={"service": "shop"})) is True
    assert [marker.time for marker in store.markers(2)] == [2.0, 2.0]
    assert store.markers(9)[-1] == first


def test_pruning_is_bounded_and_ends(store: Store) -> None:
    for start in range(0, 12_000, 4_000):
        keep(store, *(scored(f"{i}:1") for i in range(start, start + 4_000)), at=float(start))
    assert store.prune(8_000.0) == 10_000  # 5,000 findings and 5,000 tombstones
    assert store.prune(8_000.0) == 6_000
    assert store.prune(8_000.0) == 0
    assert {finding.trace_id for finding in kept(store)} == {f"{i}:1" for i in range(8_000, 12_000)}
    assert (store.closed_revision("7999:1"), store.closed_revision("8000:1")) == (None, 0)


def test_pruning_erases_the_text_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with Store.open(path) as store:
        keep(store, scored("a:1", evidence={"said": "a-secret-of-the-user"}))
    assert b"a-secret-of-the-user" in path.read_bytes()
    with Store.open(path) as store:
        store.prune(2.0)
    assert b"a-secret-of-the-user" not in path.read_bytes()


def test_what_was_kept_survives_closing(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with Store.open(path) as store:
        keep(store, scored("a:1", value=1.0))
        store.save_state("s", {"x": np.arange(3)}, 1.0)
        store.save_alert_states({"g": {"state": "firing"}}, 1.0)
    with Store.open(str(path)) as store:
        assert kept(store) == [scored("a:1", value=1.0)]
        assert store.load_alert_states() == {"g": {"state": "firing"}}
        assert store.state_names() == ("s",)


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with Store.open(path) as store:
        keep(store, scored("a:1"))
        modes = {item.name: item.stat().st_mode & 0o777 for item in tmp_path.iterdir()}
    assert modes == {"state.sqlite": 0o600, "state.sqlite-wal": 0o600, "state.sqlite-shm": 0o600}


def test_a_commit_is_on_disk_before_the_call_returns(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state.sqlite") as store, store._database.reading() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def write(store: Store, number: int) -> None:
        try:
            for step in range(20):
                keep(store, *(scored(f"{number}-{step}-{i}:1") for i in range(5)), at=float(step))
                store.save_state(f"t/{number}", {"step": step, "window": np.full(50, step)}, float(step))
                store.save_alert_states({str(number): {"step": step}}, float(step))
                assert sum(store.finding_counts().values()) >= 5 * (step + 1)
        except BaseException as error:
            failures.append(error)

    with Store.open(tmp_path / "state.sqlite") as store:
        threads = [threading.Thread(target=write, args=(store, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(kept(store)) == 4 * 20 * 5
        assert [store.load_state(name)["step"] for name in store.state_names("t/")] == [19] * 4  # type: ignore[index]


def test_closing_twice_is_harmless_and_use_after_it_is_a_clear_error() -> None:
    store = Store.open(":memory:")
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.closed_revision("a:1")
    with pytest.raises(StoreError, match="closed"):
        keep(store, scored("a:1"))


def test_a_failed_call_keeps_nothing_and_the_next_one_works(store: Store) -> None:
    class NoText(str):
        def isascii(self) -> bool:
            raise RuntimeError("no text")

    with pytest.raises(RuntimeError):
        keep(store, scored("a:1"), scored(NoText("b:1")))
    with pytest.raises(StoreError, match="constraint"):
        store.record([ClosedRequest("a:1", None)], [], 1.0)  # type: ignore[arg-type]
    assert (kept(store), store.closed_revision("a:1")) == ([], None)
    assert keep(store, scored("a:1")).stored == 1


VERSION_1 = """
CREATE TABLE request (id TEXT PRIMARY KEY, revision INTEGER NOT NULL, closed_at REAL NOT NULL)
    WITHOUT ROWID;
CREATE INDEX request_closed_at ON request (closed_at);
CREATE TABLE finding (id INTEGER PRIMARY KEY, request_id TEXT NOT NULL, check_name TEXT NOT NULL,
    revision INTEGER NOT NULL, scorer TEXT NOT NULL, outcome TEXT NOT NULL, value REAL,
    weight REAL NOT NULL CHECK (weight >= 1), reason TEXT NOT NULL, slices TEXT NOT NULL,
    evidence TEXT NOT NULL, at REAL NOT NULL, UNIQUE (request_id, check_name),
    CHECK ((value IS NOT NULL) = (outcome = 'scored')));
CREATE INDEX finding_at ON finding (at);
CREATE TABLE state (name TEXT PRIMARY KEY, saved_at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE state_entry (name TEXT NOT NULL REFERENCES state (name) ON DELETE CASCADE, key TEXT NOT NULL,
    kind TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (name, key));
INSERT INTO request VALUES ('a:1', 1, 5.0);
INSERT INTO finding VALUES (1, 'a:1', 'faithfulness', 1, 'lexical-1', 'scored', 1.0, 20.0, '',
    '{"tenant":"acme"}', '{"said":"x"}', 5.0);
INSERT INTO state VALUES ('s', 5.0);
INSERT INTO state_entry VALUES ('s', 'n', 'int', X'3431');
PRAGMA application_id = 0x47574348;
PRAGMA user_version = 1;
"""
"""A file as version 1 left it, written down here so that an edit of a released step is found."""


def columns(path: Path) -> dict[str, list[tuple[object, ...]]]:
    connection = sqlite3.connect(path)
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    ).fetchall()
    found = {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for (name,) in tables}
    connection.close()
    return found


def test_a_file_of_version_1_is_brought_to_the_newest_and_loses_nothing(tmp_path: Path) -> None:
    path, fresh = tmp_path / "old.sqlite", tmp_path / "new.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1)
    connection.close()
    with Store.open(path) as store:
        finding = scored("a:1", 1, 1.0, 20.0, slices={"tenant": "acme"}, evidence={"said": "x"})
        assert list(store.findings(0.0)) == [StoredFinding(finding, "lexical-1", 5.0)]
        assert store.closed_revision("a:1") == 1
        assert store.load_state("s") == {"n": 41}
        assert store.add_marker(Marker(time=1.0, kind="model", service="s", before=None, after="b"))
    Store.open(fresh).close()
    assert columns(path) == columns(fresh)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    connection.close()


def test_a_step_that_fails_leaves_the_version_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.sqlite"
    with monkeypatch.context() as patch:
        broken = (MIGRATIONS[0], ("CREATE TABLE half (id)", "CREATE NONSENSE"))
        patch.setattr("monitor.store.schema.MIGRATIONS", broken)
        with pytest.raises(StoreError, match="NONSENSE"):
            Store.open(path)
    assert "half" not in columns(path)
    with Store.open(path) as store:
        assert keep(store, scored("a:1")).stored == 1


def test_a_file_of_a_later_version_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    Store.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(SchemaTooNewError, match=rf"state\.sqlite.*version {len(MIGRATIONS) + 1}") as caught:
        Store.open(path)
    assert (caught.value.found, caught.value.known) == (len(MIGRATIONS) + 1, len(MIGRATIONS))


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (id)")
    connection.close()
    with pytest.raises(ForeignFileError, match=r"other\.sqlite"):
        Store.open(path)
    assert list(columns(path)) == ["theirs"]


def filled(path: Path) -> Path:
    with Store.open(path) as store:
        keep(store, *(scored(f"{i}:1", evidence={"said": "word " * 50}) for i in range(2_000)))
        store.save_state("s", {"window": np.zeros((64, 64))}, 1.0)
    return path


def test_a_file_that_is_no_database_is_named_with_its_remedy(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    path.write_bytes(b"this was once a state file" * 400)
    with pytest.raises(StoreDamagedError, match=r"state\.sqlite.*move the file"):
        Store.open(path)


def test_overwritten_pages_are_found_when_the_file_is_opened(tmp_path: Path) -> None:
    path = filled(tmp_path / "state.sqlite")
    content = bytearray(path.read_bytes())
    content[8 * 4096 : 40 * 4096] = b"\xa5" * (32 * 4096)
    path.write_bytes(content)
    with pytest.raises(StoreDamagedError, match=r"state\.sqlite.*damaged"):
        Store.open(path)


def test_a_truncated_file_is_found_when_it_is_opened(tmp_path: Path) -> None:
    path = filled(tmp_path / "state.sqlite")
    path.write_bytes(path.read_bytes()[: 20 * 4096 + 100])
    with pytest.raises(StoreDamagedError, match=r"state\.sqlite"):
        Store.open(path)


@pytest.mark.parametrize(
    ("kind", "value"), [("array", b"\x93NUMPY\x01\x00"), ("float", b"1"), ("later", b""), ("array", b"")]
)
def test_a_damaged_state_entry_is_named(tmp_path: Path, kind: str, value: bytes) -> None:
    path = filled(tmp_path / "state.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE state_entry SET kind = ?, value = ?", (kind, value))
    connection.commit()
    connection.close()
    with Store.open(path) as store, pytest.raises(StoreDamagedError, match=r"state\.sqlite.*state 's'"):
        store.load_state("s")


def test_a_pickle_in_a_state_entry_is_never_run(tmp_path: Path) -> None:
    path = filled(tmp_path / "state.sqlite")
    evil = tmp_path / "evil.npy"
    np.save(evil, np.array([print], dtype=object), allow_pickle=True)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE state_entry SET value = ?", (evil.read_bytes(),))
    connection.commit()
    connection.close()
    with Store.open(path) as store, pytest.raises(StoreDamagedError, match="allow_pickle"):
        store.load_state("s")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"absent/state\.sqlite.*folder must exist"):
        Store.open(tmp_path / "absent" / "state.sqlite")


def test_a_file_that_another_process_keeps_locked_is_an_error_and_not_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.store.database._BUSY_S", 0.05)
    path = tmp_path / "state.sqlite"
    with Store.open(path) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            keep(store, scored("a:1"))
        other.execute("ROLLBACK")
        other.close()
        assert keep(store, scored("a:1")).stored == 1


def test_a_full_disk_keeps_nothing_of_the_call(tmp_path: Path) -> None:
    with Store.open(tmp_path / "state.sqlite") as store:
        keep(store, scored("a:1"))
        with store._database.reading() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages + 4}")
        with pytest.raises(StoreError, match="full"):
            keep(store, *(scored(f"{i}:1", evidence={"said": "word " * 500}) for i in range(500)))
        assert [finding.trace_id for finding in kept(store)] == ["a:1"]
        assert store.closed_revision("7:1") is None
