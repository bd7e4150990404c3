"""`lexical-1`: a faithfulness scorer without weights, for a first day and for machines that hold no model.

Six explainable features of an answer against its context go into one logistic model whose coefficients
stand below: how many different content words are new, which share of them is new, how little the worst
sentence repeats of the context's word pairs, how many numbers and how many capitalised names the context
does not hold, and whether the context is a record (JSON) rather than prose, since a record is always retold
in other words.

The coefficients were fitted by `tests/bench/fit_lexical.py` (every feature but the last may only count
against an answer) on 1,692 answers of six generators from RAGTruth (Niu et al. 2024, MIT), each task and
label weighing the same, so a score is no probability. With five folds grouped by source document it
reached, with the one threshold of 0.5:

| task | answers | AUC | balanced accuracy |
|---|---|---|---|
| question answering | 504 | .827 | .726 |
| summary | 594 | .661 | .620 |
| data to text | 594 | .653 | .609 |

These figures hold for its own domain and generators. It sees other words, not other meanings: a swapped
negation, a wrong number that stands elsewhere in the context or a true paraphrase fool it. Check it against
local labels first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from pydantic import BaseModel, ConfigDict, Field

from detectors.text import claims, words

FEATURES = (
    "novel_words",
    "novel_share",
    "worst_pair_novelty",
    "unsupported_numbers",
    "unsupported_names",
    "record",
)
COEFFICIENTS = (0.555, 1.903, 1.116, 0.954, 0.433, -1.178)
INTERCEPT = -3.15

_STOP_WORDS = frozenset(
    words(
        "a about above after all also an and any are as at be because been before being below between both "
        "but by can could did do does during each for from had has have he her here his how i if in into is "
        "it its just may me might more most must my no nor not of off on only or other our out over own "
        "same she should so some such than that the their them then there these they this those through to "
        "too under until up us very was we were what when where which while who whom why will with would "
        "you your"
    )
)
_SUFFIXES = (
    "ingly",
    "edly",
    "ations",
    "ation",
    "ings",
    "ing",
    "ies",
    "ied",
    "ely",
    "ers",
    "es",
    "ed",
    "er",
    "ly",
    "s",
    "e",
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NUMBER_WORDS = {
    word: float(value)
    for value, word in enumerate(words("zero one two three four five six seven eight nine ten eleven twelve"))
}
_RECORD_MARKS = '{}":'
_RECORD_SHARE = 0.04


class LexicalSettings(BaseModel):
    """Settings of the lexical scorer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="Scores below this count as unfaithful; calibrate it on local labels.",
    )


@dataclass(slots=True, frozen=True)
class Support:
    """What an answer shares with its context, and what it does not."""

    features: tuple[float, ...]
    """In the order of `FEATURES`."""
    novel_words: tuple[str, ...]
    numbers: tuple[str, ...]
    """Numbers of the answer that the context does not hold, as written."""
    names: tuple[str, ...]
    """Capitalised words inside sentences that the context does not hold, as written."""

    @property
    def score(self) -> float:
        """In (0, 1); higher is more consistent."""
        against = INTERCEPT + sum(c * f for c, f in zip(COEFFICIENTS, self.features, strict=True))
        return 1.0 / (1.0 + math.exp(against))


class LexicalScorer:
    """Scores how far the words of an answer come from its context; about 1 ms an answer of 100 words."""

    name = "lexical-1"

    def __init__(self, settings: LexicalSettings | None = None) -> None:
        self.threshold = (settings or LexicalSettings()).threshold

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One score in (0, 1) a pair of context and answer; higher is more consistent."""
        return [support(premise, hypothesis).score for premise, hypothesis in pairs]

    def explain(self, premise: str, hypothesis: str) -> Mapping[str, object]:
        """What stands in the answer and not in the context, for people."""
        found = support(premise, hypothesis)
        return {
            "novel_words": list(found.novel_words),
            "unsupported_numbers": list(found.numbers),
            "unsupported_names": list(found.names),
        }


def support(context: str, answer: str) -> Support:
    """Compare an answer with its context.

    >>> support("Refunds take five days.", "Refunds take 5 days. Our Zurich desk charges 40 francs.").numbers
    ('40',)
    """
    stems = [_stem(word) for word in words(context)]
    known, known_pairs = frozenset(stems), frozenset(pairwise(stems))
    content = 0
    novel: list[str] = []
    names: list[str] = []
    worst_pair_novelty = 0.0
    for sentence in claims(answer) or [answer]:
        written = words(sentence)
        pairs = list(pairwise(_stem(word) for word in written))
        worst_pair_novelty = max(
            worst_pair_novelty, sum(pair not in known_pairs for pair in pairs) / max(1, len(pairs))
        )
        plain = [(i, word) for i, word in enumerate(written) if _is_content(word)]
        new = [(i, word) for i, word in plain if _stem(word) not in known]
        content += len(plain)
        novel += [word for _, word in new]
        names += [word for i, word in new if i > 0 and word[0].isupper()]
    numbers = _unsupported_numbers(context, answer)
    features = (
        math.log1p(len({_stem(word) for word in novel})),
        len(novel) / max(1, content),
        worst_pair_novelty,
        math.log1p(len(numbers)),
        math.log1p(len(names)),
        float(_is_record(context)),
    )
    return Support(features, tuple(dict.fromkeys(novel)), numbers, tuple(dict.fromkeys(names)))


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    word = word.lower().removesuffix("'s").removesuffix("’s")
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word


def _is_content(word: str) -> bool:
    """Numbers are no content words: they are compared by value."""
    return word.lower() not in _STOP_WORDS and _NUMBER.match(word) is None


def _value(number: str) -> float:
    """`1,250` and `1250` are one number, `3,5` and `3.5` too."""
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", number):
        number = number.replace(",", "")
    whole, *rest = re.split(r"[.,]", number)
    return float(f"{whole}.{''.join(rest)}")


def _unsupported_numbers(context: str, answer: str) -> tuple[str, ...]:
    held = {_value(number) for number in _NUMBER.findall(context)}
    held |= {_NUMBER_WORDS[word] for word in words(context.lower()) if word in _NUMBER_WORDS}
    held |= {hour - 12 for hour in held if 13 <= hour <= 23}  # 17:30 is told as 5:30 pm
    return tuple(dict.fromkeys(number for number in _NUMBER.findall(answer) if _value(number) not in held))


def _is_record(context: str) -> bool:
    return sum(context.count(mark) for mark in _RECORD_MARKS) > _RECORD_SHARE * len(context)
