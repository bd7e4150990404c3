"""At least so many of these conditions, in a language that has only and and or."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb

from collectors.predicate import (
    ALL,
    NOTHING,
    And,
    Not,
    Or,
    Predicate,
    UnparsedFilter,
    conjunction,
    disjunction,
)

MAX_WAYS = 64
"""Ways to meet the count that are still written out."""
MAX_NODES = 4_000
"""Nodes that they may have together."""


def at_least(count: int, conditions: Sequence[Predicate]) -> Predicate:
    """Any of the ways to meet `count` of the conditions. Raises `UnparsedFilter` where there are too many to write.

    >>> from collectors.predicate import Eq, to_text
    >>> to_text(at_least(2, [Eq(field=name, value=1) for name in "abc"]))
    '(a = 1 and b = 1) or (a = 1 and c = 1) or (b = 1 and c = 1)'
    """
    if count <= 0:
        return ALL
    if count > len(conditions):
        return NOTHING
    if comb(len(conditions), count) > MAX_WAYS:
        raise UnparsedFilter(
            f"{count} of {len(conditions)} conditions can be met in more than {MAX_WAYS} ways"
        )
    found = disjunction([conjunction(way) for way in combinations(conditions, count)])
    _check_size(found)
    return found


def _check_size(predicate: Predicate) -> None:
    """Counts inside counts multiply: what would be too long to print is not built upon."""
    stack, seen = [predicate], 0
    while stack:
        node = stack.pop()
        seen += 1
        if seen > MAX_NODES:
            raise UnparsedFilter(f"counts of conditions that take more than {MAX_NODES} nodes to write out")
        if isinstance(node, And | Or):
            stack.extend(node.items)
        elif isinstance(node, Not):
            stack.append(node.item)
