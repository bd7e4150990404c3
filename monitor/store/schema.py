"""The tables, as the list of steps that led to them. A released step is never edited: add the next one."""

from __future__ import annotations

import sqlite3

from monitor.store.errors import ForeignFileError, SchemaTooNewError

APPLICATION_ID = 0x47574348
"""`GWCH` in the file's header, so that another program's database is never taken for ours."""

_JUDGED_TRAFFIC_AND_STATE = (
    """CREATE TABLE request (
        id TEXT PRIMARY KEY,
        revision INTEGER NOT NULL,
        closed_at REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX request_closed_at ON request (closed_at)",
    # The constraint is what keeps a NaN, which SQLite stores as NULL, from passing for "not scored".
    """CREATE TABLE finding (
        id INTEGER PRIMARY KEY,
        request_id TEXT NOT NULL,
        check_name TEXT NOT NULL,
        revision INTEGER NOT NULL,
        scorer TEXT NOT NULL,
        outcome TEXT NOT NULL,
        value REAL,
        weight REAL NOT NULL CHECK (weight >= 1),
        reason TEXT NOT NULL,
        slices TEXT NOT NULL,
        evidence TEXT NOT NULL,
        at REAL NOT NULL,
        UNIQUE (request_id, check_name),
        CHECK ((value IS NOT NULL) = (outcome = 'scored'))
    )""",
    "CREATE INDEX finding_at ON finding (at)",
    "CREATE TABLE state (name TEXT PRIMARY KEY, saved_at REAL NOT NULL) WITHOUT ROWID",
    """CREATE TABLE state_entry (
        name TEXT NOT NULL REFERENCES state (name) ON DELETE CASCADE,
        key TEXT NOT NULL,
        kind TEXT NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (name, key)
    )""",
)

_WHAT_PEOPLE_WERE_TOLD = (
    """CREATE TABLE alert_state (
        name TEXT PRIMARY KEY,
        state TEXT NOT NULL,
        saved_at REAL NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE alert (
        guardrail TEXT NOT NULL,
        slice TEXT NOT NULL,
        fired_at REAL NOT NULL,
        severity TEXT NOT NULL,
        summary TEXT NOT NULL,
        resolved_at REAL,
        PRIMARY KEY (guardrail, slice, fired_at)
    )""",
    """CREATE TABLE marker (
        id INTEGER PRIMARY KEY,
        time REAL NOT NULL,
        kind TEXT NOT NULL,
        service TEXT NOT NULL,
        before TEXT,
        after TEXT NOT NULL
    )""",
    "CREATE INDEX marker_change ON marker (service, kind, after, before)",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_JUDGED_TRAFFIC_AND_STATE, _WHAT_PEOPLE_WERE_TOLD)
"""Step i leads from version i to version i + 1; the version stands in `PRAGMA user_version`."""


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the file to the newest version, each step in a transaction of its own.

    Raises:
        ForeignFileError: the file holds another program's tables.
        SchemaTooNewError: a later version wrote it.
    """
    version = _owned_version(connection, path)
    for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def _owned_version(connection: sqlite3.Connection, path: str) -> int:
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if owner != APPLICATION_ID:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if owner or version or tables:
            raise ForeignFileError(path)
    if version > len(MIGRATIONS):
        raise SchemaTooNewError(path, version, len(MIGRATIONS))
    return int(version)
