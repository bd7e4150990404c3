"""What moved when a drift alarm fires: slices, topics, and the queries that show it, false discoveries controlled.

Three questions are asked of a reference and a current sample of units, and all their p-values are adjusted together
(Benjamini & Hochberg 1995, whose false discovery rate holds under the positive dependence of overlapping slices,
Benjamini & Yekutieli 2001), so that the findings as a whole are wrong in a given share of cases at most:

- mix: does a slice take another share of the units? Fisher's exact test on counts of units, never of queries, since
  those of one session share their fate. Each unit votes with one of its queries, drawn by the seed: then longer
  sessions about the same things move nothing.
- topic: the same for clusters that were found without labels (`topics.py`).
- meaning: inside a slice, are other things asked than before? A permutation MMD of units (`mmd.py`).

The witness function of the kernel, mean k(q, current) - mean k(q, reference), only ranks the examples: as a test it
flags the neighbours of what moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from detectors.estimate import wilson
from detectors.explanation import DriftExplanation, DriftFinding, MovedBy, Share
from detectors.kernel import median_gamma
from detectors.mmd import permutation_test
from detectors.topics import name_of, topics_of
from detectors.vectors import TooFewRows, Units
from detectors.verdict import Vectors

NOT_LOGGED = "(not logged)"
"""The value of a slice that a query does not carry, where others do."""
_TOPIC = "topic"


class AttributionSettings(BaseModel):
    """How much is tested and what may be wrong of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    false_discovery_rate: float = Field(
        default=0.1, gt=0.0, lt=1.0, description="Share of findings that may be wrong, on average."
    )
    min_units: int = Field(
        default=10, ge=2, description="Units that a slice needs, both windows together, to be tested."
    )
    max_values: int = Field(
        default=200, ge=1, description="Values of one slice that are tested, the most frequent ones."
    )
    max_fields: int = Field(
        default=10, ge=1, description="Slices (intent, locale, ...) that are tested, in alphabetical order."
    )
    topics: int = Field(default=20, ge=0, description="Topics looked for without labels, at most; 0 = none.")
    meaning_slices: int = Field(
        default=20, ge=0, description="Slices inside which queries are compared, the most frequent ones."
    )
    meaning_units: int = Field(
        default=150, ge=20, description="Units of each window that such a comparison takes, at most."
    )
    permutations: int = Field(
        default=4999,
        ge=999,
        description="Relabellings of such a comparison; its smallest p is 1 / (1 + this).",
    )
    examples: int = Field(default=3, ge=0, description="Queries shown for each finding.")


@dataclass(slots=True, frozen=True)
class QueryUnit:
    """One unit (a session): vectors (queries, d), and for each query its text and its slices, empty where unknown."""

    vectors: Vectors
    texts: tuple[str, ...]
    slices: tuple[Mapping[str, str], ...]

    def __post_init__(self) -> None:
        if not len(self.vectors) == len(self.texts) == len(self.slices) > 0:
            raise ValueError(
                "a unit has one text and one set of slices for each of its vectors, and at least one"
            )


def explain(
    reference: Sequence[QueryUnit],
    current: Sequence[QueryUnit],
    settings: AttributionSettings | None = None,
    *,
    seed: int = 0,
) -> DriftExplanation:
    """What moved between the two. Raises an UnusableVectors where vectors cannot be compared or a side has fewer than
    `min_units` units."""
    settings = settings or AttributionSettings()
    if min(len(reference), len(current)) < settings.min_units:
        raise TooFewRows(f"an explanation needs {settings.min_units} units on each side")
    return _Attribution(_Pool.of(reference, current, seed), settings, seed).explanation()


