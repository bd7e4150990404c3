"""What explains a drift: what is found, what is not, and how often nothing is called something."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import fisher_exact

from detectors.attribution import NOT_LOGGED, AttributionSettings, QueryUnit, explain
from detectors.explanation import DriftExplanation, MovedBy
from detectors.topics import name_of, topics_of
from detectors.vectors import NonFiniteVectors, TooFewRows

DIMENSIONS = 16
QUICK = AttributionSettings(meaning_slices=6, permutations=999, meaning_units=60, topics=8)
COUNTS = AttributionSettings(meaning_slices=0, topics=0)


def _places(intents: int) -> np.ndarray:
    return np.random.default_rng(99).normal(size=(intents, DIMENSIONS)) * 2.0


def _units(
    rng: np.random.Generator,
    count: int,
    weights: Sequence[float],
    *,
    mean_length: float = 1.5,
    moved: int | None = None,
    logged: bool = True,
) -> list[QueryUnit]:
    """Sessions about one intent each; the queries of the intent `moved` lie elsewhere."""
    places = _places(len(weights))
    share = np.asarray(weights) / np.sum(weights)
    found = []
    for intent in rng.choice(len(weights), count, p=share):
        length = int(rng.geometric(1.0 / mean_length))
        offset = 1.5 * np.eye(DIMENSIONS)[0] if intent == moved else 0.0
        vectors = places[intent] + offset + rng.normal(size=(length, DIMENSIONS))
        slices = {"intent": f"i{intent}", "tenant": "acme"} if logged else {}
        texts = tuple(f"about thing{intent} number{i}" for i in range(length))
        found.append(QueryUnit(vectors.astype(np.float32), texts, (slices,) * length))
    return found


def _found(explanation: DriftExplanation, kind: MovedBy) -> list[str]:
    return [one.value for one in explanation.findings if one.kind is kind]


def test_a_grown_intent_is_named_with_its_shares_and_its_queries() -> None:
    rng = np.random.default_rng(1)
    even, grown = [1.0] * 10, [1.0] * 9 + [4.0]
    explanation = explain(_units(rng, 400, even), _units(rng, 300, grown), QUICK, seed=3)
    first = explanation.findings[0]
    assert (first.field, first.value) in {("intent", "i9"), ("topic", '"thing9"')}
    mix = next(one for one in explanation.findings if one.kind is MovedBy.MIX)
    assert mix.value == "i9"
    assert mix.before.rate == mix.before.units / 400
    assert mix.before.lower < 0.1 < mix.before.upper
    assert mix.now.lower < 4 / 13 < mix.now.upper
    assert mix.q_value < 0.001
    assert len(mix.examples) == 3
    assert all("thing9" in text for text in mix.examples)
    assert mix.wording.startswith("intent = i9 grew from ")
    topic = next(one for one in explanation.findings if one.kind is MovedBy.TOPIC and "thing9" in one.value)
    assert topic.wording.startswith('topic "thing9" grew from ')
    assert json.loads(json.dumps(explanation.as_dict()))["tested"] == explanation.tested


def test_a_topic_gone_is_shown_by_queries_of_before() -> None:
    rng = np.random.default_rng(2)
    explanation = explain(_units(rng, 400, [1.0] * 6), _units(rng, 300, [1.0] * 5 + [1e-9]), QUICK)
    gone = next(one for one in explanation.findings if one.kind is MovedBy.MIX and one.value == "i5")
    assert "shrank" in gone.wording
    assert gone.now.units == 0
    assert gone.examples
    assert all("thing5" in text for text in gone.examples)


def test_other_queries_inside_a_slice_are_meaning_and_not_mix() -> None:
    rng = np.random.default_rng(5)
    even = [1.0] * 4
    explanation = explain(_units(rng, 400, even), _units(rng, 400, even, moved=2), QUICK)
    assert "i2" in _found(explanation, MovedBy.MEANING)
    assert not {"i0", "i1", "i3"} & set(_found(explanation, MovedBy.MEANING))
    assert not _found(explanation, MovedBy.MIX)
    inside = next(one for one in explanation.findings if one.value == "i2")
    assert "other queries than before" in inside.wording


def test_a_new_topic_is_found_where_nothing_is_logged() -> None:
    rng = np.random.default_rng(6)
    explanation = explain(
        _units(rng, 300, [1.0] * 5 + [1e-9], logged=False),
        _units(rng, 300, [1.0] * 5 + [0.8], logged=False),
        QUICK,
    )
    assert explanation.findings[0].kind is MovedBy.TOPIC
    assert explanation.findings[0].value == '"thing5"'


def test_a_slice_that_is_no_longer_logged_is_a_finding() -> None:
    rng = np.random.default_rng(7)
    explanation = explain(_units(rng, 100, [1.0]), _units(rng, 100, [1.0], logged=False), COUNTS)
    assert {(one.field, one.value) for one in explanation.findings} >= {("intent", NOT_LOGGED)}


def test_longer_sessions_about_the_same_move_nothing() -> None:
    rng = np.random.default_rng(8)
    even = [1.0] * 10
    explanation = explain(_units(rng, 400, even), _units(rng, 400, even, mean_length=8.0), QUICK)
    assert explanation.findings == ()
    assert explanation.wording == f"no slice and no topic stands out of {explanation.tested} tested"


def test_counts_are_of_units_and_p_is_fishers() -> None:
    rng = np.random.default_rng(9)
    units = _units(rng, 60, [1.0, 3.0]), _units(rng, 40, [3.0, 1.0])
    explanation = explain(*units, COUNTS)
    counts = [sum(one.slices[0]["intent"] == "i0" for one in side) for side in units]
    first = next(one for one in explanation.findings if one.value == "i0")
    assert (first.before.units, first.before.of, first.now.units, first.now.of) == (
        counts[0],
        60,
        counts[1],
        40,
    )
    expected = fisher_exact(np.array([[counts[0], 60 - counts[0]], [counts[1], 40 - counts[1]]])).pvalue
    assert first.p_value == pytest.approx(expected)
    assert first.q_value >= first.p_value


def test_nothing_moved_is_called_something_no_more_often_than_promised() -> None:
    """Every finding is false where nothing moved, so the rate of explanations with any finding is the FDR: 10 % of
    100 runs at most, within the binomial's 99.9 %."""
    rng = np.random.default_rng(10)
    settings = AttributionSettings(meaning_slices=2, permutations=999, meaning_units=30, topics=6)
    even = [1.0] * 12
    flagged = sum(
        bool(explain(_units(rng, 120, even), _units(rng, 80, even), settings, seed=seed).findings)
        for seed in range(100)
    )
    assert flagged <= 20


