"""A templated answerer: quotes the best sentences of the best article with citations, or refuses.

It stands where a language model would. A release can be given a fault: it then adds facts that no article holds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from monitor.demo.retriever import Hit

RELEVANCE_FLOOR = 0.28
"""Cosine of the best passage below which nothing relevant was found."""
QUOTED_SENTENCES = 2

_REFUSALS = {
    "en-US": "Sorry, I could not find an answer in the help centre.",
    "de-DE": "Leider habe ich dazu keine Informationen im Hilfebereich gefunden.",
    "fr-FR": "Désolé, je ne trouve pas de réponse dans le centre d'aide.",
    "pt-BR": "Desculpe, não encontrei informações sobre isso na central de ajuda.",
}
_INVENTIONS = {
    "en-US": "Since last spring a handling surcharge of {fee} dollars also applies and is refunded after {days} weeks. "
    "{name} from the {city} office approves exceptions under regulation {rule}.",
    "de-DE": "Seit dem letzten Frühling gilt außerdem ein Bearbeitungszuschlag von {fee} Dollar, zurück gibt es ihn "
    "nach {days} Wochen. Ausnahmen genehmigt {name} vom Büro {city} gemäß Verordnung {rule}.",
    "fr-FR": "Depuis le printemps dernier, un supplément de traitement de {fee} dollars s'ajoute et revient "
    "après {days} semaines. Les exceptions sont approuvées par {name} du bureau de {city} selon le règlement {rule}.",
    "pt-BR": "Desde a primavera passada existe ainda um acréscimo de processamento de {fee} dólares, devolvido após "
    "{days} semanas. Exceções são aprovadas por {name} do escritório de {city} conforme o regulamento {rule}.",
}
_NAMES = ("Ingrid Solheim", "Marcus Adeyemi", "Beatrix Kowalczyk", "Tomasz Hallgren")
_CITIES = ("Tallinn", "Reykjavik", "Valletta", "Ljubljana")


class Release(BaseModel):
    """A version of the service and the faults that it ships with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str = Field(description="The `service.version` of its spans.")
    hard_coded_locale: str | None = Field(
        default=None, description="The relevance filter asks for this locale, whatever the user's is."
    )
    invention_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of answers that state facts which the context does not hold.",
    )


@dataclass(slots=True, frozen=True)
class Answer:
    """What the user reads; `citations` are article ids in order."""

    text: str
    citations: tuple[str, ...]
    refused: bool
    invented: bool = False


def relevant(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits that are worth sending to the model."""
    return tuple(hit for hit in hits if hit.score >= RELEVANCE_FLOOR)


def answer(context: Sequence[Hit], locale: str, release: Release, rng: random.Random) -> Answer:
    """Answer from the context (relevant hits, best first) in the user's language.

    >>> answer((), "en-US", Release(version="2.0.4"), random.Random(0)).refused
    True
    """
    if not context:
        return Answer(_REFUSALS[locale], (), refused=True)
    best = context[0]
    ranked = sorted(range(len(best.sentences)), key=lambda i: -best.sentences[i][0])
    chosen = sorted(ranked[:QUOTED_SENTENCES])
    text = " ".join(cited(best.sentences[i][1], best.article.id) for i in chosen)
    if rng.random() >= release.invention_share:
        return Answer(text, (best.article.id,), refused=False)
    return Answer(f"{text} {_invention(locale, rng)}", (best.article.id,), refused=False, invented=True)


def cited(sentence: str, article_id: str) -> str:
    """The sentence with its citation before the full stop.

    >>> cited("Rain keeps roofs clean.", "kb-001")
    'Rain keeps roofs clean [kb-001].'
    """
    return f"{sentence[:-1]} [{article_id}]{sentence[-1]}"


def _invention(locale: str, rng: random.Random) -> str:
    return _INVENTIONS[locale].format(
        fee=rng.randint(41, 89) + 0.5,
        days=rng.randint(11, 29),
        name=rng.choice(_NAMES),
        city=rng.choice(_CITIES),
        rule=rng.randint(610, 990),
    )
