"""What can go wrong with the state file, each with the file's name and what to do."""

from __future__ import annotations


class StoreError(Exception):
    """The store could not do what was asked; nothing of that call was kept."""


class StoreDamagedError(StoreError):
    """The file is no SQLite database, or its pages or an entry in it cannot be read."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(
            f"{path}: the state file is damaged ({detail}). Stop groundwatch, move the file and its -wal and "
            "-shm companions aside (or put a backup in their place) and start again: an absent file is made "
            "anew, and windows and references fill up from traffic."
        )


class SchemaTooNewError(StoreError):
    """A later groundwatch wrote the file."""

    def __init__(self, path: str, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"{path}: the state file has schema version {found}, this groundwatch knows versions up to "
            f"{known}. Run the version that wrote it or a later one, or point store.path at another file."
        )


class ForeignFileError(StoreError):
    """The file is a SQLite database of something else; it is left as it was."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: this SQLite file is another program's and was left alone. Set store.path to another."
        )
