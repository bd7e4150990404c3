"""What is known of the documents and of right answers: the catalogue and the golden set, read from JSON
Lines."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collectors.trace import RagTrace

PROBE_SLICE = "probe"
"""The slice of a trace that holds its probe id, where the request was a probe."""


class KnowledgeError(ValueError):
    """A catalogue or golden set that cannot be used; the message names file, line and field."""


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CatalogueRow(_Row):
    """One document: `{"id": "kb-1", "metadata": {"locale": "de-DE"}, "text": "..."}`."""

    id: str = Field(min_length=1, description="The document's id as the service logs it.")
    metadata: Mapping[str, object] = Field(description="Metadata as the service's filters see it.")
    text: str | None = Field(default=None, description="The document's text.")


class GoldenRow(_Row):
    """One query with its known answers: `{"query": "...", "gold": ["kb-1"], "probe_id": "p7"}`."""

    query: str = Field(min_length=1, description="The query as users ask it.")
    gold: tuple[str, ...] = Field(description="Ids of the documents that answer it; empty if nothing does.")
    probe_id: str | None = Field(
        default=None, min_length=1, description="Id that a probe of this query carries."
    )


class JsonlCatalogue:
    """Document metadata by id, from JSON Lines. Read once; immutable after that, so safe across threads."""

    def __init__(self, rows: Mapping[str, CatalogueRow]) -> None:
        self._rows = dict(rows)

    @classmethod
    def read(cls, path: Path) -> JsonlCatalogue:
        """Raises `KnowledgeError` for a file, line or field that cannot be used, and for an id that comes
        twice."""
        rows: dict[str, CatalogueRow] = {}
        for line, row in _rows(path, CatalogueRow):
            if row.id in rows:
                raise KnowledgeError(f"{path}:{line}: id: {row.id!r} stands on an earlier line too")
            rows[row.id] = row
        return cls(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def metadata(self, document_id: str) -> Mapping[str, object] | None:
        row = self._rows.get(document_id)
        return None if row is None else row.metadata

    def text(self, document_id: str) -> str | None:
        row = self._rows.get(document_id)
        return None if row is None else row.text


class JsonlGoldenSet:
    """Known answers by probe id, else by normalised query, from JSON Lines."""

    def __init__(
        self, by_query: Mapping[str, tuple[str, ...]], by_probe: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._by_query = dict(by_query)
        self._by_probe = dict(by_probe)

    @classmethod
    def read(cls, path: Path) -> JsonlGoldenSet:
        """Raises `KnowledgeError` as the catalogue does, and where one query or probe has two different
        golds."""
        by_query: dict[str, tuple[str, ...]] = {}
        by_probe: dict[str, tuple[str, ...]] = {}
        for line, row in _rows(path, GoldenRow):
            if by_query.setdefault(normalised(row.query), row.gold) != row.gold:
                raise KnowledgeError(f"{path}:{line}: query: {row.query!r} has other gold on an earlier line")
            if row.probe_id is not None and by_probe.setdefault(row.probe_id, row.gold) != row.gold:
                raise KnowledgeError(
                    f"{path}:{line}: probe_id: {row.probe_id!r} has other gold on an earlier line"
                )
        return cls(by_query, by_probe)

    def __len__(self) -> int:
        return len(self._by_query)

    def gold(self, trace: RagTrace) -> tuple[str, ...] | None:
        probe = trace.slices.get(PROBE_SLICE)
        if probe is not None and probe in self._by_probe:
            return self._by_probe[probe]
        return None if trace.query is None else self._by_query.get(normalised(trace.query))


def normalised(query: str) -> str:
    """What makes two queries the same: NFKC, case, white space and trailing punctuation do not count.

    >>> normalised("  How do I\\tget a REFUND ?! ")
    'how do i get a refund'
    """
    text = " ".join(unicodedata.normalize("NFKC", query).casefold().split())
    end = len(text)
    while end and (text[end - 1].isspace() or unicodedata.category(text[end - 1]).startswith("P")):
        end -= 1
    return text[:end]


Row = TypeVar("Row", bound=_Row)


def _rows(path: Path, model: type[Row]) -> Iterator[tuple[int, Row]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise KnowledgeError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise KnowledgeError(f"{path}: not UTF-8 at byte {error.start}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield number, model.model_validate(json.loads(line))
        except json.JSONDecodeError as error:
            raise KnowledgeError(f"{path}:{number}: not JSON: {error.msg} at column {error.colno}") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the line"
            raise KnowledgeError(f"{path}:{number}: {where}: {first['msg']}") from error
