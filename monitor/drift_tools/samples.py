"""Files of queries as samples of units: vectors, or texts to be encoded, by session where one is known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from detectors.attribution import QueryUnit
from detectors.embedding import QueryEncoder

FORMATS = (
    '.npy of shape (queries, dimensions), or .jsonl with one query a line: a vector [0.1, ...], a text "...", or an '
    "object with vector (or embedding, query_embedding), text (or query), session, slices. What `groundwatch inspect` "
    "prints is such a file"
)
_VECTOR = ("vector", "embedding", "query_embedding")
_TEXT = ("text", "query")


class UnreadableSample(ValueError):  # noqa: N818 (says what the file is)
    """A file that is no sample of queries, with the reason and what would help."""


@dataclass(slots=True, frozen=True)
class _Query:
    vector: npt.NDArray[np.float32] | None
    text: str | None
    session: str | None = None
    slices: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Sample:
    """The queries of one file; `skipped` says line by line what could not be used."""

    path: Path
    queries: tuple[_Query, ...]
    skipped: tuple[str, ...] = ()

    @property
    def has_vectors(self) -> bool:
        return all(query.vector is not None for query in self.queries)

    @property
    def has_texts(self) -> bool:
        return all(query.text is not None for query in self.queries)

    def units(self, encoder: QueryEncoder | None) -> list[QueryUnit]:
        """Units in order of their first query: sessions, and single queries where none is named. With an encoder the
        texts are encoded; without one the file's own vectors count, and every query must have one."""
        vectors = self._encoded(encoder) if encoder else [query.vector for query in self.queries]
        members: dict[object, list[int]] = {}
        for number, query in enumerate(self.queries):
            members.setdefault(number if query.session is None else query.session, []).append(number)
        return [
            QueryUnit(
                np.stack([vector for i in rows if (vector := vectors[i]) is not None]),
                tuple(self.queries[i].text or "" for i in rows),
                tuple(self.queries[i].slices for i in rows),
            )
            for rows in members.values()
        ]

    def _encoded(self, encoder: QueryEncoder) -> list[npt.NDArray[np.float32] | None]:
        return list(encoder.encode([query.text or "" for query in self.queries]))


def read_sample(path: Path) -> Sample:
    """The queries of a file. Raises UnreadableSample where there are none, or none that can be read, and OSError."""
    if path.suffix == ".npy":
        return _from_array(path)
    if path.suffix in (".jsonl", ".ndjson"):
        return _from_lines(path)
    raise UnreadableSample(f"{path}: what it holds cannot be told from its name; a sample is a {FORMATS}")


def _from_array(path: Path) -> Sample:
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise UnreadableSample(f"{path}: no array that numpy.save wrote: {error}") from error
    if rows.ndim != 2 or not np.issubdtype(rows.dtype, np.number) or np.iscomplexobj(rows):
        raise UnreadableSample(
            f"{path}: holds {rows.dtype} of shape {rows.shape}; a sample is numbers of shape (queries, dimensions)"
        )
    return _checked(Sample(path, tuple(_Query(np.asarray(row, dtype=np.float32), None) for row in rows)))


def _from_lines(path: Path) -> Sample:
    queries, skipped = [], []
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            queries.append(_query(json.loads(line)))
        except (ValueError, RecursionError) as error:
            skipped.append(f"{path} line {number}: {error}")
    return _checked(Sample(path, tuple(queries), tuple(skipped)))


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        yield from file


def _checked(sample: Sample) -> Sample:
    if not sample.queries:
        first = f"; the first problem: {sample.skipped[0]}" if sample.skipped else ""
        raise UnreadableSample(f"{sample.path}: holds no query{first}")
    return sample


def _query(item: Any) -> _Query:
    if isinstance(item, str):
        return _Query(None, item)
    if isinstance(item, list):
        return _Query(_vector(item), None)
    if not isinstance(item, dict):
        raise ValueError("neither a vector, nor a text, nor an object with one of them")
    vector = _first(item, _VECTOR)
    text = _first(item, _TEXT)
    if vector is None and not isinstance(text, str):
        raise ValueError(f"has neither {' nor '.join((*_VECTOR, *_TEXT))}")
    slices = item.get("slices")
    return _Query(
        None if vector is None else _vector(vector),
        text if isinstance(text, str) else None,
        None if item.get("session") is None else str(item["session"]),
        {str(key): str(value) for key, value in slices.items()} if isinstance(slices, dict) else {},
    )


def _first(item: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((item[name] for name in names if item.get(name) is not None), None)


def _vector(values: Any) -> npt.NDArray[np.float32]:
    if not isinstance(values, list) or not values or not all(map(_is_number, values)):
        raise ValueError("a vector is a list of numbers")
    return np.array(values, dtype=np.float32)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
