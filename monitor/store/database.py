"""One SQLite connection behind one lock, with its errors put into words."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from monitor.store.errors import StoreDamagedError, StoreError
from monitor.store.schema import migrate

_BUSY_S = 5.0
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class Database:
    """The open state file. Several threads may use it: one at a time.

    WAL, and `synchronous=FULL`: the offset of a Kafka record is committed at the broker after our commit, so
    a commit that a power cut could take back (which NORMAL allows in WAL mode) would lose what the record
    held. It costs one fsync a batch. `secure_delete` because retention that leaves people's sentences in free
    pages is none.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._lock = threading.Lock()
        with self._translated():
            self._make_private()
            self._connection = sqlite3.connect(
                self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
        try:
            with self._translated():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of the block or nothing of it; on disk when the block is left.

        Raises:
            StoreError: nothing of it was kept.
        """
        with self._lock, self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has rolled back already
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection for one query; fetch all of it inside the block."""
        with self._lock, self._translated():
            yield self._connection

    def close(self) -> None:
        """Fold the WAL into the file and let go of it; closing twice is harmless."""
        with self._lock:
            self._connection.close()

    def _prepare(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        execute("PRAGMA secure_delete = ON")
        execute("PRAGMA foreign_keys = ON")
        (finding,) = execute("PRAGMA quick_check(1)").fetchone()
        if finding != "ok":
            raise StoreDamagedError(self.path, str(finding))
        migrate(self._connection, self.path)

    def _make_private(self) -> None:
        """The file holds what users asked: its owner alone may read it (WAL and shm files follow it)."""
        if self.path != ":memory:":
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            except OSError as error:
                raise StoreError(
                    f"{self.path}: the state file cannot be opened for writing ({error.strerror}). "
                    "Its folder must exist and be writable; set store.path to a place that is."
                ) from error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if type(error) is sqlite3.DatabaseError or _code(error) in _DAMAGE:
                raise StoreDamagedError(self.path, str(error)) from error
            raise StoreError(f"{self.path}: {error}") from error


def _code(error: sqlite3.Error) -> int | None:
    """The primary result code, without the extension in the upper bits."""
    extended = getattr(error, "sqlite_errorcode", None)
    return None if extended is None else extended & 0xFF
