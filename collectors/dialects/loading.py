"""Filters as they arrive: parsed JSON, or text of JSON or Python; read within limits, before any dialect looks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from collectors.dialects.python_text import read_python
from collectors.predicate import UnparsedFilter

MAX_CHARS = 1 << 18
"""Characters of a filter's text."""
MAX_DEPTH = 64
"""Containers inside containers."""
MAX_VALUES = 10_000
"""Values in all containers together."""


def load(value: object) -> object:
    """The filter as plain values: a text is read as JSON, else as what Python prints. Raises `UnparsedFilter`.

    >>> load("{'tenant': 'acme', 'draft': False}")
    {'tenant': 'acme', 'draft': False}
    """
    if isinstance(value, str):
        value = _read(value)
    _check_size(value)
    return value


def load_mapping(value: object) -> Mapping[str, object]:
    """`load`, for notations that are a mapping; None, which is no filter, is the empty one."""
    loaded = load(value)
    if loaded is None:
        return {}
    if isinstance(loaded, Mapping):
        return loaded
    raise UnparsedFilter(f"not a mapping: {loaded!r:.200}")


def _read(text: str) -> object:
    if len(text) > MAX_CHARS:
        raise UnparsedFilter(f"longer than {MAX_CHARS} characters")
    try:
        return json.loads(text)
    except RecursionError:
        raise UnparsedFilter(f"nested deeper than {MAX_DEPTH}") from None
    except ValueError:
        return read_python(text, MAX_DEPTH)


def _check_size(value: object) -> None:
    """Breadth first, so that no hostile nesting is recursed into before it is known to be shallow."""
    level: list[object] = [value]
    total = 0
    for _ in range(MAX_DEPTH + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        total += len(level)
        if total > MAX_VALUES:
            raise UnparsedFilter(f"more than {MAX_VALUES} values")
        if not level:
            return
    raise UnparsedFilter(f"nested deeper than {MAX_DEPTH}")


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise UnparsedFilter("a key is no text")
        return value.values()
    return value if isinstance(value, list | tuple) else ()
