"""What survives a restart and a kill: findings with their weights, tombstones, windows, alerts, markers.

One SQLite file, one owner, every call one transaction. Text in JSON columns (slices, evidence, alert states)
survives to the character; in plain columns NUL survives and a lone surrogate becomes U+FFFD.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from detectors.finding import Outcome
from detectors.verdict import State
from monitor.status import AlertRecord, Marker
from monitor.store.database import Database
from monitor.store.encoding import Value, clean_text, decode_state, encode_state, to_json
from monitor.store.errors import ForeignFileError, SchemaTooNewError, StoreDamagedError, StoreError
from monitor.store.ownership import Ownership
from monitor.store.records import (
    ALERT_COLUMNS,
    FINDING_COLUMNS,
    MARKER_COLUMNS,
    ClosedRequest,
    Recorded,
    StoredFinding,
    alert_of,
    alert_row,
    finding_of,
    finding_row,
    is_finite,
    marker_of,
    marker_row,
)

__all__ = [
    "ClosedRequest",
    "ForeignFileError",
    "Ownership",
    "Recorded",
    "SchemaTooNewError",
    "Store",
    "StoreDamagedError",
    "StoreError",
    "StoreSettings",
    "StoredFinding",
]

_PAGE = 1_000
_PRUNE_ROWS = 5_000


class StoreSettings(BaseModel):
    """Where what must survive a restart is kept, and for how long."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path = Field(
        Path("groundwatch.sqlite"),
        description="The state file; its folder must exist, be writable and keep its content over restarts.",
    )
    retention_days: float = Field(
        30.0,
        gt=0,
        allow_inf_nan=False,
        description="Days for which findings, their evidence and closed requests are kept, then erased.",
    )
    save_s: float = Field(
        30.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds between saves of drift windows and alert states.",
    )


