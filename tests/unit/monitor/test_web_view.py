"""The headline: one sentence for each way that things can stand."""

from __future__ import annotations

import pytest
import web_scenes

from monitor.status import GuardrailStatus, Status
from monitor.web import figures, view


def with_states(**states: str) -> Status:
    """The quiet scene, with these guardrails on all traffic in these states."""
    scene = web_scenes.quiet()
    rows = [
        row.model_copy(
            update={"state": states.get(row.guardrail, row.state) if row.slice == "all" else row.state}
        )
        for row in scene.guardrails
    ]
    return scene.model_copy(update={"guardrails": tuple(rows)})


def spoken(status: Status) -> tuple[str, str]:
    headline = view.headline(status)
    return headline.tone, headline.sentence.replace(figures.NARROW, " ")


@pytest.mark.parametrize(
    ("states", "tone", "sentence"),
    [
        ({}, "ok", "All 6 guardrails hold"),
        ({"cost": "no_data"}, "no_data", "5 of 6 guardrails hold; 1 has no evidence"),
        ({"cost": "no_data", "latency": "no_data"}, "no_data", "4 of 6 guardrails hold; 2 have no evidence"),
        (
            {"cost": "pending"},
            "pending",
            "cost is pending on all traffic: at least $0.00895 a query",
        ),
        (
            {"cost": "firing", "latency": "pending"},
            "firing",
            "cost is firing on all traffic: at least $0.00895 a query",
        ),
        ({"cost": "firing", "latency": "firing"}, "firing", "2 of 6 guardrails are firing"),
        (
            {"regeneration": "firing"},
            "firing",
            "regeneration is firing on all traffic: 4.7 % (1.5 % to 7.9 %) of answers were asked for again",
        ),
        (
            {"query_drift": "firing"},
            "firing",
            "query_drift is firing on all traffic: the queries' embeddings have left their reference window",
        ),
    ],
)  # fmt: skip
def test_the_worst_is_said_first(states: dict[str, str], tone: str, sentence: str) -> None:
    assert spoken(with_states(**states)) == (tone, sentence)


def test_nothing_configured_is_not_all_well() -> None:
    status = web_scenes.quiet().model_copy(update={"guardrails": ()})
    assert spoken(status) == ("no_data", "No guardrail is configured, so nothing is watched")


def test_evidence_that_ended_is_not_evidence_that_never_came() -> None:
    every = dict.fromkeys((row.guardrail for row in web_scenes.quiet().guardrails), "no_data")
    assert spoken(with_states(**every)) == ("no_data", "No evidence now for any of 6 guardrails")
    assert spoken(web_scenes.fresh()) == ("no_data", "No evidence yet for any of 4 guardrails")


def test_a_rate_on_too_little_evidence_is_shown_as_that() -> None:
    groups = view.page(with_states(cost="no_data")).groups
    (word,) = (group.main.state_word for group in groups if group.main.item.guardrail == "cost")
    assert word == "too little evidence"


def test_a_firing_guardrail_without_numbers_says_what_it_can() -> None:
    row = web_scenes.incident().guardrails[2].model_copy(update={"estimate": None, "reason": ""})
    status = web_scenes.incident().model_copy(update={"guardrails": (row,)})
    assert spoken(status) == ("firing", "filter_exclusion is firing on all traffic")


def test_a_slice_that_fires_alone_is_named() -> None:
    scene = web_scenes.incident()
    rows = tuple(row for row in scene.guardrails if row.slice != "all" or row.guardrail != "filter_exclusion")
    assert spoken(scene.model_copy(update={"guardrails": rows}))[1].startswith(
        "filter_exclusion is firing on locale=de: at least 47.7 %"
    )


def test_troubled_slices_stand_apart_from_the_others() -> None:
    (group,) = (each for each in view.page(web_scenes.incident()).groups if each.others or each.troubled)
    assert group.main.scope == "all traffic"
    assert [row.scope for row in group.troubled] == ["locale=de"]
    assert [row.scope for row in group.others] == ["locale=en-US"]


def test_anchors_are_unique_even_where_names_look_alike() -> None:
    row: GuardrailStatus = web_scenes.quiet().guardrails[0]
    names = ["a b", "a-b", "a_b", "A b", "", "ü" * 200]
    anchors = {view.anchor(row.model_copy(update={"slice": name})) for name in names}
    assert len(anchors) == len(names)


def test_alerts_beyond_the_newest_are_counted() -> None:
    scene = web_scenes.quiet()
    many = tuple(
        scene.alerts[0].model_copy(update={"fired_at": scene.now - 60 * index}) for index in range(25)
    )
    page = view.page(scene.model_copy(update={"alerts": many}))
    assert (len(page.alerts), page.older_alerts) == (20, 5)
    assert page.alerts[0].fired_at == scene.now
