"""Simulated users: reproducible, at the promised rate, in the promised mix."""

from __future__ import annotations

from collections import Counter

import pytest

from monitor.demo.content import uncovered_questions
from monitor.demo.traffic import LOCALE_SHARES, Ask, Users

UNCOVERED = {question.query for question in uncovered_questions()}


def play(seed: int, duration_s: float, uncovered_share: float = 0.0, rate: float = 20.0) -> list[Ask]:
    users = Users(seed, rate)
    asks: list[Ask] = []
    time_s = users.next_arrival(0.0)
    while time_s < duration_s:
        asks += users.session(time_s, uncovered_share)
        time_s = users.next_arrival(time_s)
    return asks


def test_the_same_seed_asks_the_same_and_another_does_not() -> None:
    assert play(4, 20.0) == play(4, 20.0)
    assert play(4, 20.0) != play(5, 20.0)


def test_reactions_do_not_move_who_asks_what() -> None:
    users, same = Users(4, 20.0), Users(4, 20.0)
    ask = users.session(0.0, 0.0)[0]
    same.session(0.0, 0.0)
    users.regenerates(ask, (), refused=True, invented=False)
    users.reading_time_s()
    assert users.session(1.0, 0.5) == same.session(1.0, 0.5)


def test_the_rate_is_kept() -> None:
    assert len(play(1, 600.0)) / 600.0 == pytest.approx(20.0, rel=0.05)


def test_sessions_have_one_user_and_one_to_four_different_questions() -> None:
    sessions: dict[str, list[Ask]] = {}
    for ask in play(2, 120.0):
        sessions.setdefault(ask.session, []).append(ask)
    assert {len(asks) for asks in sessions.values()} == {1, 2, 3, 4}
    for asks in sessions.values():
        assert len({(ask.user, ask.tenant, ask.locale) for ask in asks}) == 1
        assert len({ask.query for ask in asks}) == len(asks)
        assert [ask.time_s for ask in asks] == sorted(ask.time_s for ask in asks)


def test_locales_come_in_their_shares() -> None:
    asks = play(3, 600.0)
    counts = Counter(ask.locale for ask in asks)
    for locale, share in LOCALE_SHARES.items():
        assert counts[locale] / len(asks) == pytest.approx(share, abs=0.03)


def test_the_uncovered_share_is_kept_and_whole_sessions_ask_about_it() -> None:
    asks = play(3, 300.0, uncovered_share=0.65)
    assert sum(ask.query in UNCOVERED for ask in asks) / len(asks) == pytest.approx(0.65, abs=0.05)
    sessions: dict[str, set[bool]] = {}
    for ask in asks:
        sessions.setdefault(ask.session, set()).add(ask.query in UNCOVERED)
        assert (ask.gold == ()) == (ask.query in UNCOVERED)
    assert all(len(kinds) == 1 for kinds in sessions.values())
    assert not any(ask.query in UNCOVERED for ask in play(3, 60.0))


def test_users_regenerate_more_after_a_bad_answer() -> None:
    users = Users(6, 20.0)
    ask = users.session(0.0, 0.0)[0]

    def share(citations: tuple[str, ...], *, refused: bool = False, invented: bool = False) -> float:
        pressed = [users.regenerates(ask, citations, refused=refused, invented=invented) for _ in range(4000)]
        return sum(pressed) / len(pressed)

    good, wrong, refused = share(ask.gold), share(("kb-999",)), share((), refused=True)
    assert good < 0.04 < wrong < refused
    assert share(ask.gold, invented=True) > 2 * good
