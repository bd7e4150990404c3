"""A detector's state as flat entries: plain arrays, numbers and texts under dotted names. No pickle."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from detectors.vectors import Units
from detectors.verdict import State

Rows = npt.NDArray[np.float32]
Entries = dict[str, npt.NDArray[np.generic] | float | int | str]


def pack(units: list[tuple[float, Rows]]) -> Entries:
    """Units with their times as arrays."""
    rows = [unit for _, unit in units]
    return {
        "unit_times": np.array([time for time, _ in units], dtype=np.float64),
        "unit_sizes": np.array([len(unit) for unit in rows], dtype=np.int64),
        "unit_rows": np.concatenate(rows) if rows else np.empty((0, 0), dtype=np.float32),
    }


def unpack(state: State) -> list[tuple[float, Rows]]:
    """What `pack` was given."""
    sizes = np.asarray(state["unit_sizes"], dtype=np.int64)
    if not len(sizes):
        return []
    rows = np.split(np.array(state["unit_rows"], dtype=np.float32), np.cumsum(sizes)[:-1])
    return list(zip(np.asarray(state["unit_times"], dtype=np.float64).tolist(), rows, strict=True))


def units_of(state: State) -> Units:
    """The rows and sizes that `reference_rows` and `reference_sizes` hold."""
    sizes = np.array(state["reference_sizes"], dtype=np.int64)
    return Units(np.array(state["reference_rows"], dtype=np.float32), None if (sizes == 1).all() else sizes)


def number(state: State, key: str) -> float:
    """A number of the state, whether it comes plain or as a stored array of one."""
    plain: float = np.asarray(state[key]).item()
    return plain


def text(state: State, key: str) -> str:
    """A text of the state."""
    return str(np.asarray(state[key]).item())


def put(prefix: str, entries: State) -> Entries:
    """The entries under dotted names."""
    return {f"{prefix}.{name}": value for name, value in entries.items()}


def under(prefix: str, state: State) -> Entries:
    """The entries that `put` was given."""
    start = prefix + "."
    return {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}


def checked(state: State, version: int, needed: frozenset[str]) -> State:
    """The state itself. Raises ValueError where it is of another version or incomplete."""
    missing = (needed | {"version"}) - state.keys()
    if missing:
        raise ValueError(f"the state lacks {', '.join(sorted(missing))}")
    if number(state, "version") != version:
        raise ValueError(f"the state has version {state['version']}, not {version}")
    return state
