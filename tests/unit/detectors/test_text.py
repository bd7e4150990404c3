"""Sentences, claims, citations and refusals."""

from __future__ import annotations

import time

import pytest

from detectors.text import claims, is_refusal_only, sentences, without_citations


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("It costs 3.50 euros. Ask Mr. Ito.", ["It costs 3.50 euros.", "Ask Mr. Ito."]),
        ("1. First\n2. Second\n\n* Third", ["First", "Second", "Third"]),
        ("退款需要五天。请稍候。", ["退款需要五天。", "请稍候。"]),
        ('He said "Stop." Then he left.', ['He said "Stop.', "Then he left."]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize("text", ["Yes.", "Of course!", "Could you say which plan you are on?", "", "—"])
def test_no_claim(text: str) -> None:
    assert claims(text) == []


def test_claims_in_scripts_without_spaces_count_characters() -> None:
    assert claims("退款需要五天。") == ["退款需要五天。"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It works [kb-101].", "It works."),
        ("It works [d3, d4] and [doc-1::2] too [^5].", "It works and too."),
        ("Set [optional] to [sic] on.", "Set [optional] to [sic] on."),
    ],
)
def test_citations_go_and_other_brackets_stay(text: str, expected: str) -> None:
    assert without_citations(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I don't know.",
        "I'm sorry, but I don't know. Please contact support.",
        "Unfortunately, I cannot answer that question.",
        "The provided context does not contain information about refunds.",
        "Based on the given passages, I am unable to answer this question.",
        "I could not find an answer in the knowledge base. Let me know if you have other questions.",
        "Das weiß ich leider nicht; ich weiß es nicht.",
        "Je ne sais pas.",
    ],
)
def test_refusals_and_nothing_else(text: str) -> None:
    assert is_refusal_only(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Refunds take five days.",
        "Unfortunately, refunds take ten days.",
        "I don't know the exact fee, but refunds usually take ten days.",
        "The context does not mention fees. The usual fee is 40 euros.",
        "I cannot answer fully. However, the plan includes 50 seats.",
        "Please contact support.",
    ],
)
def test_a_refusal_phrase_alone_is_not_enough(text: str) -> None:
    assert not is_refusal_only(text)


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "[1," * 20_000, "a. " * 30_000, "information " * 10_000, "i " * 30_000]
)
def test_hostile_text_costs_no_time(text: str) -> None:
    began = time.perf_counter()
    sentences(text), claims(text), without_citations(text), is_refusal_only(text)
    assert time.perf_counter() - began < 5.0
