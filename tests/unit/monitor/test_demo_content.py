"""The demo is honest only if its help centre truly answers its questions, and truly not the others."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from detectors.embedding import HashedNgramEncoder
from detectors.lexical import LexicalScorer
from detectors.text import without_citations
from monitor.demo.analysis import significant
from monitor.demo.answerer import Answer, Release, answer, relevant
from monitor.demo.content import (
    Question,
    articles,
    questions,
    uncovered_questions,
    write_catalogue,
    write_golden,
)
from monitor.demo.retriever import ArticleIndex, Clause, Hit, sentences
from monitor.demo.traffic import TENANTS

ENCODER = HashedNgramEncoder(dimensions=256)
INDEX = ArticleIndex(articles(), ENCODER)
SOUND = Release(version="2.0.4")


def search(query: str, tenant: str, locale: str, product: str | None = None) -> tuple[Hit, ...]:
    clauses = [Clause("tenant", tenant), Clause("locale", locale)]
    if product is not None:
        clauses.append(Clause("product", product))
    return INDEX.search(ENCODER.encode([significant(query)])[0], clauses)


def answered(question: Question, release: Release, rng: random.Random) -> tuple[Answer, tuple[Hit, ...]]:
    context = relevant(search(question.query, question.tenant, question.locale))
    return answer(context, question.locale, release, rng), context


def test_content_is_complete_and_consistent() -> None:
    by_id = {article.id: article for article in articles()}
    assert len(by_id) == len(articles()) >= 60
    assert {article.metadata["locale"] for article in articles()} == {"en-US", "de-DE", "fr-FR", "pt-BR"}
    assert len({question.query for question in questions()}) == len(questions()) >= 100
    for question in questions():
        for gold in question.gold:
            metadata = by_id[gold].metadata
            assert (metadata["tenant"], metadata["locale"]) == (question.tenant, question.locale)
            assert metadata["product"] == question.product
    assert {gold for question in questions() for gold in question.gold} == set(by_id)


def test_every_locale_has_enough_questions_for_the_longest_session() -> None:
    for locale in ("en-US", "de-DE", "fr-FR", "pt-BR"):
        assert sum(question.locale == locale for question in uncovered_questions()) >= 4
        for tenant in TENANTS:
            assert sum(q.tenant == tenant and q.locale == locale for q in questions()) >= 4


@pytest.mark.parametrize("from_product_page", [False, True])
def test_gold_is_retrieved_under_the_right_filter(from_product_page: bool) -> None:
    found = [
        bool(
            {
                hit.article.id
                for hit in search(q.query, q.tenant, q.locale, q.product if from_product_page else None)
            }
            & set(q.gold)
        )
        for q in questions()
    ]
    assert sum(found) / len(found) >= 0.9


def test_the_hard_coded_locale_removes_every_answer_to_other_languages() -> None:
    others = [q for q in questions() if q.locale != "en-US"]
    for question in others:
        hits = search(question.query, question.tenant, "en-US")
        assert not {hit.article.id for hit in hits} & set(question.gold)
    refused = [not relevant(search(q.query, q.tenant, "en-US")) for q in others]
    assert sum(refused) / len(refused) >= 0.9


def test_entitlement_is_never_crossed() -> None:
    for question in questions():
        for hit in search(question.query, question.tenant, question.locale):
            assert hit.article.metadata["tenant"] == question.tenant


def test_covered_questions_are_answered_and_uncovered_ones_refused() -> None:
    covered = [not relevant(search(q.query, q.tenant, q.locale)) for q in questions()]
    uncovered = [
        not relevant(search(q.query, tenant, q.locale)) for q in uncovered_questions() for tenant in TENANTS
    ]
    assert sum(covered) / len(covered) <= 0.1
    assert sum(uncovered) / len(uncovered) >= 0.9


def test_sound_answers_quote_their_context_word_for_word() -> None:
    rng = random.Random(3)
    for question in questions():
        given, context = answered(question, SOUND, rng)
        if given.refused:
            continue
        texts = {hit.article.id: hit.article.text for hit in context}
        assert not given.invented
        assert given.citations
        for sentence in sentences(without_citations(given.text)):
            assert any(sentence in texts[article_id] for article_id in given.citations)


def test_invented_facts_stand_in_no_article() -> None:
    rng = random.Random(3)
    library = " ".join(article.text for article in articles())
    scorer = LexicalScorer()
    for question in questions():
        given, context = answered(question, Release(version="2.2.0", invention_share=1.0), rng)
        if given.refused:
            assert not given.invented
            continue
        assert given.invented
        assert sum(sentence not in library for sentence in sentences(without_citations(given.text))) == 2
        premise = "\n\n".join(hit.article.text for hit in context)
        assert scorer.score([(premise, without_citations(given.text))])[0] < scorer.threshold


def test_the_invention_share_is_kept() -> None:
    rng = random.Random(5)
    context = relevant(search("How long does it take to charge the battery?", "velora", "en-US"))
    release = Release(version="2.2.0", invention_share=0.8)
    invented = sum(answer(context, "en-US", release, rng).invented for _ in range(2000))
    assert 1520 <= invented <= 1680


def test_refusals_are_in_the_users_language() -> None:
    texts = {
        answer((), locale, SOUND, random.Random(0)).text for locale in ("en-US", "de-DE", "fr-FR", "pt-BR")
    }
    assert len(texts) == 4


def test_search_orders_by_score_and_honours_top_k() -> None:
    vector = ENCODER.encode(["charge battery"])[0]
    everything = INDEX.search(vector, (), top_k=1000)
    assert len(everything) == len(articles())
    assert [hit.score for hit in everything] == sorted((hit.score for hit in everything), reverse=True)
    assert INDEX.search(vector, (), top_k=2) == everything[:2]
    assert INDEX.search(vector, (Clause("tenant", "nobody"),)) == ()


def test_stop_words_alone_are_kept_rather_than_lost() -> None:
    assert significant("what is it") == "what is it"


def test_golden_set_and_catalogue_come_from_the_same_content(tmp_path: Path) -> None:
    write_golden(tmp_path / "golden.jsonl")
    write_catalogue(tmp_path / "catalogue.jsonl")
    golden = [json.loads(line) for line in (tmp_path / "golden.jsonl").read_text("utf-8").splitlines()]
    catalogue = [json.loads(line) for line in (tmp_path / "catalogue.jsonl").read_text("utf-8").splitlines()]
    assert [(row["query"], tuple(row["gold"])) for row in golden] == [(q.query, q.gold) for q in questions()]
    assert {row["id"]: row["metadata"] for row in catalogue} == {a.id: a.metadata for a in articles()}