class Store:
    """The state file, for any thread. A `StoreError` means that nothing of the call was kept.

    >>> import numpy as np
    >>> with Store.open(":memory:") as store:
    ...     store.save_state("drift", {"window": np.arange(3.0), "seen": 41}, at=0.0)
    ...     store.load_state("drift")
    {'window': array([0., 1., 2.]), 'seen': 41}
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open the file, made if absent (its folder must exist), and bring its schema up to date.

        `":memory:"` gives a store that lives as long as the process.

        Raises:
            StoreDamagedError: its pages do not hold together.
            SchemaTooNewError: a later version wrote it.
            ForeignFileError: it is another program's database.
            StoreError: it cannot be opened for writing.
        """
        return cls(Database(path))

    def close(self) -> None:
        """Let go of the file; closing twice is harmless."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def record(
        self, requests: Sequence[ClosedRequest], findings: Sequence[StoredFinding], at: float
    ) -> Recorded:
        """Leave tombstones of requests that closed at `at` and keep what was found, in one transaction.

        Idempotent: a finding is keyed by request and check, a higher revision takes the place of a lower one,
        an equal or lower one is ignored. A request that closes at a higher revision also withdraws its
        findings of lower revisions: the sampler decided anew, and what it did not select this time must not
        stay in a rate at its old weight.
        """
        closed = [(clean_text(request.id), request.revision, at) for request in requests]
        rows = [finding_row(judged) for judged in findings]
        with self._database.transaction() as connection:
            connection.executemany(_LEAVE_TOMBSTONE, closed)
            stored = connection.executemany(_KEEP_FINDING, rows).rowcount if rows else 0
            revised = [row[:2] for row in closed if row[1] > 0]
            withdrawn = connection.executemany(_WITHDRAW, revised).rowcount if revised else 0
        not_finite = sum(not is_finite(judged.finding) for judged in findings)
        return Recorded(stored, len(rows) - stored, withdrawn, not_finite)

    def closed_revision(self, request_id: str) -> int | None:
        """The highest revision at which the request closed; None if it never did (or was pruned)."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT revision FROM request WHERE id = ?", (clean_text(request_id),)
            ).fetchone()
        return None if row is None else int(row[0])

    def finding(self, request_id: str, check: str) -> StoredFinding | None:
        """What a check found in a request, at its highest revision; None where it was not judged (or was pruned)."""
        with self._database.reading() as connection:
            row = connection.execute(
                f"SELECT {FINDING_COLUMNS} FROM finding WHERE request_id = ? AND check_name = ?",  # noqa: S608
                (clean_text(request_id), check),
            ).fetchone()
        return None if row is None else finding_of(row)

    def findings(self, since: float, check: str | None = None) -> Iterator[StoredFinding]:
        """Findings recorded at or after `since`, oldest first, read page by page; what is recorded meanwhile
        may or may not be among them."""
        where = "" if check is None else "AND check_name = :check"
        position = {"at": since, "id": -1, "check": check, "page": _PAGE}
        while True:
            with self._database.reading() as connection:
                rows = connection.execute(
                    f"SELECT id, {FINDING_COLUMNS} FROM finding "  # noqa: S608 - constants only
                    f"WHERE (at, id) > (:at, :id) {where} ORDER BY at, id LIMIT :page",
                    position,
                ).fetchall()
            for row in rows:
                yield finding_of(row[1:])
            if len(rows) < _PAGE:
                return
            position |= {"id": rows[-1][0], "at": rows[-1][-1]}

    def finding_counts(self) -> dict[tuple[str, Outcome], int]:
        """How many findings are kept, by check and outcome."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT check_name, outcome, count(*) FROM finding GROUP BY check_name, outcome"
            ).fetchall()
        return {(check, Outcome(outcome)): count for check, outcome, count in rows}

    def save_state(self, name: str, state: State, at: float) -> None:
        """Keep a component's arrays, numbers and texts under a name, in place of what it kept before.

        Raises:
            TypeError: an entry is of another type (an array of objects, a list); what was kept before stays.
        """
        entries = encode_state(state)
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM state WHERE name = ?", (name,))
            connection.execute("INSERT INTO state VALUES (?, ?)", (name, at))
            connection.executemany(
                "INSERT INTO state_entry VALUES (?, ?, ?, ?)", [(name, *row) for row in entries]
            )

    def load_state(self, name: str) -> dict[str, Value] | None:
        """What was saved under the name, equal to the bit; None if nothing was.

        Raises:
            StoreDamagedError: an entry cannot be read.
        """
        with self._database.reading() as connection:
            known = connection.execute("SELECT 1 FROM state WHERE name = ?", (name,)).fetchone()
            entries = connection.execute(
                "SELECT key, kind, value FROM state_entry WHERE name = ? ORDER BY rowid", (name,)
            ).fetchall()
        try:
            return None if known is None else decode_state(entries)
        except ValueError as error:
            raise StoreDamagedError(self._database.path, f"state {name!r}: {error}") from error

    def state_names(self, prefix: str = "") -> tuple[str, ...]:
        """The names that begin so, in order."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT name FROM state ORDER BY name").fetchall()
        return tuple(name for (name,) in rows if name.startswith(prefix))

    def forget_state(self, name: str) -> None:
        """Keep nothing under a name any more; harmless where nothing is."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM state WHERE name = ?", (name,))

    def save_alert_states(self, states: Mapping[str, Mapping[str, Any]], at: float) -> None:
        """Keep the state of every guardrail, JSON values by name, in place of all that was kept before."""
        rows = [(name, to_json(dict(state)), at) for name, state in states.items()]
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM alert_state")
            connection.executemany("INSERT INTO alert_state VALUES (?, ?, ?)", rows)

    def load_alert_states(self) -> dict[str, dict[str, Any]]:
        """What `save_alert_states` kept last; empty if it never did."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT name, state FROM alert_state").fetchall()
        return {name: json.loads(state) for name, state in rows}

    def record_alert(self, alert: AlertRecord) -> None:
        """Keep an alert, or what has become of it: guardrail, slice and `fired_at` say which it is."""
        with self._database.transaction() as connection:
            connection.execute(
                f"INSERT INTO alert ({ALERT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) "  # noqa: S608 - constants only
                "ON CONFLICT DO UPDATE SET severity = excluded.severity, summary = excluded.summary, "
                "resolved_at = excluded.resolved_at",
                alert_row(alert),
            )

    def alerts(self, limit: int) -> tuple[AlertRecord, ...]:
        """The latest alerts, last fired first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT {ALERT_COLUMNS} FROM alert ORDER BY fired_at DESC, guardrail, slice LIMIT ?",  # noqa: S608
                (limit,),
            ).fetchall()
        return tuple(alert_of(row) for row in rows)

    def add_marker(self, marker: Marker) -> bool:
        """Keep a marker unless its change (service, kind, before, after) is known; True if it was new."""
        row = marker_row(marker)
        with self._database.transaction() as connection:
            added = connection.execute(
                f"INSERT INTO marker ({MARKER_COLUMNS}) SELECT ?1, ?2, ?3, ?4, ?5 "  # noqa: S608
                "WHERE NOT EXISTS (SELECT 1 FROM marker "
                "WHERE service = ?3 AND kind = ?2 AND after = ?5 AND before IS ?4)",
                row,
            ).rowcount
        return added == 1

    def markers(self, limit: int) -> tuple[Marker, ...]:
        """The latest change markers, newest first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT {MARKER_COLUMNS} FROM marker ORDER BY time DESC, id DESC LIMIT ?",  # noqa: S608
                (limit,),
            ).fetchall()
        return tuple(marker_of(row) for row in rows)

    def prune(self, before: float) -> int:
        """Erase findings and tombstones older than `before`, a bounded number of each a call: call it often.

        Returns how many rows went; 0 once nothing older is left.
        """
        with self._database.transaction() as connection:
            return sum(
                connection.execute(
                    f"DELETE FROM {table} WHERE {key} IN "  # noqa: S608 - constants only
                    f"(SELECT {key} FROM {table} WHERE {time} < ? ORDER BY {time} LIMIT {_PRUNE_ROWS})",
                    (before,),
                ).rowcount
                for table, key, time in (("finding", "id", "at"), ("request", "id", "closed_at"))
            )


_LEAVE_TOMBSTONE = """
    INSERT INTO request VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET revision = excluded.revision, closed_at = excluded.closed_at
    WHERE excluded.revision > revision
"""
_WITHDRAW = "DELETE FROM finding WHERE request_id = ? AND revision < ?"
_KEEP_FINDING = f"""
    INSERT INTO finding ({FINDING_COLUMNS}) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
    WHERE NOT EXISTS (SELECT 1 FROM request WHERE id = ?1 AND revision > ?3)
    ON CONFLICT DO UPDATE SET
        revision = excluded.revision, scorer = excluded.scorer, outcome = excluded.outcome,
        value = excluded.value, weight = excluded.weight, reason = excluded.reason,
        slices = excluded.slices, evidence = excluded.evidence, at = excluded.at
    WHERE excluded.revision > finding.revision
"""  # noqa: S608 - constants only
