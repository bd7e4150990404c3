"""A store killed while it writes keeps every batch that it acknowledged, whole, and no half of another.

SIGKILL takes the process, not the machine: what a power cut takes is SQLite's own promise under
`synchronous=FULL`, to which the unit tests hold the connection.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from monitor.store import Store, StoredFinding

BATCH = 40

WRITER = f"""
import sys
import numpy as np
from detectors.finding import Finding, Outcome
from monitor.status import AlertRecord
from monitor.store import ClosedRequest, Store, StoredFinding

path, start = sys.argv[1], int(sys.argv[2])
with Store.open(path) as store:
    batch = start
    while True:
        closed = [ClosedRequest(f"{{batch}}-{{i}}:1", 0) for i in range({BATCH})]
        evidence = {{"said": f"batch {{batch}} " * 40}}
        found = [
            StoredFinding(
                Finding(request.id, 0, "faithfulness", Outcome.SCORED, 1.0, 4.0, evidence=evidence),
                "lexical-1",
                batch,
            )
            for request in closed
        ]
        store.record(closed, found, batch)
        print(batch, flush=True)
        window = np.full((64, 256), batch, dtype=np.float32)
        store.save_state("drift", {{"batch": batch, "window": window, "again": batch}}, batch)
        store.save_alert_states({{"faithfulness": {{"batch": batch}}, "cost": {{"batch": batch}}}}, batch)
        store.record_alert(
            AlertRecord(guardrail="g", slice="all", severity="page", summary="s", fired_at=batch)
        )
        batch += 1
"""


def write_until_killed(path: Path, start: int, after_s: float) -> int:
    """Kill a writer `after_s` seconds after its first acknowledgement; gives the last batch acknowledged."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(start)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    with writer.stdout as acknowledged:
        first = acknowledged.readline()
        time.sleep(after_s)
        writer.send_signal(signal.SIGKILL)
        lines = [first, *acknowledged.read().splitlines()]
    assert writer.wait() == -signal.SIGKILL, "the writer must have been writing when it was killed"
    return int(lines[-1])


def batches(store: Store) -> dict[int, list[StoredFinding]]:
    found: dict[int, list[StoredFinding]] = {}
    for stored in store.findings(0.0):
        found.setdefault(int(stored.at), []).append(stored)
    return found


def test_what_was_acknowledged_is_there_whole_after_every_kill(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    moments = random.Random(1)
    start = 0
    for _ in range(6):
        last = write_until_killed(path, start, moments.uniform(0.0, 0.25))
        with Store.open(path) as store:
            found = batches(store)
            assert set(range(last + 1)) <= set(found) <= set(range(last + 2))
            assert {len(rows) for rows in found.values()} == {BATCH}
            for batch, rows in found.items():
                assert {str(row.finding.evidence["said"]) for row in rows} == {f"batch {batch} " * 40}
                assert all(store.closed_revision(row.finding.trace_id) == 0 for row in rows)
            check_state(store, last, start)
            start = max(found) + 1


def check_state(store: Store, last: int, start: int) -> None:
    """What the writer saved after its last acknowledgement or after the one before, never a mixture.

    A writer killed in its first batch leaves what the writer before it saved.
    """
    earliest = last - 1 if last > start else start - 3
    state = store.load_state("drift")
    if state is None:
        assert earliest < 0  # killed before the very first was saved
        return
    assert state["batch"] in range(earliest, last + 1)
    assert state["again"] == state["batch"]
    assert np.array_equal(state["window"], np.full((64, 256), state["batch"], dtype=np.float32))
    alert_states = store.load_alert_states()
    assert len({saved["batch"] for saved in alert_states.values()}) <= 1
    assert all(saved["batch"] >= earliest for saved in alert_states.values())
    assert all(alert.fired_at >= earliest for alert in store.alerts(1))
