"""How a bench tells its figures: one JSON line each, then a table for people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple


class Figure(NamedTuple):
    """Ours beside a peer's, both in the unit that the name ends in; `ratio` is ours over the peer's, and `goal` the
    least that it should be, None where the figure is only told."""

    figure: str
    ours: float
    peer: float | None
    ratio: float | None
    goal: float | None = None

    @property
    def ok(self) -> bool:
        return self.goal is None or (self.ratio is not None and self.ratio >= self.goal)


def report(figures: Sequence[Figure]) -> None:
    """Print them."""
    for one in figures:
        print(json.dumps(one._asdict() | {"ok": one.ok}))
    width = max(len(one.figure) for one in figures)
    print(f"\n{'figure':{width}} {'ours':>12} {'peer':>12} {'ratio':>7} {'goal':>6}  ok")
    for one in figures:
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        peer = "" if one.peer is None else f"{one.peer:,.0f}"
        goal = "" if one.goal is None else f"{one.goal:.2f}"
        print(
            f"{one.figure:{width}} {one.ours:12,.0f} {peer:>12} {ratio:>7} {goal:>6}  {'yes' if one.ok else 'NO'}"
        )
