"""Simulated users: who comes when, what they ask, and when they ask to have an answer again. Seeded, no clock."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from monitor.demo.content import AskedQuestion, Question, UncoveredQuestion, questions, uncovered_questions

LOCALE_SHARES = {"en-US": 0.46, "de-DE": 0.24, "fr-FR": 0.16, "pt-BR": 0.14}
TENANTS = ("velora", "heliox")
SESSION_LENGTHS = {1: 0.25, 2: 0.35, 3: 0.25, 4: 0.15}
PRODUCT_PAGE_SHARE = 0.3
"""Share of questions asked from a product's page, which then filters for that product."""
THINK_S = (0.4, 0.9)
"""Pause between two questions of a session, in compressed time."""
READ_S = (0.2, 0.8)
"""How long a user reads before asking for an answer again, in compressed time."""
REGENERATE_GOOD, REGENERATE_REFUSED, REGENERATE_WRONG = 0.02, 0.25, 0.12
"""How often a user asks for an answer again: after a good one, a refusal, and a wrong one, which few notice."""

_T = TypeVar("_T")

MEAN_SESSION_LENGTH = sum(length * share for length, share in SESSION_LENGTHS.items())


@dataclass(slots=True, frozen=True)
class Ask:
    """One question by one user; `product` is set where the user came from that product's page.

    `gold` are the articles that answer it, which the user's judgement knows and the service does not; empty where
    nothing does.
    """

    time_s: float
    query: str
    session: str
    user: str
    tenant: str
    locale: str
    product: str | None
    gold: tuple[str, ...]


class Users:
    """Sessions that arrive at random (Poisson), each of one user with one to four questions.

    >>> users = Users(seed=7, requests_per_second=20)
    >>> first = users.session(0.0, uncovered_share=0.0)[0]
    >>> first.session, first.gold != ()
    ('session-7-1', True)
    """

    def __init__(self, seed: int, requests_per_second: float) -> None:
        self._rng = random.Random(seed)
        # Reactions come in the order of the answers, which real time decides: they must not move who asks what.
        self._reactions = random.Random(seed + 1)
        self._seed = seed
        self._sessions = 0
        self._sessions_per_second = requests_per_second / MEAN_SESSION_LENGTH
        self._known: dict[tuple[str, str], list[Question]] = {}
        self._uncovered: dict[str, list[UncoveredQuestion]] = {}
        for question in questions():
            self._known.setdefault((question.tenant, question.locale), []).append(question)
        for uncovered in uncovered_questions():
            self._uncovered.setdefault(uncovered.locale, []).append(uncovered)

    def next_arrival(self, after_s: float) -> float:
        """When the next session begins."""
        return after_s + self._rng.expovariate(self._sessions_per_second)

    def session(self, start_s: float, uncovered_share: float) -> list[Ask]:
        """One user's questions; with probability `uncovered_share` the user came for what is not covered."""
        rng, self._sessions = self._rng, self._sessions + 1
        tenant, locale = rng.choice(TENANTS), _pick(rng, LOCALE_SHARES)
        session, user = f"session-{self._seed}-{self._sessions}", f"user-{rng.randrange(5000):04}"
        uncovered, length = rng.random() < uncovered_share, _pick(rng, SESSION_LENGTHS)
        pool: Sequence[AskedQuestion]
        pool = self._uncovered[locale] if uncovered else self._known[tenant, locale]
        asks, time_s = [], start_s
        for question in rng.sample(pool, length):
            known = question if isinstance(question, Question) else None
            product = known.product if known and rng.random() < PRODUCT_PAGE_SHARE else None
            gold = known.gold if known else ()
            asks.append(Ask(time_s, question.query, session, user, tenant, locale, product, gold))
            time_s += rng.uniform(*THINK_S)
        return asks

    def regenerates(self, ask: Ask, citations: Sequence[str], *, refused: bool, invented: bool) -> bool:
        """Whether the user who got this answer asks to have it again."""
        if refused:
            share = REGENERATE_REFUSED
        elif invented or not set(ask.gold) & set(citations):
            share = REGENERATE_WRONG
        else:
            share = REGENERATE_GOOD
        return self._reactions.random() < share

    def reading_time_s(self) -> float:
        """From the answer to the wish to have it again."""
        return self._reactions.uniform(*READ_S)


def _pick(rng: random.Random, shares: Mapping[_T, float]) -> _T:
    return rng.choices(list(shares), list(shares.values()))[0]
