"""One process owns a state file: two would each overwrite the other's windows and alert states."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from monitor.store.errors import StoreError


class Ownership:
    """A lock beside the state file that the system lets go of when the process ends, however it ends."""

    def __init__(self, lock: IO[str] | None) -> None:
        self._lock = lock

    @classmethod
    def take(cls, path: Path | str) -> Ownership:
        """Become the owner of the state file at `path`; of `":memory:"` everybody is. Raises StoreError where another
        process is."""
        if str(path) == ":memory:":
            return cls(None)
        beside = Path(f"{path}.lock")
        try:
            lock = beside.open("a", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"{beside}: cannot be opened for writing: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise StoreError(
                f"{path}: another process owns this state; stop it, or give this one a `store.path` of its own"
            ) from error
        return cls(lock)

    def release(self) -> None:
        """Give it up; twice is harmless."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