def test_what_was_not_tested_is_counted() -> None:
    rng = np.random.default_rng(11)
    rare = [1.0] * 3 + [0.02] * 10
    settings = AttributionSettings(max_values=2, topics=0, meaning_slices=0)
    explanation = explain(_units(rng, 100, rare), _units(rng, 100, rare), settings)
    assert explanation.tested == 2
    assert explanation.not_tested["mix_over_the_cap"] == 1
    assert explanation.not_tested["mix_too_few_units"] > 0
    assert explanation.not_tested["mix_in_every_unit"] == 1
    one_field = settings.model_copy(update={"max_fields": 1})
    assert (
        explain(_units(rng, 100, rare), _units(rng, 100, rare), one_field).not_tested["fields_over_the_cap"]
        == 1
    )


def test_it_is_the_same_under_the_same_seed() -> None:
    rng = np.random.default_rng(12)
    units = _units(rng, 100, [1.0] * 4), _units(rng, 100, [1.0, 1.0, 1.0, 4.0])
    assert explain(*units, QUICK, seed=5) == explain(*units, QUICK, seed=5)


def test_unusable_units_are_refused_by_type() -> None:
    rng = np.random.default_rng(13)
    good = _units(rng, 20, [1.0])
    with pytest.raises(TooFewRows):
        explain(good, good[:5])
    with pytest.raises(NonFiniteVectors):
        explain(good, [*good, QueryUnit(np.full((1, DIMENSIONS), np.nan), ("?",), ({},))])
    with pytest.raises(ValueError, match="one text"):
        QueryUnit(np.ones((2, 3)), ("one",), ({}, {}))


def test_topics_of_equal_rows_and_names_without_words() -> None:
    assert topics_of(np.ones((30, 4)), 5, np.random.default_rng(0)).tolist() == [0] * 30
    assert name_of(["", "?"], ["cheap flight"]) == ""
