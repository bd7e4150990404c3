"""The shape of a span: which attributes it has, whatever is in them.

An instrumentation writes the same few shapes again and again. What follows from the names alone is worked out once for
each shape and kept with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_SHAPES = 1024
"""Shapes remembered at most, those used last."""
_MOST_NAMES = 256
"""A shape of more is not remembered, so that what is remembered stays small."""


class Shape:
    """The names of a span's attributes, kept in alphabetical order. Two of the same names may be two objects."""

    __slots__ = ("_groups", "has_nul", "longest", "members", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = tuple(sorted(names))
        self.members = frozenset(names)
        self.longest = max(map(len, names), default=0)
        self.has_nul = any("\0" in name for name in names)
        self._groups: dict[str, tuple[tuple[int, str, str], ...]] = {}

    def indexed(self, prefix: str) -> tuple[tuple[int, str, str], ...]:
        """Members of a flattened list, names `{prefix}{index}.{rest}`, as (index, rest, name).

        >>> Shape(("d.0.id", "d.0.score", "d.1.id", "d.x", "e")).indexed("d.")
        ((0, 'id', 'd.0.id'), (0, 'score', 'd.0.score'), (1, 'id', 'd.1.id'))
        """
        found = self._groups.get(prefix)
        if found is None:
            found = self._groups[prefix] = tuple(self._split(prefix))
        return found

    def _split(self, prefix: str) -> Any:
        skip = len(prefix)
        for name in self.names:
            if name.startswith(prefix):
                index, dot, rest = name[skip:].partition(".")
                if dot and index.isdecimal() and len(index) < 10:
                    yield int(index), rest, name


_remembered = lru_cache(_SHAPES)(Shape)


def shape_of(attributes: Mapping[str, object]) -> Shape:
    """The shape of these attributes."""
    known = getattr(attributes, "shape", None)
    return known if isinstance(known, Shape) else named(tuple(attributes))


def named(names: tuple[str, ...]) -> Shape:
    """The shape of these names, in any order."""
    return _remembered(names) if len(names) <= _MOST_NAMES else Shape(names)
