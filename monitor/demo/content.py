"""What the demo's help centre knows and what its users ask; the golden set and the catalogue are derived from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Article(_Row):
    """One article of the help centre in one language."""

    id: str = Field(description="`kb-001` and so on.")
    title: str
    text: str
    metadata: Mapping[str, str] = Field(description="`tenant`, `locale`, `product`, `section`.")


class AskedQuestion(_Row):
    """What somebody asks, and in which language."""

    query: str
    locale: str
    intent: str


class Question(AskedQuestion):
    """A question that the help centre answers, and the articles that answer it."""

    gold: tuple[str, ...] = Field(min_length=1)
    tenant: str
    product: str


class UncoveredQuestion(AskedQuestion):
    """A question that no article answers: a rewards programme that marketing launched and nobody documented."""


_RowT = TypeVar("_RowT", bound=_Row)


@cache
def articles() -> tuple[Article, ...]:
    """All articles, in the order of their ids.

    >>> articles()[1].metadata["locale"]
    'de-DE'
    """
    return _rows("knowledge_base.jsonl", Article)


@cache
def questions() -> tuple[Question, ...]:
    """The question bank: several questions an article."""
    return _rows("questions.jsonl", Question)


@cache
def uncovered_questions() -> tuple[UncoveredQuestion, ...]:
    """Questions about what the help centre does not cover."""
    return _rows("uncovered.jsonl", UncoveredQuestion)


def write_golden(path: Path) -> None:
    """Write the golden set, one `{"query", "gold": [ids]}` a line."""
    _write(path, ({"query": question.query, "gold": question.gold} for question in questions()))


def write_catalogue(path: Path) -> None:
    """Write the document catalogue, one `{"id", "metadata"}` a line."""
    _write(path, ({"id": article.id, "metadata": article.metadata} for article in articles()))


def _rows(name: str, row: type[_RowT]) -> tuple[_RowT, ...]:
    text = files("monitor.demo").joinpath(name).read_text(encoding="utf-8")
    return tuple(row.model_validate_json(line) for line in text.splitlines() if line)


def _write(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