@dataclass(slots=True, frozen=True)
class _Pool:
    """Both sides, row by row; the reference's units come first."""

    vectors: npt.NDArray[np.float32]
    unit: npt.NDArray[np.int64]
    """Of each row."""
    voter: npt.NDArray[np.int64]
    """The row that stands for each unit where units are counted."""
    texts: list[str]
    slices: list[Mapping[str, str]]
    n: int

    @classmethod
    def of(cls, reference: Sequence[QueryUnit], current: Sequence[QueryUnit], seed: int) -> _Pool:
        units = [*reference, *current]
        pooled = Units.of([one.vectors for one in units])
        counts = pooled.row_counts
        drawn = np.random.default_rng(seed).random(len(units))
        voter = np.cumsum(counts) - counts + (drawn * counts).astype(np.int64)
        texts = [text for one in units for text in one.texts]
        slices = [one for unit in units for one in unit.slices]
        unit = np.repeat(np.arange(len(units)), counts)
        return cls(pooled.rows.astype(np.float32), unit, voter, texts, slices, len(reference))

    @property
    def m(self) -> int:
        return len(self.voter) - self.n

    def is_current(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        is_current: npt.NDArray[np.bool_] = self.unit[rows] >= self.n
        return is_current


@dataclass(slots=True, frozen=True)
class _Test:
    """One hypothesis: p, the units on both sides, and the rows that belong to it."""

    kind: MovedBy
    field: str
    value: str
    before: int
    now: int
    p: float
    rows: Callable[[], npt.NDArray[np.int64]]


class _Attribution:
    """One explanation being made."""

    def __init__(self, pool: _Pool, settings: AttributionSettings, seed: int) -> None:
        self._pool = pool
        self._settings = settings
        self._rng = np.random.default_rng((seed, 1))
        self._seed = seed
        self._not_tested: Counter[str] = Counter()

    def explanation(self) -> DriftExplanation:
        from scipy.stats import false_discovery_control  # a second and 50 MB, for those that explain

        tests = [*self._mix(), *self._topics(), *self._meanings()]
        limit = self._settings.false_discovery_rate
        adjusted = false_discovery_control([one.p for one in tests]).tolist() if tests else []
        found = [(one, q) for one, q in zip(tests, adjusted, strict=True) if q <= limit]
        found.sort(key=lambda pair: (pair[1], pair[0].p, pair[0].field, pair[0].value))
        witness = self._witness() if found else np.empty(0, dtype=np.float32)
        findings = tuple(self._finding(one, q, witness) for one, q in found)
        pool = self._pool
        not_tested = {why: count for why, count in self._not_tested.items() if count}
        return DriftExplanation(findings, len(tests), pool.n, pool.m, limit, not_tested)

    def _mix(self) -> Iterable[_Test]:
        fields = sorted({name for one in self._pool.slices for name in one})
        self._not_tested["fields_over_the_cap"] += max(0, len(fields) - self._settings.max_fields)
        for field in fields[: self._settings.max_fields]:
            values = [one.get(field, NOT_LOGGED) for one in self._pool.slices]
            yield from self._counted(MovedBy.MIX, field, values)

    def _topics(self) -> Iterable[_Test]:
        if not self._settings.topics:
            return
        count = min(self._settings.topics, max(2, len(self._pool.voter) // self._settings.min_units))
        topics = topics_of(self._pool.vectors, count, self._rng)
        yield from self._counted(MovedBy.TOPIC, _TOPIC, [str(one) for one in topics])

    def _counted(self, kind: MovedBy, field: str, values: Sequence[str]) -> Iterable[_Test]:
        """Fisher's test of each value's count of units."""
        from scipy.stats import fisher_exact

        pool, every = self._pool, np.array(values)
        votes = every[pool.voter]
        before, now = Counter(votes[: pool.n].tolist()), Counter(votes[pool.n :].tolist())
        for value in self._testable(kind, before + now):
            a, b = before[value], now[value]
            p = float(fisher_exact(np.array([[a, pool.n - a], [b, pool.m - b]])).pvalue)
            yield _Test(kind, field, value, a, b, p, partial(_rows_of, every, value))

    def _testable(self, kind: MovedBy, counts: Counter[str]) -> list[str]:
        """The values that are tested, the most frequent first; one that all units or too few have says nothing."""
        frequent = sorted(counts, key=lambda value: (-counts[value], value))
        everywhere = [value for value in frequent if counts[value] == len(self._pool.voter)]
        rare = [value for value in frequent if counts[value] < self._settings.min_units]
        kept = [value for value in frequent if value not in {*everywhere, *rare}]
        self._not_tested[f"{kind}_in_every_unit"] += len(everywhere)
        self._not_tested[f"{kind}_too_few_units"] += len(rare)
        self._not_tested[f"{kind}_over_the_cap"] += max(0, len(kept) - self._settings.max_values)
        return kept[: self._settings.max_values]

    def _meanings(self) -> Iterable[_Test]:
        if not self._settings.meaning_slices:
            return
        sizes: Counter[tuple[str, str]] = Counter(
            pair for row in self._pool.voter for pair in self._pool.slices[row].items()
        )
        frequent = sorted(sizes, key=lambda pair: (-sizes[pair], pair))
        self._not_tested["meaning_over_the_cap"] += max(0, len(frequent) - self._settings.meaning_slices)
        for field, value in frequent[: self._settings.meaning_slices]:
            test = self._meaning(field, value)
            if test is not None:
                yield test

    def _meaning(self, field: str, value: str) -> _Test | None:
        rows = np.array([i for i, one in enumerate(self._pool.slices) if one.get(field) == value])
        current = self._pool.is_current(rows)
        sides = [self._units(rows[~current]), self._units(rows[current])]
        if min(map(len, sides)) < self._settings.min_units:
            self._not_tested["meaning_too_few_units"] += 1
            return None
        x, y = (self._some(side) for side in sides)
        p = permutation_test(x, y, permutations=self._settings.permutations, seed=self._seed).p_value
        return _Test(MovedBy.MEANING, field, value, len(sides[0]), len(sides[1]), p, lambda: rows)

    def _units(self, rows: npt.NDArray[np.int64]) -> list[npt.NDArray[np.float32]]:
        """What the rows hold of each unit."""
        if not len(rows):
            return []
        starts = np.flatnonzero(np.diff(self._pool.unit[rows])) + 1
        return np.split(self._pool.vectors[rows], starts)

    def _some(self, units: list[npt.NDArray[np.float32]]) -> list[npt.NDArray[np.float32]]:
        most = self._settings.meaning_units
        if len(units) <= most:
            return units
        return [units[i] for i in sorted(self._rng.choice(len(units), most, replace=False))]

    def _witness(self) -> npt.NDArray[np.float32]:
        """mean k(q, current) - mean k(q, reference) of each row, by up to 500 rows of each side."""
        vectors, current = self._pool.vectors, self._pool.unit >= self._pool.n
        gamma = median_gamma(vectors)
        means = []
        for side in (np.flatnonzero(current), np.flatnonzero(~current)):
            some = vectors[self._rng.permutation(side)[:500]]
            squared = (vectors**2).sum(axis=1)[:, None] + (some**2).sum(axis=1) - 2.0 * vectors @ some.T
            means.append(np.exp(-gamma * np.maximum(squared, 0.0)).mean(axis=1))
        witness: npt.NDArray[np.float32] = means[0] - means[1]
        return witness

    def _finding(self, test: _Test, q: float, witness: npt.NDArray[np.float32]) -> DriftFinding:
        pool, rows = self._pool, test.rows()
        before, now = _share(test.before, pool.n), _share(test.now, pool.m)
        grew = test.kind is MovedBy.MEANING or now.rate > before.rate
        shown = rows[pool.is_current(rows) == grew]
        shown = shown[np.argsort(-witness[shown] if grew else witness[shown], kind="stable")]
        texts = dict.fromkeys(pool.texts[row] for row in shown if pool.texts[row])
        value = self._topic_name(rows, test.value) if test.kind is MovedBy.TOPIC else test.value
        examples = tuple(texts)[: self._settings.examples]
        return DriftFinding(test.kind, test.field, value, before, now, test.p, q, examples)

    def _topic_name(self, rows: npt.NDArray[np.int64], number: str) -> str:
        inside = set(rows.tolist())
        texts = [self._pool.texts[row] for row in rows]
        others = [text for row, text in enumerate(self._pool.texts) if row not in inside]
        name = name_of(texts, others)
        return f'"{name}"' if name else f"no. {number}"


def _rows_of(values: npt.NDArray[np.str_], value: str) -> npt.NDArray[np.int64]:
    return np.flatnonzero(values == value)


def _share(units: int, of: int) -> Share:
    lower, upper = wilson(units, of)
    return Share(units, of, units / of, lower, upper)
