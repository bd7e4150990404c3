"""Known shifts made of a service's own queries, in sizes, to see what its alarms would notice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from detectors.attribution import QueryUnit
from detectors.topics import name_of, topics_of
from detectors.vectors import TooFewRows

_TOPICS = 20
_GROWN = (2.0, 4.0, 8.0)
_NOVEL = (0.05, 0.1, 0.2, 0.3)
_TURNS = (0.1, 0.5)
_FOREIGN = 0.5
"""Share of letters outside ASCII from which a text counts as of another script."""
_FEWEST = 20
"""Units of another script that are needed to mix them in."""
Rows = npt.NDArray[np.float32]


@dataclass(slots=True, frozen=True)
class Shift:
    """`kind` and `size` name it; its stream draws a unit of `added` with probability `share`, else one of `usual` with
    its weight, and turns it by `turn` radians."""

    kind: str
    size: str
    usual: Sequence[Rows]
    weights: npt.NDArray[np.float64]
    added: Sequence[Rows] = ()
    share: float = 0.0
    turn: float = 0.0

    def stream(self, rng: np.random.Generator) -> Iterator[Rows]:
        """Units for ever, drawn with replacement."""
        basis = _rotation(self.usual[0].shape[1], self.turn) if self.turn else None
        while True:
            if self.share and rng.random() < self.share:
                unit = self.added[int(rng.integers(len(self.added)))]
            else:
                unit = self.usual[int(rng.choice(len(self.usual), p=self.weights))]
            yield unit if basis is None else (unit @ basis).astype(np.float32)


@dataclass(slots=True, frozen=True)
class Laboratory:
    """A sample parted: `reference` for the alarms, `calm` for streams in which nothing moves, and the shifts. `skipped`
    says which shifts the sample does not allow, and why."""

    reference: list[Rows]
    calm: Shift
    shifts: tuple[Shift, ...]
    novel_topic: str
    skipped: tuple[str, ...]


def laboratory(units: Sequence[QueryUnit], rng: np.random.Generator) -> Laboratory:
    """Part the units in two halves at random; one topic of the label-blind ones is kept out of both, and is what is new
    later. Units of another script than most are kept out likewise. Raises TooFewRows where all queries are alike."""
    foreign = np.array([_is_foreign(unit) for unit in units])
    if foreign.mean() > 0.5:
        foreign = ~foreign
    means = np.array([unit.vectors.mean(axis=0) for unit in units])
    topic = topics_of(means, _TOPICS, rng)
    counts = np.bincount(topic[~foreign])
    sized = [number for number in np.argsort(counts) if counts[number] > 0]
    if len(sized) < 2:
        raise TooFewRows("the queries are all alike: shifts are made of at least two topics")
    novel, grown = sized[len(sized) // 3], sized[2 * len(sized) // 3]
    usual = np.flatnonzero(~foreign & (topic != novel))
    usual = rng.permutation(usual)
    half = len(usual) // 2
    rows = [unit.vectors.astype(np.float32) for unit in units]
    pool = [rows[i] for i in usual[half:]]
    is_grown = topic[usual[half:]] == grown
    even = np.full(len(pool), 1.0 / len(pool))
    calm = Shift("nothing moved", "", pool, even)
    known = [rows[i] for i in np.flatnonzero(topic == novel)]
    strangers = [rows[i] for i in np.flatnonzero(foreign)]
    shifts = [
        *(Shift("topic grown", f"{by:g} x", pool, _weighted(is_grown, by)) for by in _GROWN),
        Shift("topic gone", "", pool, _weighted(is_grown, 0.0)),
        *(Shift("novel topic", f"{share:.0%}", pool, even, known, share) for share in _NOVEL),
        *(Shift("encoder turned", f"{turn:g} rad", pool, even, turn=turn) for turn in _TURNS),
    ]
    skipped = []
    if len(strangers) >= _FEWEST:
        shifts += [Shift("other script", f"{share:.0%}", pool, even, strangers, share) for share in _NOVEL]
    else:
        skipped.append(f"other script: {len(strangers)} units of the sample have one, {_FEWEST} are needed")
    name = _name(units, topic == novel)
    return Laboratory([rows[i] for i in usual[:half]], calm, tuple(shifts), name, tuple(skipped))


def _weighted(chosen: npt.NDArray[np.bool_], by: float) -> npt.NDArray[np.float64]:
    weights = np.where(chosen, by, 1.0)
    shares: npt.NDArray[np.float64] = weights / weights.sum()
    return shares


def _rotation(dimensions: int, angle: float) -> npt.NDArray[np.float64]:
    """Every plane of a random basis turned by the angle."""
    basis, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(dimensions, dimensions)))
    turn = np.eye(dimensions) * np.cos(angle)
    for i in range(0, dimensions - 1, 2):
        turn[i, i + 1], turn[i + 1, i] = -np.sin(angle), np.sin(angle)
    turned: npt.NDArray[np.float64] = basis @ turn @ basis.T
    return turned


def _is_foreign(unit: QueryUnit) -> bool:
    letters = [character for character in "".join(unit.texts) if character.isalpha()]
    return bool(letters) and sum(not letter.isascii() for letter in letters) > _FOREIGN * len(letters)


def _name(units: Sequence[QueryUnit], chosen: npt.NDArray[np.bool_]) -> str:
    inside = [text for unit, is_in in zip(units, chosen, strict=True) if is_in for text in unit.texts if text]
    others = [text for unit, is_in in zip(units, chosen, strict=True) if not is_in for text in unit.texts]
    return name_of(inside, others) if inside else ""
